#!/bin/bash
# Every check and benchmark that needs a GPU, those that tell most first, until the time is over.
#
#     tests/gpu/run.sh [device=cuda] [out=FOLDER] [from=FOLDER] [seconds=N]
#
# In a checkout, or in the folder that tests/gpu/bundle.sh packs, which needs no packages and no network.  device=simt
# rehearses it all, small, without a GPU.  A stage ends after 60 s at most, all of them after N (540); PYTHON must have
# torch for PyTorch's stages.
#
# FOLDER grows as stages end: table.tsv (stage, state, seconds, last line), log.txt (all that they print), DEVICE.tsv
# (label, model, tokens, op, microseconds, date), conform_DEVICE.tsv and report.txt (predicted and measured times).  A
# second call with this FOLDER, or one that starts from= a copy of it, takes up where the first ended: what is ok or
# FAILED in the table is not run again.
#
# The exit code is 0 if every stage ran and passed, 1 if one failed, 3 if none failed but some were skipped (a tool or
# PyTorch is missing) or cut by the end of the time, and 4 if there is no device to run on.
# shellcheck disable=SC2317 # functions that stages call by name
set -ua # all is exported: stages run functions in a shell of their own
usage() { echo "usage: run.sh [device=cuda|simt] [out=FOLDER] [from=FOLDER] [seconds=N]" >&2; exit 2; }
device=cuda out='' from='' seconds=540
for word in "$@"; do
    [[ $word =~ ^(device=(cuda|simt)|out=.+|from=.+|seconds=[1-9][0-9]*)$ ]] || usage
    declare "${word%%=*}=${word#*=}"
done
cd "$(dirname "$0")/../.." || exit 1
out=${out:-runs/gpu}
mkdir -p "$out" || exit 1
[ -z "$from" ] || cp "$from"/* "$out/" || exit 1
out=$(cd "$out" && pwd) work=$(mktemp -d) python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1
table=$out/table.tsv log=$out/log.txt report=$out/report.txt
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT

# ---- where things are ----------------------------------------------------------------------------
bin=$PWD/build own_libraries=${LD_LIBRARY_PATH:-} # of this machine: for its programs, such as python3
if [ -x bin/seqrun ]; then # a bundle, with libraries that this machine may lack
    bin=$PWD/bin LD_LIBRARY_PATH=$work/lib:$own_libraries
    mkdir "$work/lib"
    for file in lib/*; do ldconfig -p | grep -qF "${file##*/} " || ln -s "$PWD/$file" "$work/lib/"; done
