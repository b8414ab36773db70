#!/bin/sh
# Prints what was built and which optional parts were found: .make/summary.sh PROGRAM.
program=$1
found() { printf '  %-10s %-4s %s\n' "$1" "$2" "$3"; } # PART yes|no WHY

echo "$program:"
found cpu yes "$(nproc) processors$(for f in avx2 avx512f avx512_bf16 amx_bf16; do
    grep -qw "$f" /proc/cpuinfo 2>/dev/null && printf ', %s' "$f"; done); kernels choose at run time"

case ${NO_CUDA:-} in
"") found cuda yes "$($NVCC --version | sed -n 's/.*release \([0-9.]*\).*/nvcc \1/p') at ${NVCC##* }; A100, H100 and later" ;;
"make CUDA=0") found cuda no "disabled by CUDA=0; everything runs on the CPU" ;;
nvcc*) found cuda no "no nvcc in CUDA_HOME, PATH or /usr/local/cuda; install CUDA 13 and set CUDA_HOME" ;;
*) found cuda no "$NO_CUDA" ;;
esac

if [ -n "${NO_SIMT:-}" ]; then
    found simt no "$NO_SIMT"
else
    found simt yes "runs the CUDA kernels on the CPU, for tests"
fi

case ${NO_MPI:-} in
"") found mpi yes "$(mpirun --version 2>/dev/null | head -n 1 | grep . || echo "mpirun not found; apt-get install openmpi-bin")" ;;
"make MPI=0") found mpi no "disabled by MPI=0; a run has one process" ;;
*) found mpi no "$NO_MPI" ;;
esac

if [ -n "${NO_MPI:-}" ]; then
    found nccl no "needs mpi, which starts it"
else
    found nccl yes "libnccl.so.2 is loaded at run time, for ranks on GPUs"
fi
if [ -n "${LIBEDIT:-}" ]; then
    found libedit yes "line editing, history and completion at the prompt"
else
    found libedit no "the prompt has no line editing; apt-get install libedit-dev"
fi
exit 0
