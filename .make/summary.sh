#!/bin/sh
# Prints what was built and which optional parts were found: .make/summary.sh PROGRAM.
program=$1
found() { printf '  %-10s %-4s %s\n' "$1" "$2" "$3"; } # PART yes|no WHY

echo "$program:"
found cpu yes "$(nproc) processors$(for f in avx2 avx512f avx512_bf16 amx_bf16; do
    grep -qw "$f" /proc/cpuinfo 2>/dev/null && printf ', %s' "$f"; done); kernels choose at run time"

nvcc=
for candidate in "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" "$(command -v nvcc)" /usr/local/cuda/bin/nvcc \
    /usr/local/cuda-*/bin/nvcc; do
    [ -n "$candidate" ] && [ -x "$candidate" ] && nvcc=$candidate && break
done
if [ "${CUDA:-1}" = 0 ]; then
    found cuda no "disabled by CUDA=0; everything runs on the CPU"
elif [ -n "$nvcc" ]; then
    release=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    found cuda no "found nvcc ${release:-of unknown release} at $nvcc, but this version has no CUDA kernels yet"
else
    found cuda no "no nvcc in CUDA_HOME, PATH or /usr/local/cuda; install CUDA 13 and set CUDA_HOME"
fi

header() { # PART FILE... -- HOW TO INSTALL IT
    part=$1 where=
    shift
    while [ "$1" != -- ]; do
        [ -e "$1" ] && where=$1
        shift
    done
    if [ -n "$where" ]; then
        found "$part" no "found $where, but this version does not use it yet"
    else
        found "$part" no "not found; $2"
    fi
}
header nccl /usr/include/nccl.h /usr/local/cuda/include/nccl.h -- "install libnccl-dev from NVIDIA's repository"
header mpi /usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h /usr/include/mpi.h -- "apt-get install libopenmpi-dev"
header libedit /usr/include/editline/readline.h /usr/include/histedit.h -- "apt-get install libedit-dev"
header hdf5 /usr/include/hdf5/serial/hdf5.h /usr/include/hdf5.h -- "apt-get install libhdf5-dev"
exit 0
