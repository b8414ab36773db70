#!/usr/bin/env bash
# The whole test suite: tests/run.sh BUILD.  `make test` builds the tests and calls it.
#
# Each C program, each replayed fuzz target and each `it` of a spec counts as one test.  Specs that hold objects of
# C run a second time with an eager garbage collector (LONG=1: all specs do), without tests tagged #slow and as far as
# they do not start the program: a child has a collector of its own.  With sanitizers that round leaves out the longest
# specs, and the first one tests tagged #slow, which plain builds run (LONG=1: none).  C programs skip by exit code
# 77 with the reason on their last line.  The commands in tests/faults and the other scripts in
# tests/*.sh test the program from outside, with the same exit codes.
#
# TEST_JOBS  number of parallel jobs (default: one more than processors, at most 5; some tests only wait)
# TEST_ONLY  run only jobs whose names match this pattern (grep -E)
set -u
build=${1:?usage: tests/run.sh BUILD}
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.." || exit 1
logs=$build/test-logs
rm -rf "$logs" && mkdir -p "$logs" || exit 1

export ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=1:strict_string_checks=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
[ -f tests/lsan.supp ] && export LSAN_OPTIONS="suppressions=$here/lsan.supp:print_suppressions=0"
limit=${TEST_LIMIT:-900} # seconds for one job

# ---- one job: NAME KIND COMMAND...; writes NAME.log (its output), NAME.tally and NAME.time -------------
run_job() {
    local name=$1 kind=$2 log=$logs/$1.log tally=$logs/$1.tally rc took TIMEFORMAT='%R %U %S'
    shift 2
    { time timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null; } 2>"$logs/$name.time"
    rc=$?
    if [ "$kind" = program ]; then
        case $rc in
        0) echo "passed 1" >"$tally" ;;
        77) echo "skip $(tail -n 1 "$log")" >"$tally" ;;
        *) echo "failed 1" >"$tally" ;;
        esac
    elif [ ! -s "$tally" ]; then
        echo "failed 1" >"$tally"
    elif [ $rc -ne 0 ] && ! grep -q '^failed [1-9]' "$tally"; then
        echo "failed 1" >>"$tally" # no failed test, but a leak or crash
    fi
    [ $rc -eq 124 ] || [ $rc -eq 137 ] && echo "(stopped after $limit seconds)" >>"$log"
    took=$(awk '{ printf "%.1f s, cpu %.1f", $1, $2 + $3 }' "$logs/$name.time")
    {
        flock 9
        if grep -q '^failed [1-9]' "$tally"; then
            echo "FAILED $name ($took, exit $rc)"
            sed 's/^/    /' "$log" | tail -n 200
        else
            echo "ok     $name ($took)"
        fi
    } 9>>"$logs/lock"
}

jobs_max=${TEST_JOBS:-$(n=$(nproc); echo $(((n > 4 ? 4 : n) + 1)))}
queue=()
start_job() { # NAME KIND COMMAND...
    if [ -n "${TEST_ONLY:-}" ] && ! grep -qE "$TEST_ONLY" <<<"$1"; then return; fi
    queue+=("$(printf '%q ' "$@")")
}

# The longest jobs, which start first, so that none is left alone at the end.
first=" guide sh-first_minutes sh-isa sh-mutate electra limits faults attach resume sh-kill_ranks sh-power_cut sh-installed \
 sh-kill_random fault-commands sh-kill_syscalls attention finetune families_pretrain cuda_attention experts_run "
run_queue() {
    local turn job is_first
    for turn in 1 0; do
        for job in "${queue[@]}"; do
            is_first=0
            [[ $first == *" ${job%% *} "* ]] && is_first=1
            [ $is_first = $turn ] || continue
            while [ "$(jobs -rp | wc -l)" -ge "$jobs_max" ]; do wait -n; done
            eval "run_job $job" &
        done
    done
    wait
}

# Those with an eager collector, at least one for each file of lua/bind: of objects whose memory C holds.
eager=" analysis any_tokenizer arguments arrange attach_server background base batch bert checkpoint columns comm \
 concept config curriculum data heads history inputs metrics moments nn ops optim order pack plugin readers record shares \
 tensor text tokenizer views "

