#!/bin/sh
# From two novels to a small BERT: tools/demo.sh PROGRAM.  Phase 1 trains on short sequences, phase 2
# goes on with long ones, packed.  The data set lands in runs/data, the rest in runs/demo.
set -eu
program=$1
step() {
    printf '\n== %s\n' "$*"
    "$@"
}
rm -rf runs/demo
mkdir -p runs/demo
step "$program" recipes/prepare.lua
step "$program" recipes/bert_phase1.lua preset=demo --out runs/demo/phase1
step "$program" recipes/bert_phase2.lua preset=demo --out runs/demo/phase2
step "$program" tools/demo_check.lua runs/demo
