#!/bin/sh
# Builds the modules in C and writes down what they were built from. Needs Debian's clang, lld, wasi-libc and
# libclang-rt-dev-wasm32.
set -eu
cd "$(dirname "$0")"
for name in hello pause toolbox; do
	clang --target=wasm32-wasi --sysroot=/usr -Os -Wall -Wextra -Wl,--strip-all -o "$name.wasm" "$name/$name.c"
done
chmod 0644 ./*.wasm
sha256sum include/edgepod.h hello/*.c pause/*.c toolbox/*.c ./*.wasm | sed 's| \./| |' >SHA256SUMS
