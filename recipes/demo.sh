#!/bin/sh
# Trains a small BERT on two novels: recipes/demo.sh PROGRAM [key.path=value or --option ...].
# Phase 1 trains on short sequences, phase 2 continues with long, packed ones.  Further arguments are
# passed to both phases (tests/first_minutes.sh asks for a few steps only); without any, the demo checks
# its results.  The data set is written to runs/data, the rest to runs/demo, which is emptied first;
# DEMO_OUT=DIR changes both.
set -eu
program=$1
shift
out=${DEMO_OUT:-runs/demo}
data=${DEMO_OUT:-runs/data}
step() {
    printf '\n$ %s\n' "$*"
    "$@"
}
rm -rf "$out"
step "$program" recipes/prepare.lua --out "$data"
step "$program" recipes/bert_phase1.lua preset=demo "data.file=$data/novels.sqr" --out "$out/phase1" "$@"
step "$program" recipes/bert_phase2.lua preset=demo "data.file=$data/novels.sqr" \
    "init.from=$out/phase1" --out "$out/phase2" "$@"
[ $# -gt 0 ] || step "$program" recipes/demo_check.lua "$out"
printf '\nThe model is in %s/phase2.  Next:\n' "$out"
printf '  %s\n' "$program info $out/phase2" "$program recipes/tiny.lua data.file=$data/novels.sqr --dry-run"
