#!/usr/bin/env bash
# Plants mistakes in copies of the CUDA kernels and shows that the tests on the simt device find each:
# tests/mutate.sh BUILD [NAME].
#
# A mutant is a sed command on one source; its object is compiled, linked with the others, and the
# tests that match a pattern run on it.  It is caught when a test fails.
set -u
build=${1:?usage: tests/mutate.sh BUILD [NAME]}
cd "$(dirname "$0")/.." || exit 1
[ -e "$build/seqrun_simt.so" ] || { echo "mutants: g++ was not found, so there is no simt device"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra compile < <(sed 's/ -g -O[0-9s]/ -O1/' "$build/simt_flags")

# mutants: NAME FILE SPEC PATTERN SED, one a line; a pattern is of the names of tests
mutants() {
    sed 's/^ *//; /^#/d; /^$/d' <<'LIST'
    missing_barrier            order.cu    ops  simt.in.f32.*repeated   /for (int back = 1/{n;d}
    missing_second_barrier     order.cu    ops  simt.in.f32.*repeated   /int32_t before = thread() >= back/{n;d}
    missing_warp_barrier       order.cu    ops  simt.in.f32.*repeated   /int32_t at = next\[digit\]/{n;d}
    race_between_warps         order.cu    ops  simt.in.f32.*repeated   s/shared_at<int32_t>(warp() \* DIGITS \* 4, DIGITS)/shared_at<int32_t>(warp() \/ 2 * DIGITS * 4, DIGITS)/
    uninitialised_shared       order.cu    ops  simt.in.f32.*repeated   /mine\[d\] = 0;/d
    write_out_of_bounds        order.cu    ops  simt.in.f32.*repeated   s/sorted\[at\] = /sorted[at + 5 * r.count] = /
    wrong_lanes                order.cu    ops  simt.in.f32.*repeated   s/peers \& ((1u << lane()) - 1);/peers \& ((2u << lane()) - 1);/
    dropped_tail               softmax.cu  ops  simt.in.f32.*softmax    s/i < r.length; i += threads()/i < r.length - 1; i += threads()/
    off_by_one_tile            reduce.cu   ops  simt.in.f32.*mean       s/end = from + p.piece;/end = from + p.piece - 1;/
    wrong_order                reduce.cu   ops  simt.in.f32.*mean       s/i += p.lanes/i += p.lanes + 1/
LIST
}

run_mutant() { # NAME FILE SPEC PATTERN SED
    local name=$1 file=$2 spec=$3 pattern=$4 dir=$work/$1 object others
    mkdir -p "$dir"
    sed "$5" "kernels/cuda/$file" >"$dir/$file"
    if cmp -s "$dir/$file" "kernels/cuda/$file"; then
        echo "FAILED $name: its sed command changes nothing in kernels/cuda/$file"
        return 1
    fi
    "${compile[@]}" -c -o "$dir/mutant.o" "$dir/$file" || return 1
    object=$build/obj/kernels/cuda/$file.simt.o
    others=$(ls "$build"/obj/kernels/{cuda,simt}/*.simt.o | grep -vx "$object")
    # shellcheck disable=SC2086 # one word per object
    "${compile[0]}" "${compile[1]}" -shared -o "$dir/seqrun_simt.so" $others "$dir/mutant.o" -lm || return 1
    SEQRUN_TEST_SIMT=$dir/seqrun_simt.so timeout 120 "$build/seqrun" tests/run.lua "only=$pattern" \
        "tests/spec/${spec}_spec.lua" >"$dir/log" 2>&1
    if grep -q '^FAILED' "$dir/log"; then
        printf 'caught %-24s %s\n' "$name" "$(grep -m 1 -A 1 '^FAILED' "$dir/log" | tail -n 1 | sed 's/^ *//' | cut -c 1-150)"
    else
        echo "FAILED $name was not caught: $(tail -n 1 "$dir/log")"
        return 1
    fi
}

failed=0
while read -r name file spec pattern sed; do
    [ -z "${2:-}" ] || [ "$name" = "$2" ] || continue
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || failed=1; done
    run_mutant "$name" "$file" "$spec" "$pattern" "$sed" &
done < <(mutants)
while [ -n "$(jobs -rp)" ]; do wait -n || failed=1; done
exit $failed
