#!/usr/bin/env bash
# The code of an instruction set has no instruction outside that set (kernels/cpu/features.c), such as
# the byte permutations of VBMI, which the first processors with AVX-512 lack: tests/isa_objects.sh BUILD.
set -u
build=${1:?usage: tests/isa_objects.sh BUILD}
case $(uname -m) in x86_64) ;; *) exit 0 ;; esac
failed=0

# Mnemonics in none of the sets: bit manipulation (tzcnt is bsf elsewhere), and AVX-512 beyond F, BW, DQ and VL.
bits='popcnt|lzcnt|andn|blsi|blsr|blsmsk|bextr|bzhi|pdep|pext|mulx|rorx|sarx|shlx|shrx|movbe'
more='vpermb|vperm[it]2b|vpmultishiftqb|vpsh[lr]dv?[wdq]|vp(compress|expand)[bw]|vpmadd52[lh]uq|vpdp(bu|ws)sds?'
more+='|vpopcnt[bwdq]|vpshufbitqmb|vp(conflict|lzcnt)[dq]|vgf2p8[a-z]*|v(exp2|rcp28|rsqrt28)[ps][sd]|v(add|sub|mul|div|max|min|sqrt|fn?m[a-z0-9]+)[ps]h'
# Those of one set and the sets above it.
dots='vdpbf16ps|vcvtne2?ps2?bf16[xy]?' tiles='tdp[a-z0-9]+|tile[a-z]+|(ld|st)tilecfg'
avx512='%zmm|%k[0-7]|%[xy]mm(1[6-9]|[23][0-9])' any_avx='%ymm'

# Refuses mnemonics, and registers or `none`, in the objects of a set.
lacks() { # SET MNEMONICS REGISTERS
    local object hit found=0
    for object in "$build"/obj/kernels/cpu/simd/*."$1".o; do
        found=1
        hit=$(objdump -d --no-show-raw-insn "$object" | grep -m 1 -E "^ +[0-9a-f]+:[[:space:]]([a-z0-9]+ )?($2)([[:space:]]|\$)|$3")
        [ -z "$hit" ] && continue
        echo "$object: the instruction set $1 has no such instruction: $hit"
        failed=1
    done
    [ $found = 1 ] && return
    echo "$build has no objects of the instruction set $1"
    failed=1
}

lacks plain "$bits|$tiles|v[a-z][a-z0-9]+" "$any_avx|$avx512"
lacks avx2 "$bits|$more|$dots|$tiles" "$avx512"
lacks avx512 "$bits|$more|$dots|$tiles" none
lacks avx512_bf16 "$bits|$more|$tiles" none
lacks amx "$bits|$more" none
exit $failed
