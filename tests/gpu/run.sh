#!/bin/bash
# Every check and benchmark that needs a GPU, in one command of less than 9 minutes.
#
#     tests/gpu/run.sh [device=cuda] [out=FOLDER] [seconds=520]
#
# In a checkout, or in the folder that tests/gpu/bundle.sh makes, which needs no packages and no network.
# Prints a table of stages and the predicted and measured times.  FOLDER gets a log of each stage and DEVICE.tsv: label,
# model, tokens, op, microseconds, date.  device=simt rehearses it all, small, without a GPU.
#
# The exit code is 0 if every stage ran and passed, 1 if one failed, 3 if none failed but some were skipped: a tool or
# PyTorch is missing, or the time was over before a stage began or ended.
set -u
device=cuda out='' seconds=520
for word in "$@"; do
    case $word in
    device=* | out=* | seconds=*) declare "${word%%=*}=${word#*=}" ;;
    *) echo "usage: run.sh [device=cuda|simt] [out=FOLDER] [seconds=520]" >&2; exit 2 ;;
    esac
done
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
out=${out:-$root/runs/gpu}
mkdir -p "$out"
begin=$(date +%s)

# ---- where things are ----------------------------------------------------------------------------
bin=$root/build
own_libraries=${LD_LIBRARY_PATH:-} # of this machine: for its programs, such as python3
if [ -x "$root/bin/seqrun" ]; then # a bundle
    bin=$root/bin
    export LD_LIBRARY_PATH=$root/lib:${LD_LIBRARY_PATH:-}
