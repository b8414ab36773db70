#!/bin/sh
# Trains a small BERT on two novels: recipes/demo.sh PROGRAM [key.path=value or --option ...].
# Phase 1 trains on short sequences, phase 2 continues with long, packed ones; then the model fills in words that
# are masked.  It goes on with the definitions of WordNet's nouns, without labels, and learns from twenty labelled
# ones of each domain to which domain a noun belongs.  The same model with random weights learns that for comparison,
# in as many steps, and three lines are labelled.  This part needs Debian's package wordnet-base, or WORDNET=DIRECTORY.
# The definitions on which both are evaluated are in no training data.  A report of all runs ends it.
# Further arguments are passed to all trainings (tests/first_minutes.sh asks for a few steps only); without any, the demo
# checks its results.  The data set is written to runs/data, the rest to runs/demo, which is emptied first;
# DEMO_OUT=DIR changes both.
set -eu
program=$1
shift
recipes=$(dirname "$0")
out=${DEMO_OUT:-runs/demo}
data=${DEMO_OUT:-runs/data}
title() { printf '\n---- %s\n' "$*"; }
step() {
    printf '\n$ %s\n' "$*"
    "$@"
}
rm -rf "$out"

title "two novels become a data set"
step "$program" "$recipes/prepare.lua" --out "$data"

title "pretraining: masked words, first in short sequences, then in packs of 512 tokens"
step "$program" "$recipes/bert_phase1.lua" preset=demo precision=auto "data.file=$data/novels.sqr" --out "$out/phase1" "$@"
# what phase 1 found faster, for all that follows: models are compared in one precision
precision=$(sed -n 's/^precision: */precision=/p' "$out/phase1/config.yaml")
step "$program" "$recipes/bert_phase2.lua" preset=demo "$precision" "data.file=$data/novels.sqr" \
    "init.from=$out/phase1" --out "$out/phase2" "$@"

title "ten sentences that are not in the novels, with a masked word"
printf '\n$ %s fill %s -k 4\n' "$program" "$out/phase2"
"$program" fill "$out/phase2" -k 4 <<'END'
Mr. and [MASK]. Weston were there.
Lady [MASK] was at the window.
Frank [MASK] was expected every day.
Miss [MASK] is a very pretty young woman.
"My dear [MASK]," said he, "you must go home."
I have no doubt [MASK] it, and I am glad.
I hope you will [MASK] happy.
She [MASK] not know what to answer.
"Oh! [MASK]," said Emma, "I am quite sure of it."
I am very [MASK] obliged to you for the book.
END

wordnet=${WORDNET:-/usr/share/wordnet}
domain() { # NAME WEIGHTS: fine-tunes the pretrained model, or the same with random weights
    name=$1
    weights=$2
    shift 2
    step "$program" "$recipes/finetune.lua" task=classify preset=demo "$precision" "data.train=$data/wordnet/train.tsv" \
        "data.dev=$data/wordnet/dev.tsv" "data.folder=$data" "init.from=$out/definitions" "init.carry=$weights" \
        --out "$out/$name" "$@"
}
if [ -e "$wordnet/data.noun" ]; then
    title "fine-tuning: the domain of a noun from its definition, pretrained and from random weights"
    step "$program" "$recipes/data/wordnet.lua" "folder=$wordnet" labelled=20 --out "$data/wordnet"
    step "$program" "$recipes/prepare.lua" "inputs=[$data/wordnet/definitions.txt]" \
        "out=$data/wordnet/definitions.sqr" "vocab.file=$data/novels.vocab.txt"
    step "$program" "$recipes/bert_phase1.lua" preset=demo "$precision" "data.file=$data/wordnet/definitions.sqr" \
        batch.sequences=64 rate.total=1500 rate.warmup=50 "init.from=$out/phase2" --out "$out/definitions" "$@"
    domain domains weights "$@"
    domain domains_untrained none "$@"
    printf '\n$ %s predict %s, with three lines\n' "$program" "$out/domains"
    printf '%s\n' 'someone who writes books' 'a sweet dish of fruit and sugar' 'a strong feeling of happiness' |
        "$program" predict --text "$out/domains"
else
    printf '\n%s is missing; apt-get install wordnet-base to see a fine-tuning\n' "$wordnet/data.noun"
fi

title "results"
step "$program" report "$out" -o "$out/report.html"
[ $# -gt 0 ] || step "$program" "$recipes/demo_check.lua" "$out"
printf '\nThe report of all runs is %s: open it in a browser.  Next:\n' "$out/report.html"
printf '  %-74s %s\n' "echo 'It was a very fine [MASK].' | $program fill $out/phase2" "fill in a sentence of yours" \
    "$program info $out/phase2" "look at the model" \
    "$program compare $out/domains $out/domains_untrained" "two runs side by side" \
    "$program $recipes/pretrain.lua data.file=$data/novels.sqr --dry-run" "plan a run of your own" \
    "$program new mine" "write a recipe of your own to change" \
    "$program" "the prompt: try help() and examples()"
