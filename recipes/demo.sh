#!/bin/sh
# Trains a small BERT on two novels: recipes/demo.sh PROGRAM [key.path=value or --option ...].
# Phase 1 trains on short sequences, phase 2 continues with long, packed ones.  Then the model goes on with
# the definitions of WordNet's nouns, without labels, and learns from a hundred labelled ones of each domain
# to which domain a noun belongs.  The same model with random weights learns that for comparison, in as many
# steps, and three lines are labelled.  This part needs Debian's package wordnet-base, or WORDNET=DIRECTORY.
# The definitions on which both are evaluated are in no training data.  Further arguments are
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
domain() { # NAME WEIGHTS: fine-tunes the pretrained model, or the same with random weights
    name=$1
    weights=$2
    shift 2
    step "$program" recipes/finetune_classify.lua preset=demo "data.train=$data/wordnet/train.tsv" \
        "data.dev=$data/wordnet/dev.tsv" "data.folder=$data" "init.from=$out/definitions" "init.carry=$weights" \
        --out "$out/$name" "$@"
}
if [ -e "$wordnet/data.noun" ]; then
    step "$program" recipes/data/wordnet.lua "folder=$wordnet" labelled=100 --out "$data/wordnet"
    step "$program" recipes/prepare.lua "inputs=[$data/wordnet/definitions.txt]" "out=$data/wordnet/definitions.sqr" \
        "vocab.file=$data/novels.vocab.txt"
    step "$program" recipes/bert_phase1.lua preset=demo "data.file=$data/wordnet/definitions.sqr" data.nsp=false \
        batch.sequences=128 rate.total=560 rate.warmup=50 "init.from=$out/phase2" --out "$out/definitions" "$@"
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
