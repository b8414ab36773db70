#!/usr/bin/env bash
# Kills a training run at random instants, again and again, and lets it go on: at its end the metrics and
# the checkpoint are those of a run that was never stopped, bit for bit.    tests/kill_random.sh BUILD
# KILLS sets how many (default 100); SEED repeats a test.
set -u
seqrun=$1/seqrun kills=${KILLS:-100} steps=60
RANDOM=${SEED:-$$}
echo "seed ${SEED:-$$}"
memory=/dev/shm # a kill loses nothing that a sync would keep
[ -w "$memory" ] || memory=${TMPDIR:-/tmp}
dir=$(mktemp -d -p "$memory")
trap 'rm -rf "$dir"' EXIT
train() { "$seqrun" tests/support/train_run.lua "$@"; }

begin=$EPOCHREALTIME
train "$dir/whole" "$steps" || exit 1
span=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%d", (b - a) * 1000000 }')
same() { # FOLDER: as the run that was never stopped
    cmp "$dir/whole/metrics.jsonl" "$1/metrics.jsonl" &&
        cmp "$dir/whole/step-0000000$steps/model.safetensors" "$1/step-0000000$steps/model.safetensors" &&
        cmp "$dir/whole/step-0000000$steps/trainer/optim.safetensors" "$1/step-0000000$steps/trainer/optim.safetensors" &&
        cmp "$dir/whole/step-0000000$steps/trainer/state.json" "$1/step-0000000$steps/trainer/state.json"
}

done_kills=0 runs=0
while [ "$done_kills" -lt "$kills" ]; do
    rm -rf "$dir/run"
    while [ "$done_kills" -lt "$kills" ]; do
        "$seqrun" tests/support/train_run.lua "$dir/run" "$steps" 2>"$dir/errors" &
        pid=$!
        sleep "$(awk -v r="$RANDOM" -v s="$span" 'BEGIN { printf "%.4f", r / 32768 * s / 1000000 }')"
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        rc=$?
        [ "$rc" -eq 137 ] || [ "$rc" -eq 0 ] || { cat "$dir/errors"; echo "a resumed run ended with $rc"; exit 1; }
        [ "$rc" -eq 137 ] && done_kills=$((done_kills + 1))
        [ "$rc" -eq 0 ] && break
    done
    train "$dir/run" "$steps" || { echo "the run does not go on"; exit 1; }
    same "$dir/run" || { echo "after kill $done_kills the run differs from one that was never stopped"; exit 1; }
    runs=$((runs + 1))
done
echo "$done_kills kills in $runs runs, all ended like one that was never stopped"
