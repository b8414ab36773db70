#!/bin/bash
# Every check and benchmark that needs a GPU, in three parts with a time limit each.
#
#     tests/gpu/run.sh [part=A|B|C] [device=cuda] [out=FOLDER] [seconds=N]
#
#     A  480 s  what is right and what is fast, in short: a spec of each op, attention, ops and steps of three sizes
#     B  540 s  all that must hold: every spec, the same bits again, training curves, the sanitizer
#     C  540 s  why it is as fast as it is: profiles of the largest kernels, PyTorch's steps, primitives bit by bit
#
# Without part= all of them run, one after the other; seconds= replaces the limit of each.  In a checkout, or in the folder
# that tests/gpu/bundle.sh makes, which needs no packages and no network.  device=simt rehearses it all, small, without a GPU.
#
# Prints a table of stages, and for part A the predicted and measured times.  FOLDER gets at most 7 files: DEVICE.tsv (label,
# model, tokens, op, microseconds, date), report-PART.txt and logs-PART.tar.gz.
#
# The exit code is 0 if every stage ran and passed, 1 if one failed, 3 if none failed but some were skipped (a tool or
# PyTorch is missing, or the time was over before a stage began or ended), and 4 if there is no device to run on.
# shellcheck disable=SC2317 # functions that stages call by name
set -u
usage() { echo "usage: run.sh [part=A|B|C] [device=cuda|simt] [out=FOLDER] [seconds=N]" >&2; exit 2; }
device=cuda out='' seconds='' part=''
for word in "$@"; do
    case $word in
    device=cuda | device=simt | out=?* | seconds=[1-9]* | part=[ABC]) declare "${word%%=*}=${word#*=}" ;;
    *) usage ;;
    esac
done
[[ $seconds =~ ^[0-9]*$ ]] || usage
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
out=${out:-$root/runs/gpu}
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
logs=$(mktemp -d) || exit 1 # logs of a part, and what stages hand on
trap 'rm -rf "$logs"' EXIT

# ---- where things are ----------------------------------------------------------------------------
bin=$root/build
own_libraries=${LD_LIBRARY_PATH:-} # of this machine: for its programs, such as python3
if [ -x "$root/bin/seqrun" ]; then # a bundle
    bin=$root/bin
    export LD_LIBRARY_PATH=$root/lib:${LD_LIBRARY_PATH:-}