fi
torch() { LD_LIBRARY_PATH=$own_libraries "$python" "$@"; }
tool() { command -v "$1" || echo "/usr/local/cuda/bin/$1"; }
sanitizer=$(tool compute-sanitizer) profiler=$(tool ncu) label=simt no_torch="needs a GPU"
if [ "$device" = cuda ]; then
    name=$(timeout -k 5 30 nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
    label=$(grep -oE '[AHB][0-9]{2,3}' <<<"$name" | head -1 | tr '[:upper:]' '[:lower:]')
    label=${label:-gpu} no_torch=
    # found by its path, as the first import takes long: it reads the files while other stages run
    path=$(torch -c 'from importlib.util import find_spec as f; print(f("torch").origin)' 2>/dev/null) ||
        no_torch="torch not found; set PYTHON"
    [ -n "$no_torch" ] || torch -c 'import torch' >/dev/null 2>&1 &
    # cuBLASLt, where neither the linker nor CUDA's folder has it: that of PyTorch
    lt=$(timeout 20 find -L ${path:+"${path%/torch/*}/nvidia"} /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu /opt \
        -maxdepth 9 -name libcublasLt.so.13 -print -quit 2>/dev/null)
    [ -z "$lt" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:${lt%/*}
fi
tsv=$out/$label.tsv most=$([ "$device" = cuda ] && echo 60 || echo 240)
touch "$tsv" "$log" "$table"
grep -P '\t(ok|FAILED)\t' "$table" >"$work/table" # the rest is to be done again
cp "$work/table" "$table"

# ---- a stage -------------------------------------------------------------------------------------
note() { # NAME STATE SECONDS TEXT
    printf '%s\t%s\t%s\t%s\n' "$@" >>"$table"
    printf '%-34s %-8s %4s s  %s\n' "$@"
}

# stage NAME COMMAND...: runs it for a minute at most (on simt 4) and notes its last line.  Returns 1 if it failed.
stage() {
    local name=$1 state=ok code=0 limit=$most begin=$SECONDS end text
    shift
    if grep -q "^$name"$'\t' "$work/table"; then return 0; fi
    if [ $((seconds - begin)) -lt 2 ]; then note "$name" cut 0 "no time left"; return 0; fi
    [ $((seconds - begin)) -ge "$most" ] || limit=$((seconds - begin))
    printf '\n== %s\n' "$name" >>"$log"
    end=$(stat -c %s "$log")
    # shellcheck disable=SC2016 # expanded by the stage's shell
    timeout -k 5 "$limit" stdbuf -oL bash -c 'set -o pipefail; "$@"' stage "$@" >>"$log" 2>&1 || code=$?
    if [ $(($(stat -c %s "$log") - end)) -gt 200000 ]; then # the end of what it has printed
        tail -c 200000 "$log" >"$work/end"
        truncate -s "$end" "$log" && cat "$work/end" >>"$log"
    fi
    text=$(tail -c +$((end + 1)) "$log" | tail -1 | tr '\t' ' ' | cut -c1-200)
    if [ $code -eq 124 ] || [ $code -eq 137 ]; then
        state=FAILED text="killed after $limit s: $text"
        [ "$limit" -eq "$most" ] || state="cut"
    elif [ $code -ne 0 ] || [[ $text = "0 passed"* ]]; then # or ran no test
        state=FAILED
    fi
    note "$name" $state $((SECONDS - begin)) "$text"
    sed -i -E "/\t[0-9]{4}-[0-9]{2}-[0-9]{2}\$/!s/\$/\t$(date +%F)/" "$tsv"
    [ ! "$tsv" -nt "$report" ] || predictions >"$report" 2>&1
    [ $state != FAILED ] || { tail -c +$((end + 1)) "$log" | tail -15; return 1; }
}

# stage_if REASON NAME COMMAND...: skipped for a reason that is not empty.
stage_if() {
    if [ -z "$1" ]; then stage "${@:2}"; else grep -q "^$2"$'\t' "$work/table" || note "$2" skipped 0 "$1"; fi
}

# Why a tool cannot be used, in a few words; nothing if it can: not every virtual machine lets it.
refusal() { # WORDS TOOL OPTION...: words that it prints where it works
    if [ "$device" != cuda ]; then echo "needs a GPU"; return; fi
    [ -x "$2" ] || { echo "${2##*/} not found"; return; }
    timeout -k 2 20 "${@:2}" "$bin/gpu-conform" >"$work/tool" 2>&1
    grep -q "$1" "$work/tool" || echo "${2##*/} does not work here: $(grep -m1 -i error "$work/tool" | cut -c1-80)"
}

# What was measured beside what was predicted.
predictions() {
    local rates
    case $label in a100 | h100 | h200) rates=$label ;; *) rates=h100 ;; esac # others are compared with an H100
    awk -F'\t' '$4 == "embed" { print $2, $3 }' "$tsv" | sort -u | while read -r model tokens; do
        "$bin/seqrun" recipes/bench/roofline.lua model="$model" tokens="$tokens" measured="$tsv" label="$label" \
            device="$rates" | sed -n '/^a step of/,$p'
    done
    awk -F'\t' -f tests/gpu/attention.awk "$tsv"
    grep -P '\trate\t|\tstep\t|PyTorch (mask|varlen)' "$tsv"
}

# ---- what stages do ------------------------------------------------------------------------------
facts() {
    "$bin/seqrun" -e "(function() sr.use('$device') return sr.device() end)()" || return 1
    "$bin/seqrun" doctor || true
    [ "$device" != cuda ] || nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
}
primitives() {
    "$bin/${device/cuda/gpu}-conform" >"$out/conform_$label.tsv" &&
        echo "$(wc -l <"$out/conform_$label.tsv") lines in conform_$label.tsv"
}
# Errors up to 4 times their tolerance, which comes from simt, are listed and pass.
spec() { # PATTERN SPEC [TOOL...]
    SEQRUN_TEST_TIMES=4 "${@:3}" "$bin/seqrun" tests/run.lua "only=$1" "tests/spec/$2_spec.lua"
}
work_of() { # MODEL TOKENS: what gpu-bench reads
    "$bin/seqrun" recipes/bench/roofline.lua model="$1" tokens="$2" dump="$work/$1-$2.txt"
}
bench() { # MODEL TOKENS
    work_of "$1" "$2" && "$bin/gpu-bench" "$device" "$label" <"$work/$1-$2.txt" | tee -a "$tsv"
}
whole_step() { # MODEL TOKENS
    "$bin/seqrun" recipes/bench/step.lua device="$device" model="$1" precision=bf16 packs=$(($2 / 512)) updates=1 \
        repeats=5 only=packed optimizer=lamb dump="$work/packs-$1-$2.txt" tsv="$tsv" label="$label" | grep -E '^packed'
}
peer_step() { # MODEL TOKENS
    [ -e "$work/packs-$1-$2.txt" ] || whole_step "$1" "$2" || return 1
    torch recipes/bench/peers/torch_step.py "$work/packs-$1-$2.txt" --model "$1" --device cuda --bf16 --compile \
        --only varlen,mask --repeats 5 --tsv "$tsv" --label "$label"
}
profile() { # KERNEL OP: one launch of it, with all that limits it; at the end bytes of device memory, time, occupancy
    local metrics=dram__bytes_read.sum,dram__bytes_write.sum,gpu__time_duration.sum
    metrics+=,sm__warps_active.avg.pct_of_peak_sustained_active
    work_of large 16384 && "$profiler" --clock-control none --kill yes --kernel-name "regex:$1" --launch-skip 1 \
        --launch-count 1 --set full --metrics "$metrics" "$bin/gpu-bench" "$device" "$label" "only=$2" \
        <"$work/large-16384.txt" | grep -E '^ |==ERROR' | tee "$work/profile"
    awk -v "find=${metrics//,/|}" '$1 ~ find { n++; sub(/\..*/, "", $1); line = line $1 " " $3 " " $2 "  " }
        END { print line; exit n < 3 }' "$work/profile"
}

