#!/bin/sh
# From a novel to a small BERT: tools/demo.sh PROGRAM [key.path=value ...].  Phase 1 trains on short
# sequences, phase 2 goes on with long ones, packed.  Everything lands in runs/.
set -eu
program=$1
shift
step() {
    printf '\n== %s\n' "$*"
    "$@"
}
rm -rf runs/demo
mkdir -p runs/demo
step "$program" recipes/prepare.lua preset=demo --out runs/demo/data "$@"
step "$program" recipes/bert_phase1.lua preset=demo --out runs/demo/phase1 "$@"
step "$program" recipes/bert_phase2.lua preset=demo --out runs/demo/phase2 "$@"
