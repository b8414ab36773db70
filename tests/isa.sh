#!/usr/bin/env bash
# Repeats the specs of ops and model on instruction classes that this processor would not choose by
# default: tests/isa.sh BUILD.  tests/c/cpu.c covers each kernel on every class.
set -u
program=${1:?usage: tests/isa.sh BUILD}/seqrun
cd "$(dirname "$0")/.." || exit 1
failed=0
run() { # CLASS SPEC [OPTION...]
    local class=$1 spec=$2 out
    shift 2
    out=$(SEQRUN_ISA=$class "$program" tests/run.lua "$@" "tests/spec/${spec}_spec.lua" 2>&1) && return
    echo "$class: ${spec}_spec.lua failed"
    tail -n 40 <<<"$out"
    failed=1
}

for class in plain avx2; do
    run "$class" ops only='^cpu'
    run "$class" views
    run "$class" bert
    run "$class" precision
done
# Where the processor has them, the classes that multiply bf16 by other instructions than the default.
for class in avx512 avx512_bf16; do
    run "$class" ops only='^cpu.*bf16'
    run "$class" precision
done
exit $failed
