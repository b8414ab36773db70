#!/bin/sh
# All static checks, for `make lint`.  Runs every check, lists those that failed and fails if any did.
set -u
failed=
begin() { printf 'lint: %s\n' "$1"; }
bad() { failed="$failed $1"; }
jobs=$(nproc)

sources=$(ls core/*/*.c core/*/*/*.c kernels/*/*.c kernels/*/*/*.c lua/bind/*.c tests/*/*.c tests/faults/support/*.c 2>/dev/null)
headers=$(ls core/*.h core/*/*.h core/*/*/*.h kernels/*/*.h kernels/*/*/*.h lua/bind/*.h tests/c/*.h tests/fuzz/*.h tests/support/*.h 2>/dev/null)
gpu_sources=$(ls kernels/cuda/*.cu kernels/cuda/*.cuh kernels/simt/*.cc tests/simt/*.cu tests/simt/*.h 2>/dev/null)
lua_flags=$(pkg-config --cflags lua5.4)
lua_folders=$(ls -d lua/seqrun recipes tests .make 2>/dev/null)

# alone HEADER STANDARD COMPILER LANGUAGE [FLAG]: compiles a header by itself; unused definitions are fine.
alone() {
    # shellcheck disable=SC2086
    echo "#include \"$1\"" | $3 "-std=$2" ${5:-} -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-variable \
        -Wno-unused-function -I. $lua_flags -fsyntax-only -x "$4" - || bad "$1 ($2)"
}

mkdir -p build-lint
begin "warnings as errors"
${MAKE:-make} --no-print-directory -s "-j$jobs" BUILD=build-lint CUDA=0 OPT=-O1 \
    EXTRA="-Werror -Wstrict-prototypes -Wpointer-arith -Wwrite-strings" \
    all ctests >build-lint/build.log 2>&1 || { grep -E -A 3 'error|warning' build-lint/build.log; bad warnings; }
rm -f build-lint/build.log

begin "clang-format"
# shellcheck disable=SC2086
clang-format --dry-run -Werror $sources $headers $gpu_sources || bad clang-format

begin "clang-tidy"
${MAKE:-make} --no-print-directory -s BUILD=build-lint compdb
mpi=$(pkg-config --cflags ompi-c 2>/dev/null || pkg-config --cflags mpich 2>/dev/null) || mpi=
echo "$sources" | grep -v '^tests/cuda/' | { [ -n "$mpi" ] && cat || grep -v '^kernels/comm/'; } |
     xargs -P "$jobs" -n 4 clang-tidy --quiet -p . >build-lint/clang-tidy.log 2>/dev/null
if grep -q ': \(warning\|error\):' build-lint/clang-tidy.log; then
    grep -A 3 ': \(warning\|error\):' build-lint/clang-tidy.log
    bad clang-tidy
fi
rm -f build-lint/clang-tidy.log

begin "luacheck"
# shellcheck disable=SC2086
luacheck --no-color -q $lua_folders || bad luacheck

begin "every header compiles alone, as C11 and as C++17; those of kernels as C++17"
for h in $headers; do
    case $h in
    kernels/cuda/*_cuda.h | kernels/simt/simt.h) ;; # part of prim.cuh, or nvcc's
    kernels/cuda/* | kernels/simt/*) alone "$h" c++17 g++ c++ -DSR_SIMT ;;
    kernels/comm/*) [ -z "$mpi" ] || alone "$h" c11 gcc c "$mpi" ;;
    tests/*) alone "$h" c11 gcc c ;;
    *) alone "$h" c11 gcc c && alone "$h" c++17 g++ c++ ;;
    esac
done

begin "layers: directories include only themselves and lower layers; only lua/bind includes lua.h"
build-lint/seqrun .make/layers.lua || bad layers

begin "no file exceeds 600 lines"
# shellcheck disable=SC2046,SC2086
wc -l $sources $headers $gpu_sources $(find $lua_folders -name '*.lua' ! -path '*/data/*') |
    awk '$2 != "total" && $1 > 600 { print "  " $2 ": " $1 " lines"; n = 1 } END { exit n }' ||
    bad "long files"

begin "no room exceeds its budget of lines"
sh .make/size.sh || bad size

[ -z "$failed" ] || {
    echo "lint: failed:$failed" >&2
    exit 1
}
echo "lint: clean"