fi
if [ "$device" = cuda ]; then # cuBLASLt, where neither the linker nor CUDA's folder has it: that of PyTorch
    lt=$(find /usr/local/cuda/lib64 /usr/lib /opt /usr/local/lib -name libcublasLt.so.13 2>/dev/null | head -1)
    [ -z "$lt" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:${lt%/*}"
fi
small= # keys of a model that the simt device trains in seconds
if [ "$device" != cuda ]; then
    export SEQRUN_SIMT_CHECK=0
    small="model.hidden_size=32 model.num_hidden_layers=1 model.num_attention_heads=1 model.intermediate_size=64
        batch.sequences=4 batch.micro_packs=4 data.max_len=64 mask.max=10"
fi

# ---- stages --------------------------------------------------------------------------------------
failures=0 skipped=0
report=
note() { # NAME STATE SECONDS TEXT
    report+=$(printf '%-34s %-8s %5ss  %s' "$1" "$2" "$3" "$4")$'\n'
    case $2 in skipped) skipped=$((skipped + 1)) ;; FAILED) failures=$((failures + 1)) ;; esac
}

# stage NAME LIMIT COMMAND...: runs it within the time that is left; its last line goes into the table.
stage() {
    local name=$1 limit=$2 from state=ok log text code=0 cut=
    shift 2
    from=$(date +%s)
    log=$out/${name// /_}.log
    local left=$((seconds - (from - begin)))
    if [ $left -lt 5 ]; then note "$name" skipped 0 "no time left"; return; fi
    [ "$limit" -le $left ] || limit=$left cut=yes
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 || code=$?
    text=$(tail -1 "$log" | cut -c1-120)
    if [ -n "$cut" ] && { [ $code -eq 124 ] || [ $code -eq 137 ]; }; then # neither good nor bad
        state=skipped text="cut after $limit s: no time left"
    elif [ $code -ne 0 ] || grep -q '^0 passed' "$log"; then # or ran no test
        state=FAILED
    fi
    note "$name" $state $(($(date +%s) - from)) "$text"
    [ $state != FAILED ] || tail -15 "$log"
}
torch() { LD_LIBRARY_PATH=$own_libraries python3 "$@"; }

facts() {
    [ "$device" != cuda ] || nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
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
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
no_sanitizer() { # why, in a few words; nothing if it works: not every virtual machine lets it
    [ -x "$sanitizer" ] || { echo "compute-sanitizer not found"; return; }
    timeout -k 5 40 "$sanitizer" --error-exitcode 9 "$bin/seqrun" -e "sr.use('cuda')" >"$out/sanitizer.log" 2>&1 ||
        echo "compute-sanitizer does not run here: sanitizer.log"
}
export -f facts specs sanitized torch
export bin device root sanitizer own_libraries

label=simt
if [ "$device" = cuda ]; then
    name=$(timeout -k 5 30 nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
    label=$(echo "$name" | grep -oE '[AHB][0-9]{2,3}' | head -1 | tr '[:upper:]' '[:lower:]')
    label=${label:-gpu}
    has_torch=$(LD_LIBRARY_PATH=$own_libraries timeout -k 5 60 python3 -c 'import torch; print("yes")' 2>/dev/null)
fi
tsv=$out/$label.tsv
: >"$tsv"

stage "facts" 60 bash -c facts
[ -e runs/data/novels.sqr ] || stage "data set" 60 "$bin/seqrun" recipes/prepare.lua # a checkout; bundles have it
if [ "$device" = cuda ]; then
    stage "op cases against ref" 120 bash -c "specs cuda ops optim tensor bert cuda_rows cuda_small"
    stage "attention matrix" 90 bash -c "specs cuda cuda_attention"
    stage "repeat bitwise" 40 "$bin/seqrun" tests/gpu/repeat.lua cuda 100
    stage "training curves" 90 "$bin/seqrun" tests/gpu/curves.lua cuda 50
    why=$(no_sanitizer)
    if [ -z "$why" ]; then
        stage "memcheck" 60 bash -c 'sanitized memcheck "^cuda in bf16 against ref: [aemr][a-z_]*, around 16"'
        stage "racecheck" 60 bash -c 'sanitized racecheck "^cuda in bf16 against ref: attention, around 16"'
    else
        note "memcheck, racecheck" skipped 0 "$why"
    fi
else
    stage "op cases against ref" 60 bash -c 'specs simt optim cuda_small'
    stage "repeat bitwise" 40 "$bin/seqrun" tests/gpu/repeat.lua "$device" 3
    # shellcheck disable=SC2086
    stage "training curves" 90 "$bin/seqrun" tests/gpu/curves.lua "$device" 2 $small
fi

# ---- benchmarks ----------------------------------------------------------------------------------
bench() { # MODEL TOKENS
    set -o pipefail
    "$bin/seqrun" recipes/bench/roofline.lua model="$1" tokens="$2" dump="$out/work.txt" &&
        "$bin/gpu-bench" "$device" "$label" <"$out/work.txt" | tee -a "$tsv"
}
whole_step() { # MODEL TOKENS
    set -o pipefail
    "$bin/seqrun" recipes/bench/step.lua device="$device" model="$1" precision=bf16 packs=$(($2 / 512)) updates=1 \
        repeats=5 only=packed optimizer=lamb dump="$out/packs-$1-$2.txt" tsv="$tsv" label="$label" | grep -E '^packed'
}
peer_attention() {
    torch recipes/bench/peers/torch_attention.py --tsv "$tsv" --label "$label"
}
peer() { # MODEL TOKENS
    torch recipes/bench/peers/torch_step.py "$out/packs-$1-$2.txt" --model "$1" --device cuda --bf16 --compile \
        --only varlen,mask --repeats 5 --tsv "$tsv" --label "$label"
}
export -f bench whole_step peer peer_attention
export out tsv label

if [ "$device" = cuda ]; then
    for case in "base 16384" "large 8192" "large 24576"; do stage "ops of $case" 60 bash -c "bench $case"; done
    for case in "base 16384" "large 8192" "large 16384" "large 24576"; do
        stage "step of $case" 45 bash -c "whole_step $case"
    done
    if [ -n "$has_torch" ]; then
        stage "PyTorch attention" 40 bash -c peer_attention
        for case in "large 16384" "base 16384"; do stage "PyTorch step of $case" 90 bash -c "peer $case"; done
    else
        note "PyTorch" skipped 0 "torch not found"
    fi
else
    stage "ops of tiny 512" 60 bash -c "bench tiny 512"
    stage "step of tiny 512" 60 bash -c "whole_step tiny 512"
fi

# ---- the table -----------------------------------------------------------------------------------
case $label in a100 | h100 | h200) rates=$label ;; *) rates=h100 ;; esac # others are compared with an H100
sed -i "s/\$/\t$(date +%F)/" "$tsv"
echo
awk -F'\t' '$4 == "embed" { print $2, $3 }' "$tsv" | while read -r model tokens; do
    "$bin/seqrun" recipes/bench/roofline.lua model="$model" tokens="$tokens" measured="$tsv" label="$label" \
        device="$rates" | sed -n '/^a step of/,$p'
done
awk -F'\t' -f tests/gpu/attention.awk "$tsv"
grep -P '\trate\t|\tstep\t|PyTorch (mask|varlen)|in any order' "$tsv"
printf '\n%s' "$report"
text="all stages passed" code=0
[ $skipped -eq 0 ] || text="no stage failed, but $skipped skipped" code=3
[ $failures -eq 0 ] || text="failed stages: $failures, skipped: $skipped" code=1
echo "$(date +%F) $label: $text, $(($(date +%s) - begin)) s; rows in $tsv"
exit $code
