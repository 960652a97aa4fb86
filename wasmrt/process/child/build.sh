#!/bin/sh
# Builds the containers' program into ../embed/child.gz, which package process embeds.
set -eu
cd "$(dirname "$0")"
out=../embed/child
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$out" .
gzip -9 -n -c "$out" >"$out.gz"
rm "$out"
