#!/usr/bin/env bash
# Kills a save at each of its system calls: either the old or the new checkpoint must be intact, and the
# next run must clean up and continue.      tests/kill_syscalls.sh BUILD
set -u
seqrun=$1/seqrun
command -v strace >/dev/null || { echo "skipped: no strace"; exit 77; }
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # leak checks do not work under a tracer
memory=/dev/shm # a kill, unlike a power cut, does not lose unsynced data
[ -w "$memory" ] || memory=${TMPDIR:-/tmp}
dir=$(mktemp -d -p "$memory")
trap 'rm -rf "$dir"' EXIT
strace -f -o "$dir/trace" true 2>/dev/null || { echo "skipped: no strace (tracing is forbidden here)"; exit 77; }

victim() { "$@" "$seqrun" tests/support/save_run.lua "$dir/run" 3 3; }
"$seqrun" tests/support/save_run.lua "$dir/before" 1 2 || exit 1

# the system calls of the save: a line "NAME N" for the N-th call of each name
cp -r "$dir/before" "$dir/run"
victim strace -f -o "$dir/trace" || exit 1
awk '{ sub(/^[0-9]+ +/, "") }
     match($0, /^[a-z_0-9]+\(/) {
         name = substr($0, 1, RLENGTH - 1); count[name]++
         if (index($0, "/end-of-the-run")) running = 0
         if (running && name !~ /^(brk|mmap|munmap|mprotect|futex|madvise|exit_group)$/) print name, count[name]
         if (index($0, "/begin-of-the-run")) running = 1
     }' "$dir/trace" >"$dir/points"

points=0 bad=0
while read -r name n; do
    points=$((points + 1))
    rm -rf "$dir/run" && cp -r "$dir/before" "$dir/run"
    victim strace -f -o /dev/null -e "inject=$name:signal=KILL:when=$n" >/dev/null 2>&1
    "$seqrun" tests/support/check_run.lua "$dir/run" 2 2>/dev/null &&
        "$seqrun" tests/support/save_run.lua "$dir/run" 4 4 &&
        "$seqrun" tests/support/check_run.lua "$dir/run" 4 &&
        [ -z "$(find "$dir/run" -mindepth 1 -name '.*')" ] && continue
    echo "killed at $name number $n: the run is damaged"
    bad=$((bad + 1))
done <"$dir/points"
echo "killed at $points system calls, $bad left damage"
[ "$points" -ge 50 ] && [ "$bad" -eq 0 ]
