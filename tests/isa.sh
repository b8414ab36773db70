#!/usr/bin/env bash
# Repeats the specs of ops and model on instruction sets that this processor would not choose by
# default: tests/isa.sh BUILD.  tests/c/cpu.c covers each kernel on every set, tests/isa_objects.sh what
# they are compiled to.  The programs seqrun-dots and seqrun-tiles have the bf16 instructions of AVX-512 and AMX in C,
# on any processor.
set -u
build=${1:?usage: tests/isa.sh BUILD}
cd "$(dirname "$0")/.." || exit 1
failed=0
program=$build/seqrun
run() { # SET SPEC [OPTION...]
    local isa=$1 spec=$2 out
    shift 2
    out=$(SEQRUN_ISA=$isa "$program" tests/run.lua "$@" "tests/spec/${spec}_spec.lua" 2>&1) && return
    echo "$program, $isa: ${spec}_spec.lua failed"
    tail -n 40 <<<"$out"
    failed=1
}

# With sanitizers, which look at addresses and not at numbers, each set of vectors once through the ops.
if [ "${SAN:-0}" = 1 ]; then
    for isa in avx2 avx512; do run "$isa" ops only='^cpu'; done
    for emulated in dots tiles; do
        program=$build/seqrun-$emulated
        run plain ops only='^cpu.*bf16'
    done
    exit $failed
fi

# specs SET SPEC...: each once for one set in `make test`, for all in `make test-long`
specs() {
    local isa=$1 spec
    shift
    [ "${LONG:-0}" = 0 ] || set -- views bert precision bf16_golden threads
    for spec in "$@"; do run "$isa" "$spec"; done
}
run plain ops only='^cpu'
specs plain views
run avx2 ops only='^cpu'
specs avx2 bert precision
# Where the processor has them, the sets that multiply bf16 by other instructions than the default.
for isa in avx512 avx512_bf16; do
    run "$isa" ops only='^cpu.*bf16'
    specs "$isa" precision
done
for emulated in dots tiles; do
    program=$build/seqrun-$emulated
    run plain ops only='^cpu.*bf16'
    specs plain bf16_golden threads
done
exit $failed
