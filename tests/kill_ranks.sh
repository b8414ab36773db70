#!/usr/bin/env bash
# Kills one rank of a training run at random times and resumes it: no rank may be left behind, and in the end
# metrics and checkpoint must equal those of an uninterrupted run, bit for bit.    tests/kill_ranks.sh BUILD
# COUNT sets the number of kills (default 5; 4 with sanitizers, 200 in make test-long), RANKS that of ranks; SEED repeats a test.
set -u
default=5
[ "${SAN:-0}" = 1 ] && default=4
[ "${LONG:-0}" = 1 ] && default=200
seqrun=$1/seqrun kills=${COUNT:-$default} ranks=${RANKS:-2} steps=20
[ -e "$1/seqrun_mpi.so" ] && command -v mpirun >/dev/null || { echo "no MPI: openmpi-bin was not found"; exit 77; }
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # MPI does not free all of its own memory
RANDOM=${SEED:=$$}
memory=/dev/shm # a kill, unlike a power cut, does not lose unsynced data
[ -w "$memory" ] || memory=${TMPDIR:-/tmp}
dir=$(mktemp -d -p "$memory")
trap 'rm -rf "$dir"' EXIT
read -r -a words < <("$seqrun" tests/support/small_run.lua words "$dir") || exit 1
words+=(--max-steps "$steps" save.every=2 threads=1)

fail() {
    cat "$dir/errors"
    echo "seed $SEED: after $killed kills: $1"
    exit 1
}

killed=0
begin=$EPOCHREALTIME
mpirun -n "$ranks" "$seqrun" "${words[@]}" --out "$dir/whole" >"$dir/errors" 2>&1 || fail "a run exited with $?"
span=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%d", (b - a) * 1000000 }')

# The ranks of a mpirun.
children() { cat "/proc/$1/task/$1/children" 2>/dev/null || pgrep -P "$1"; }

is_alive() { case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in '' | Z* | X*) return 1 ;; esac; }

# Fails if one of these processes lives for a minute more.
no_orphan() {
    for pid in "$@"; do
        for _ in $(seq 600); do
            is_alive "$pid" || continue 2
            sleep 0.1
        done
        fail "process $pid was left behind"
    done
}

# Waits for mpirun; its exit code is in `rc`.  That of Open MPI 4.1 with PMIx 4.2 may deadlock at its own end, in
# PMIx_server_finalize, when a rank dies as it connects: the ranks are gone then, and mpirun is ended and counted.
hung=0
finish() {
    for _ in $(seq 600); do
        is_alive "$1" || break
        sleep 0.1
    done
    no_orphan "${pids[@]}"
    if is_alive "$1"; then
        kill -9 "$1"
        hung=$((hung + 1))
    fi
    wait "$1"
    rc=$?
}

runs=0
while [ "$killed" -lt "$kills" ]; do
    rm -rf "$dir/run"
    rc=137
    while [ "$rc" -ne 0 ] && [ "$killed" -lt "$kills" ]; do
        mpirun -n "$ranks" "$seqrun" "${words[@]}" --out "$dir/run" --resume >"$dir/errors" 2>&1 &
        job=$!
        sleep "$(awk -v r="$RANDOM" -v s="$span" 'BEGIN { printf "%.4f", r / 32768 * s / 1000000 }')"
        read -r -a pids < <(children "$job" | tr '\n' ' ')
        [ "${#pids[@]}" -gt 0 ] && kill -9 "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null
        finish "$job"
        case $rc in
        0) ;;
        137 | 8) killed=$((killed + 1)) ;;
        *) fail "mpirun returned $rc" ;;
        esac
    done
    [ "$rc" -eq 0 ] ||
        mpirun -n "$ranks" "$seqrun" "${words[@]}" --out "$dir/run" --resume >"$dir/errors" 2>&1 ||
        fail "a resumed run exited with $?"
    "$seqrun" tests/support/small_run.lua same "$dir/whole" "$dir/run" "$steps" ||
        fail "the run differs from an uninterrupted one"
    runs=$((runs + 1))
done
[ "$hung" -eq 0 ] || echo "mpirun itself hung $hung times after its ranks had ended"
echo "$killed kills in $runs runs of $ranks ranks, $SECONDS s, all equal to an uninterrupted run (seed $SEED)"
