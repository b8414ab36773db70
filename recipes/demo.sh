#!/bin/sh
# Trains a small BERT on two novels: recipes/demo.sh PROGRAM [key.path=value or --option ...].
# Phase 1 trains on short sequences, phase 2 continues with long, packed ones.  Then the model learns to
# which domain a noun of WordNet belongs, once from phase 2 and once from random weights, and labels three
# lines.  This part needs Debian's package wordnet-base, or WORDNET=DIRECTORY.  Further arguments are
# passed to all trainings (tests/first_minutes.sh asks for a few steps only); without any, the demo checks
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

wordnet=${WORDNET:-/usr/share/wordnet}
domain() { # NAME WEIGHTS: fine-tunes the model of phase 2, with these weights
    name=$1
    weights=$2
    shift 2
    step "$program" recipes/finetune_classify.lua preset=demo "data.train=$data/wordnet/train.tsv" \
        "data.dev=$data/wordnet/dev.tsv" "data.folder=$data" "init.from=$out/phase2" "init.carry=$weights" \
        --out "$out/$name" "$@"
}
if [ -e "$wordnet/data.noun" ]; then
    step "$program" recipes/data/wordnet.lua "folder=$wordnet" --out "$data/wordnet"
    domain domains weights "$@"
    domain domains_untrained none "$@"
    printf '\n$ %s predict %s, with three lines\n' "$program" "$out/domains"
    printf '%s\n' 'a small animal with wings that eats insects' 'a sweet dish of fruit and sugar' \
        'a strong feeling of happiness' | "$program" predict --text "$out/domains"
else
    printf '\n%s is missing; apt-get install wordnet-base to see a fine-tuning\n' "$wordnet/data.noun"
fi
[ $# -gt 0 ] || step "$program" recipes/demo_check.lua "$out"
printf '\nThe model is in %s/phase2.  Next:\n' "$out"
printf '  %s\n' "$program info $out/phase2" "$program recipes/tiny.lua data.file=$data/novels.sqr --dry-run"
