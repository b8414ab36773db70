#!/usr/bin/env bash
# The first five minutes of somebody new, as a script: tests/newcomer.sh BUILD.  What the README and
# the pages of help promise, typed in order, in a folder of its own.
set -eu
build=$(cd "${1:-build}" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
seqrun=$build/seqrun
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ln -s "$root/recipes" recipes

fail() {
    echo "newcomer: $*" >&2
    exit 1
}

# expect CODE WORDS...: runs the program, keeps what it said in `said`.
expect() {
    local want=$1 got=0
    shift
    said=$("$seqrun" "$@" 2>&1 </dev/null) || got=$?
    [ "$got" -eq "$want" ] || fail "seqrun $* ended with $got, not $want: $said"
}

shows() {
    case $said in *"$1"*) ;; *) fail "'$1' is not in: $said" ;; esac
}

expect 0 help
shows "run a recipe"
expect 0 version --json
"$seqrun" doctor >/dev/null || [ $? -eq 1 ] || fail "doctor fell ill"

# data, and what packing will do with it
head -n 4000 recipes/data/emma.txt >text.txt
expect 0 recipes/prepare.lua "inputs=[text.txt]" vocab.size=800 out=runs/data/text.sqr
expect 0 info runs/data/text.sqr --json

small="data.file=runs/data/text.sqr model.hidden_size=32 model.intermediate_size=64 batch.sequences=16 rate.total=30
       rate.warmup=3 log.every=5 eval.updates=1"
# shellcheck disable=SC2086
{
    expect 0 recipes/tiny.lua $small --dry-run
    shows "lower bound"
    [ ! -e runs/tiny ] || fail "a dry run left something behind"

    # a slip of the keyboard
    expect 2 recipes/tiny.lua $small optimzer.decay=0.1
    shows "did you mean 'optimizer'?"
    shows "^~~~~~~~"

    # a run, stopped and taken up again
    expect 0 recipes/tiny.lua $small --max-steps 10
    expect 2 recipes/tiny.lua $small
    shows "--resume"
    expect 0 recipes/tiny.lua --resume
    shows "resumed from runs/tiny/step-000000010 at step 10"
    shows "times as fast as padded"
}
[ "$(tail -n 2 runs/tiny/metrics.jsonl | head -n 1 | grep -c '"step":30')" -eq 1 ] || fail "the metrics do not end at step 30"
expect 0 info runs/tiny --json

# the prompt
said=$(printf '1 + 1\nsr.tensor({1, 2, 3}):sum()\n' | "$seqrun")
shows 2
shows 6
expect 2 recipies/tiny.lua
expect 2 toknize
shows "did you mean 'tokenize'?"
echo "newcomer: well received"