# ---- the stages ----------------------------------------------------------------------------------
if [ "$device" = cuda ]; then
    errors="has.*most,? [lwh]" bits="[gwskd]" ops="against ref" sizes="64 32 128" times=100 steps=50 small=''
    large="large 16384" other="base 16384" specs="cuda_rows cuda_small bert optim tensor"
else
    errors="has.*lengths: a" bits=keeps ops="against ref: a" sizes='' times=3 steps=2
    large="tiny 512" other="tiny 1024" specs="cuda_small optim"
    # keys of a model that the simt device trains in seconds
    small="model.hidden_size=32 model.num_hidden_layers=1 model.num_attention_heads=1 model.intermediate_size=64
        batch.sequences=2 batch.micro_packs=2 data.max_len=32 mask.max=5"
    export SEQRUN_SIMT_CHECK=0
fi
cat "$table"
stage "facts" facts || {
    echo "run.sh: no device '$device' to run on; the lines above say why" >&2
    sed -i '/^facts\t/d' "$table"
    exit 4
}
[ -e runs/data/novels.sqr ] || stage "data set" "$bin/seqrun" recipes/prepare.lua # a checkout; bundles have it
# shellcheck disable=SC2086 # words
{
    stage "primitives" primitives
    stage "attention: errors" spec "attention on $device $errors" cuda_attention
    stage "attention: bits, masks, NaN" spec "attention on $device $bits" cuda_attention
    stage "ops in bf16" spec "^$device in bf16 $ops" ops
    stage "ops of $large" bench $large
    for case in "$large" "$other"; do stage "step of $case" whole_step $case; done
    why=$(refusal dram__bytes "$profiler" --launch-count 1 --metrics dram__bytes_read.sum --kill yes)
    stage_if "$why" "profile of attention backward" profile '(^|::)backward' "attention backward"
    stage_if "$why" "profile of attention" profile '(^|::)forward' attention
    stage_if "$why" "profile of norm backward" profile norm_back_rows "residual_norm backward"
    stage_if "$why" "profile of gelu backward" profile act_back_rows inner
    stage_if "$no_torch" "PyTorch attention" torch recipes/bench/peers/torch_attention.py --tsv "$tsv" --label "$label"
    stage "repeat bitwise" "$bin/seqrun" tests/gpu/repeat.lua "$device" $times
    stage "training curves" "$bin/seqrun" tests/gpu/curves.lua "$device" $steps $small
    for name in $specs; do stage "spec $name" spec "$device" "$name"; done
    why=$(refusal 'SUMMARY: 0 errors' "$sanitizer")
    for tool in racecheck memcheck; do
        [ $tool = memcheck ] && case="[aemr][a-z_]*" || case=attention
        stage_if "$why" $tool spec "^cuda in bf16 against ref: $case, around 16" ops \
            "$sanitizer" --tool $tool --error-exitcode 9
    done
    for size in $sizes; do stage "attention: all lengths, $size" spec "all lengths.*, $size, " cuda_attention; done
    stage "ops in f32" spec "^$device in f32 $ops" ops
    for case in "$large" "$other"; do stage_if "$no_torch" "PyTorch step of $case" peer_step $case; done
    [ "$device" != cuda ] || stage "step of large 65536" whole_step large 65536
}

cat "$report" 2>/dev/null
count() { grep -cP "\t($1)\t" "$table"; }
text="all stages passed" code=0
[ "$(count 'skipped|cut')" -eq 0 ] || text="no stage failed, but $(count 'skipped|cut') skipped or cut" code=3
[ "$(count FAILED)" -eq 0 ] || text="failed stages: $(count FAILED), skipped or cut: $(count 'skipped|cut')" code=1
echo "$(date +%F) $label: $text, $SECONDS s of $seconds; results in $out"
exit $code