spec_round() { # ROUND OPTION...
    local round=$1 spec name
    shift
    for spec in tests/spec/*_spec.lua; do
        [ -e "$spec" ] || continue
        name=$(basename "$spec" _spec.lua)
        [[ $round == -gc && ${LONG:-0} = 0 && $eager != *" $name "* ]] && continue
        name=$name$round
        [[ " $left_out " == *" $name "* ]] && continue
        start_job "$name" specs "$build/seqrun" tests/run.lua "$@" "tally=$logs/$name.tally" "$spec"
    done
}

for program in tests/c/*.c; do
    name=$(basename "$program" .c)
    start_job "c-$name" program "$build/tests/$name"
done
for program in tests/simt/*.cu; do
    name=simt-$(basename "$program" .cu)
    [ -e "$build/tests/$name" ] && start_job "$name" program "$build/tests/$name"
done
for target in tests/fuzz/*.c; do
    [ -e "$target" ] || continue
    name=fuzz-$(basename "$target" .c)
    start_job "$name" program "$build/tests/$name"
done
for faults in tests/faults/*.lua; do # commands with a count and a seed (tests/faults/support/frame.lua)
    name=$(basename "$faults" .lua)
    if [ "$name" = commands ] && [ "${LONG:-0}" = 1 ]; then
        for kind in calls memory full writers; do
            start_job "fault-$kind" program env "KIND=$kind" "$build/seqrun" "$faults"
        done
        continue
    fi
    start_job "fault-$name" program "$build/seqrun" "$faults"
done
for script in tests/*.sh; do
    name=$(basename "$script" .sh)
    [ "$name" = run ] || start_job "sh-$name" program bash "$script" "$build"
done
left_out='' without=()
if [ "${SAN:-0}" = 1 ] && [ "${LONG:-0}" = 0 ]; then
    without=(without=slow)
    left_out="analysis-gc bert-gc config-gc ops-gc"
fi
spec_round "" "${without[@]}"
spec_round "-gc" gc=eager without=slow children=no
run_queue

# ---- skips that are allowed on this machine ------------------------------------------------------------
is_class() {
    case $1 in
    no-gpu) ! ls /dev/nvidia[0-9]* >/dev/null 2>&1 ;;
    no-nvcc) ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ] ;;
    no-g++) ! command -v g++ >/dev/null ;;
    no-avx2) ! grep -qw avx2 /proc/cpuinfo ;;
    no-avx512) ! grep -qw avx512f /proc/cpuinfo ;;
    no-bf16) ! grep -qw avx512_bf16 /proc/cpuinfo ;;
    amx) grep -qw amx_tile /proc/cpuinfo ;;
    no-amx) ! grep -qw amx_tile /proc/cpuinfo ;;
    not-root) [ "$(id -u)" -ne 0 ] ;;
    no-strace) ! strace -o /dev/null true 2>/dev/null ;;
    no-mounts) ! unshare -m true 2>/dev/null ;;
    no-loop) ! PATH=$PATH:/usr/sbin:/sbin sh -c 'mkfs.ext4 -V && losetup -f' >/dev/null 2>&1 ;;
    no-clang) ! command -v clang >/dev/null ;;
    no-mpi) ! { command -v mpirun && { pkg-config --exists ompi-c || pkg-config --exists mpich || command -v mpicc; }; } >/dev/null 2>&1 ;;
    no-dpkg-dev) ! command -v dpkg-shlibdeps >/dev/null ;;
    no-zsh) ! command -v zsh >/dev/null ;;
    no-fish) ! command -v fish >/dev/null ;;
    no-libedit) ! pkg-config --exists libedit ;;
    no-pty) ! script -qec true /dev/null </dev/null >/dev/null 2>&1 ;;
    sanitized) [ "${SAN:-0}" = 1 ] ;;
    *) return 1 ;;
    esac
}

allowed=()
while IFS=$'\t' read -r where words; do
    case $where in '' | \#*) continue ;; esac
    is_class "$where" && allowed+=("$words")
done <tests/skips.txt

is_listed() {
    local words
    for words in "${allowed[@]}"; do [[ $1 == *"$words"* ]] && return 0; done
    return 1
}

cat "$logs"/*.tally >"$logs/all" 2>/dev/null
# Processor and wall seconds of each job, the longest first.
for time in "$logs"/*.time; do
    awk -v name="$(basename "$time" .time)" '{ printf "%8.1f %8.1f %s\n", $2 + $3, $1, name }' "$time"
done | sort -rn >"$logs/times"
count() { awk -v what="$1" '$1 == what { n += $2 } END { print n + 0 }' "$logs/all"; }
passed=$(count passed) failed=$(count failed) skipped=0
declare -A seen
while read -r _ reason; do
    if is_listed "$reason"; then
        skipped=$((skipped + 1))
        seen[$reason]=$((${seen[$reason]:-0} + 1))
    else
        failed=$((failed + 1))
        echo "FAILED unexpected skip, not listed in tests/skips.txt for this machine: $reason"
    fi
done < <(grep '^skip ' "$logs/all")
for reason in "${!seen[@]}"; do echo "skipped ${seen[$reason]}: $reason"; done

# Finding no tests is a failure.
[ "$((passed + failed))" -gt 0 ] || failed=1
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