fi
# cuBLASLt, where neither the linker nor CUDA's folder has it: that of PyTorch
find_lt() {
    timeout 10 find -L /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu -maxdepth 1 -name libcublasLt.so.13 -print -quit 2>/dev/null
    timeout 20 find /opt /usr/local/lib -maxdepth 9 -name libcublasLt.so.13 -print -quit 2>/dev/null
}
if [ "$device" = cuda ]; then
    lt=$(find_lt | head -1)
    [ -z "$lt" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:${lt%/*}"
fi
small= # keys of a model that the simt device trains in seconds
if [ "$device" != cuda ]; then
    export SEQRUN_SIMT_CHECK=0
    small="model.hidden_size=32 model.num_hidden_layers=1 model.num_attention_heads=1 model.intermediate_size=64
        batch.sequences=4 batch.micro_packs=4 data.max_len=64 mask.max=10"
fi

# ---- stages --------------------------------------------------------------------------------------
failures=0 skipped=0 # of all parts
begin=0 limit_of_part=0
report=
note() { # NAME STATE SECONDS TEXT
    report+=$(printf '%-34s %-8s %5ss  %s' "$1" "$2" "$3" "$4")$'\n'
    case $2 in skipped) skipped=$((skipped + 1)) ;; FAILED) failures=$((failures + 1)) ;; esac
}

# stage NAME LIMIT COMMAND...: runs it within the time that is left; its last line goes into the table.  Returns 1 if it failed.
stage() {
    local name=$1 limit=$2 from state=ok log text code=0 cut=
    shift 2
    from=$(date +%s)
    log=$logs/${name// /_}.log
    local left=$((limit_of_part - (from - begin)))
    if [ $left -lt 5 ]; then note "$name" skipped 0 "no time left"; return 0; fi
    [ "$limit" -le $left ] || limit=$left cut=yes
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 || code=$?
    text=$(tail -1 "$log" | cut -c1-120)
    if [ -n "$cut" ] && { [ $code -eq 124 ] || [ $code -eq 137 ]; }; then # neither good nor bad
        state=skipped text="cut after $limit s: no time left"
    elif [ $code -eq 124 ] || [ $code -eq 137 ]; then
        state=FAILED text="not done after $limit s: $text"
    elif [ $code -ne 0 ] || grep -q '^0 passed' "$log"; then # or ran no test
        state=FAILED
    fi
    note "$name" $state $(($(date +%s) - from)) "$text"
    [ $state = FAILED ] || return 0
    tail -15 "$log"
    return 1
}
torch() { LD_LIBRARY_PATH=$own_libraries python3 "$@"; }

facts() {
    if [ "$device" = cuda ]; then
        nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader || return 1
    fi
    "$bin/seqrun" doctor || true
    "$bin/seqrun" -e "(function() sr.use('$device') return sr.device() end)()"
}
specs() { # PATTERN SPEC...
    local pattern=$1 list=()
    shift
    for name in "$@"; do list+=("tests/spec/${name}_spec.lua"); done
    "$bin/seqrun" tests/run.lua "only=$pattern" "${list[@]}"
}
sanitized() { # TOOL PATTERN
    "$sanitizer" --tool "$1" --error-exitcode 9 "$bin/seqrun" tests/run.lua "only=$2" tests/spec/ops_spec.lua
}
tool() { command -v "$1" || echo "/usr/local/cuda/bin/$1"; }
sanitizer=$(tool compute-sanitizer) profiler=$(tool ncu)
no_sanitizer() { # why, in a few words; nothing if it works: not every virtual machine lets it
    [ -x "$sanitizer" ] || { echo "compute-sanitizer not found"; return; }
    timeout -k 5 40 "$sanitizer" --error-exitcode 9 "$bin/seqrun" -e "sr.use('cuda')" >"$logs/sanitizer.log" 2>&1 ||
        echo "compute-sanitizer does not run here: sanitizer.log"
}
work() { # MODEL TOKENS: what gpu-bench reads
    "$bin/seqrun" recipes/bench/roofline.lua model="$1" tokens="$2" dump="$logs/work-$1-$2.txt"
}
bench() { # MODEL TOKENS
    set -o pipefail
    work "$1" "$2" && "$bin/gpu-bench" "$device" "$label" <"$logs/work-$1-$2.txt" | tee -a "$tsv"
}
whole_step() { # MODEL TOKENS
    set -o pipefail
    "$bin/seqrun" recipes/bench/step.lua device="$device" model="$1" precision=bf16 packs=$(($2 / 512)) updates=1 \
        repeats=5 only=packed optimizer=lamb dump="$logs/packs-$1-$2.txt" tsv="$tsv" label="$label" | grep -E '^packed'
}
peer_attention() {
    torch recipes/bench/peers/torch_attention.py --tsv "$tsv" --label "$label"
}
peer() { # MODEL TOKENS
    [ -e "$logs/packs-$1-$2.txt" ] || whole_step "$1" "$2" || return 1
    torch recipes/bench/peers/torch_step.py "$logs/packs-$1-$2.txt" --model "$1" --device cuda --bf16 --compile \
        --only varlen,mask --repeats 5 --tsv "$tsv" --label "$label"
}
profile() { # KERNEL: its fourth launch, with all that limits it
    [ -e "$logs/work-large-16384.txt" ] || work large 16384 || return 1
    "$profiler" --clock-control none --set basic --section MemoryWorkloadAnalysis --section WarpStateStats \
        --kernel-name "regex:^$1" --launch-skip 3 --launch-count 1 "$bin/gpu-bench" "$device" "$label" \
        <"$logs/work-large-16384.txt" | grep -E '^ |==ERROR' && ! grep -q '==ERROR' "$logs/profile_of_$1.log"
}
primitives() {
    local program=$bin/gpu-conform
    [ "$device" = cuda ] || program=$bin/simt-conform
    "$program" >"$logs/conform_$label.tsv" && echo "$(wc -l <"$logs/conform_$label.tsv") lines in conform_$label.tsv"
}
export -f facts specs sanitized torch work bench whole_step peer peer_attention profile primitives
export bin device root sanitizer profiler own_libraries logs

label=simt has_torch=
if [ "$device" = cuda ]; then
    name=$(timeout -k 5 30 nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
    label=$(echo "$name" | grep -oE '[AHB][0-9]{2,3}' | head -1 | tr '[:upper:]' '[:lower:]')
    label=${label:-gpu}
    has_torch=$(LD_LIBRARY_PATH=$own_libraries timeout -k 5 60 python3 -c 'import torch; print("yes")' 2>/dev/null)
fi
tsv=$logs/$label.tsv
: >"$tsv"
export tsv label

# ---- the parts -----------------------------------------------------------------------------------
part_A() {
    if [ "$device" != cuda ]; then
        stage "a spec of each op" 60 bash -c 'specs simt cuda_small'
        stage "ops of tiny 512" 60 bash -c "bench tiny 512"
        stage "step of tiny 512" 60 bash -c "whole_step tiny 512"
        return
    fi
    stage "a spec of each op" 100 bash -c 'specs "^cuda in bf16 against ref" ops'
    stage "attention matrix" 90 bash -c "specs cuda cuda_attention"
    stage "ops of large 16384" 60 bash -c "bench large 16384"
    for case in "large 16384" "large 65536" "base 16384"; do stage "step of $case" 45 bash -c "whole_step $case"; done
    if [ -n "$has_torch" ]; then
        stage "PyTorch attention" 60 bash -c peer_attention
    else
        note "PyTorch attention" skipped 0 "torch not found"
    fi
}

part_B() {
    if [ "$device" != cuda ]; then
        stage "all specs" 60 bash -c 'specs simt optim'
        stage "repeat bitwise" 40 "$bin/seqrun" tests/gpu/repeat.lua "$device" 3
        # shellcheck disable=SC2086
        stage "training curves" 90 "$bin/seqrun" tests/gpu/curves.lua "$device" 2 $small
        return
    fi
    stage "all specs" 180 bash -c "specs cuda ops optim tensor bert cuda_rows cuda_small cuda_attention"
    stage "repeat bitwise" 60 "$bin/seqrun" tests/gpu/repeat.lua cuda 100
    stage "training curves" 90 "$bin/seqrun" tests/gpu/curves.lua cuda 50
    local why
    why=$(no_sanitizer)
    if [ -n "$why" ]; then note "memcheck, racecheck" skipped 0 "$why"; return; fi
    stage "memcheck" 90 bash -c 'sanitized memcheck "^cuda in bf16 against ref: [aemr][a-z_]*, around 16"'
    stage "racecheck" 90 bash -c 'sanitized racecheck "^cuda in bf16 against ref: attention, around 16"'
}

part_C() {
    stage "primitives" 30 bash -c primitives
    if [ "$device" != cuda ]; then return; fi
    if [ -x "$profiler" ]; then
        for kernel in forward backward norm_back_rows act_back_rows; do
            stage "profile of $kernel" 60 bash -c "profile $kernel"
        done
    else
        note "profiles" skipped 0 "ncu not found"
    fi
    if [ -n "$has_torch" ]; then
        for case in "large 16384" "base 16384"; do stage "PyTorch step of $case" 120 bash -c "peer $case"; done
    else
        note "PyTorch steps" skipped 0 "torch not found"
    fi
}

# What part A measured beside what was predicted.
predictions() {
    local rates
    case $label in a100 | h100 | h200) rates=$label ;; *) rates=h100 ;; esac # others are compared with an H100
    awk -F'\t' '$4 == "embed" { print $2, $3 }' "$tsv" | while read -r model tokens; do
        "$bin/seqrun" recipes/bench/roofline.lua model="$model" tokens="$tokens" measured="$tsv" label="$label" \
            device="$rates" | sed -n '/^a step of/,$p'
    done
    awk -F'\t' -f tests/gpu/attention.awk "$tsv"
    grep -P '\trate\t|\tstep\t|PyTorch (mask|varlen)' "$tsv"
}

# Leaves the files of a part in $out: none above 16 MiB.
deliver() { # PART
    local log
    sed -E "/\t[0-9]{4}-[0-9]{2}-[0-9]{2}\$/!s/\$/\t$(date +%F)/" "$tsv" >"$out/$label.tsv"
    for log in "$logs"/*.log; do
        [ "$(stat -c %s "$log")" -le 1000000 ] || { tail -c 1000000 "$log" >"$log.end" && mv "$log.end" "$log"; }
    done
    (cd "$logs" && tar czf "$out/logs-$1.tar.gz" -- *.log *.txt *.tsv 2>/dev/null)
    rm -f "$logs"/*.log
}

run_part() { # PART LIMIT
    begin=$(date +%s) limit_of_part=${seconds:-$2} report=
    stage "facts" 60 bash -c facts || {
        echo "run.sh: no device '$device' to run on; the lines above say why" >&2
        deliver "$1"
        exit 4
    }
    [ -e runs/data/novels.sqr ] || stage "data set" 60 "$bin/seqrun" recipes/prepare.lua # a checkout; bundles have it
    "part_$1"
    {
        [ "$1" != A ] || { echo && predictions; }
        printf '\n%s' "$report"
        echo "$(date +%F) $label: part $1, $(($(date +%s) - begin)) s of $limit_of_part"
    } 2>&1 | tee "$out/report-$1.txt"
    deliver "$1"
}

all_begin=$(date +%s)
for one in ${part:-A B C}; do
    case $one in A) run_part A 480 ;; *) run_part "$one" 540 ;; esac
done
text="all stages passed" code=0
[ $skipped -eq 0 ] || text="no stage failed, but $skipped skipped" code=3
[ $failures -eq 0 ] || text="failed stages: $failures, skipped: $skipped" code=1
echo "$(date +%F) $label: $text, $(($(date +%s) - all_begin)) s; results in $out"
exit $code
