#!/usr/bin/env bash
# The machine code of all CUDA kernels, read from the plug-in: no local memory, registers below their
# ceilings, tensor-core instructions where they belong.  tests/gates.sh BUILD
set -eu
build=${1:?usage: tests/gates.sh BUILD}
cd "$(dirname "$0")/.."
[ -e "$build/seqrun_cuda.so" ] || { echo "gates: there is no CUDA compiler, so no machine code to read"; exit 77; }
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
planted=$(mktemp --suffix=.cubin)
trap 'rm -f "$planted"' EXIT
$nvcc -cubin -arch=sm_80 -o "$planted" tests/support/spill.cu
"$build/seqrun" tests/support/gates.lua "$build/seqrun_cuda.so" "$planted"
