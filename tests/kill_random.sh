#!/usr/bin/env bash
# Kills a training run at random instants, again and again, and lets it go on: at its end the metrics and
# the checkpoint are those of a run that was never stopped, bit for bit.    tests/kill_random.sh BUILD
# KILLS sets how many (default 100); SEED repeats a test.
set -u
seqrun=$1/seqrun kills=${KILLS:-100} steps=20
RANDOM=${SEED:=$$}
memory=/dev/shm # a kill loses nothing that a sync would keep
[ -w "$memory" ] || memory=${TMPDIR:-/tmp}
dir=$(mktemp -d -p "$memory")
trap 'rm -rf "$dir"' EXIT
read -r -a words < <("$seqrun" tests/support/small_run.lua words "$dir") || exit 1
words+=(--max-steps "$steps" save.every=2)

begin=$EPOCHREALTIME
"$seqrun" "${words[@]}" --out "$dir/whole" >"$dir/errors" 2>&1 || { cat "$dir/errors"; exit 1; }
span=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%d", (b - a) * 1000000 }')

killed=0 runs=0
while [ "$killed" -lt "$kills" ]; do
    rm -rf "$dir/run"
    rc=137
    while [ "$rc" -eq 137 ] && [ "$killed" -lt "$kills" ]; do
        "$seqrun" "${words[@]}" --out "$dir/run" --resume >"$dir/errors" 2>&1 &
        pid=$!
        sleep "$(awk -v r="$RANDOM" -v s="$span" 'BEGIN { printf "%.4f", r / 32768 * s / 1000000 }')"
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        rc=$?
        [ "$rc" -eq 137 ] && killed=$((killed + 1))
    done
    [ "$rc" -eq 137 ] && { "$seqrun" "${words[@]}" --out "$dir/run" --resume >"$dir/errors" 2>&1; rc=$?; }
    [ "$rc" -eq 0 ] || { cat "$dir/errors"; echo "seed $SEED: after $killed kills a resumed run ended with $rc"; exit 1; }
    "$seqrun" tests/support/small_run.lua same "$dir/whole" "$dir/run" "$steps" ||
        { echo "seed $SEED: after $killed kills the run differs from one that was never stopped"; exit 1; }
    runs=$((runs + 1))
done
echo "$killed kills in $runs runs, all ended like one that was never stopped (seed $SEED)"
