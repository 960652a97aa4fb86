#!/bin/sh
# Builds toolbox.wasm and writes down what it was built from. Needs Debian's clang, lld, wasi-libc and
# libclang-rt-14-dev-wasm32 (another number with another clang).
set -eu
cd "$(dirname "$0")/.."
clang --target=wasm32-wasi --sysroot=/usr -Os -Wall -Wextra -Wl,--strip-all -o toolbox.wasm toolbox/toolbox.c
chmod 0644 toolbox.wasm
sha256sum toolbox/toolbox.c toolbox.wasm >toolbox/SHA256SUMS
