#!/usr/bin/env bash
# Kills a training run at random times and resumes it, repeatedly: in the end, metrics and checkpoint must
# equal those of an uninterrupted run, bit for bit.    tests/kill_random.sh BUILD
# COUNT sets the number of kills (default 20; 10 with sanitizers, 1,000 in make test-long); SEED repeats a test.
set -u
default=20
[ "${SAN:-0}" = 1 ] && default=10
[ "${LONG:-0}" = 1 ] && default=1000
seqrun=$1/seqrun kills=${COUNT:-$default} steps=20
RANDOM=${SEED:=$$}
memory=/dev/shm # a kill, unlike a power cut, does not lose unsynced data
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
    [ "$rc" -eq 0 ] || { cat "$dir/errors"; echo "seed $SEED: after $killed kills, a resumed run exited with $rc"; exit 1; }
    "$seqrun" tests/support/small_run.lua same "$dir/whole" "$dir/run" "$steps" ||
        { echo "seed $SEED: after $killed kills, the run differs from an uninterrupted one"; exit 1; }
    runs=$((runs + 1))
done
echo "$killed kills in $runs runs, all equal to an uninterrupted run (seed $SEED)"
