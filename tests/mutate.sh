#!/usr/bin/env bash
# Plants mistakes in copies of the CUDA kernels and shows that the tests on the simt device find each:
# tests/mutate.sh BUILD [NAME].
#
# Every twentieth one in `make test`, all in `make test-long`, which sets LONG.
#
# A mutant is a sed command on one source; its object is compiled, linked with the others, and the
# tests that match a pattern run on it.  It is caught when a test fails.
set -u
build=${1:?usage: tests/mutate.sh BUILD [NAME]}
cd "$(dirname "$0")/.." || exit 1
[ -e "$build/seqrun_simt.so" ] || { echo "mutants: g++ was not found, so there is no simt device"; exit 77; }
[ "${SAN:-0}" = 1 ] && { echo "mutants: not under sanitizers, whose build they are no part of"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra compile < <(sed 's/ -g1 -O[0-9s]/ -O1/; s/ -I\. / /' "$build/simt_flags") # the mutant's folder goes before .

# NAME FILE SPEC PATTERN SED, one a line: FILE is SOURCE or HEADER@SOURCE, the pattern (Lua's) is of names of
# tests.  A sed command that stops changing anything fails, so a mutant follows its kernel.
mutants() {
    sed 's/^ *//; /^#/d; /^$/d' <<'LIST'
    missing_barrier        attention_forward.cu                       cuda_attention lengths:.around.64  0,/^    barrier();/{/^    barrier();/d}
    missing_second_barrier attention_forward.cu                       cuda_attention lengths:.around.128 /strips_of<GROUP>(strip/,/if (!active)/{/barrier();/d}
    missing_wait           attention_forward.cu                       cuda_attention lengths:.around.128 /strips_of<GROUP>(strip/,/barrier/s/cp_wait<0>();//
    wrong_lane_map         attention.cuh@attention_forward.cu         cuda_attention lengths:.around.16  s/lane() \& 15, lane() >> 4)/lane() \& 15, 1 - (lane() >> 4))/
    wrong_mask             attention.cuh@attention_forward.cu         cuda_attention lengths:.around.64  s/to = strip.key_end - first/to = strip.key_end - first + 1/
    dropped_tail           reduce.cu   ops  simt.in.f32.*softmax    s/i < r.length; i += threads()/i < r.length - 1; i += threads()/
    off_by_one_tile        reduce.cu   ops  simt.in.f32.*mean       s/end = from + p.piece;/end = from + p.piece - 1;/
    race_between_warps     sums.cu     ops  simt.in.f32.*repeated   s/shared_at<int32_t>(warp() \* DIGITS \* 4, DIGITS)/shared_at<int32_t>(warp() \/ 2 * DIGITS * 4, DIGITS)/
    race_between_lanes     sums.cu     ops  simt.in.f32.*repeated   /int32_t at = next\[digit\]/{n;d}
    uninitialised_shared   sums.cu     ops  simt.in.f32.*repeated   /mine\[d\] = 0;/d
    write_out_of_bounds    sums.cu     ops  simt.in.f32.*repeated   s/sorted\[at\] = /sorted[at + 5 * r.count] = /
    wrong_lane             sums.cu     ops  simt.in.f32.*repeated   s/peers & ((1u << lane()) - 1);/peers \& ((2u << lane()) - 1);/
    backward_barrier       attention_backward.cu cuda_attention lengths:.around.16 /put_statistic(statistics + (2 \* BLOCK/{n;d}
    backward_mask          attention.cuh@attention_backward.cu cuda_attention far.below.zero s/to = strip.key_end - first/to = strip.key_end - first + 1/
    backward_half_a_sum    attention_backward.cu cuda_attention lengths:.a.row     s/mask = LANES \/ 2/mask = LANES \/ 4/
    backward_wait          attention_backward.cu cuda_attention lengths:.around.64 s/cp_wait<0>();//
    backward_lane_map      attention.cuh@attention_backward.cu cuda_attention lengths:.around.16 s/(lane() >> 4 << 3), lane() >> 3 \& 1)/(lane() >> 4 << 3), lane() >> 4)/
    backward_words_race    attention_strip.cuh@attention_backward.cu cuda_attention lengths:.around.16 s/r \* 32 + lane()/r * 16 + lane()/
    backward_lost_bias     attention.cuh@attention_backward.cu cuda_attention sums.the.gradient s/r < end; r += STEP/r < end \&\& r < STEP; r += STEP/
    slack_dropped_tail     attention.cuh@attention_forward.cu cuda_attention writes.zeros s/item < s.count ?/item + 1 < s.count ?/
    split_wrong_job        attention_backward.cu cuda_attention same.bits.*of.32 s/block >= w.keys \&\& block < w.queries/block > w.keys \&\& block < w.queries/
    columns_race           sums.cu      cuda_rows norms.on.simt:.more.rows.than s/room\[thread()\] = sum/room[thread() % 224] = sum/
    dropout_wrong_mask     drop.cuh@random.cu  cuda_rows dropout.on.simt s/(column >> 3 & 1) \* 16/(column >> 4 \& 1) * 16/
    norm_padding           norm.cuh@norm.cu      cuda_rows norms.on.simt:.rows.of.7$  s/if (team_column(t, k) + i < columns) squares/squares/
    norm_race              norm.cuh@norm.cu      cuda_rows norms.on.simt:.more.rows   s/parity ^= 1/parity ^= 0/
    norm_missing_barrier   norm.cuh@norm.cu      cuda_rows norms.on.simt:.rows.of.64  /int turn = 0/{n;d}
    norm_dropped_row       norm.cuh@norm.cu      cuda_rows norms.on.simt:.more.rows.of s/row >= a.rows ? -2/row >= a.rows - 1 ? -2/
    linear_adds_first      linear.cu             blank     whatever.they.were                s/p.add = !set_w;/p.add = true;/
    norm_lost_bias         norm.cuh@norm.cu      ops       simt.in.bf16.*two.layers          s/for (int i = 1; i < t.count/for (int i = 2; i < t.count/
    act_dropped_row        activation.cu         ops       simt.in.f32.*linear               s/row + k \* step >= a.rows/row + k * step + 1 >= a.rows/
    embed_lost_join        sums.cu               cuda_rows ids.that.fill              s/h < heads; h += AT_ONCE/h + 1 < heads; h += AT_ONCE/
    loss_dropped_tail      loss.cu ops   simt.in.f32.*mlm_loss        s/if (i < left) sum +=/if (i < left - 1) sum +=/
    loss_label             loss.cu ops   simt.in.f32.*cross_entropy   s/c + i == label ?/c + i == label + 1 ?/
    loss_missing_barrier   loss.cu cuda_rows losses.on.simt:.vocab    /best\[warp()\] = s.best;/{n;n;d}
    optimizer_tail         optim.cu optim optim.on.simt                s/i < c.size; i += THREADS)$/i < c.size - 1; i += THREADS)/
    optimizer_trust        optim.cu optim optim.on.simt.*LAMB          s/t.count, block_x() + 1)/t.count, block_x())/
    optimizer_not_finite   optim.cu optim optim.on.simt.*non.finite    s/bool go = result\[1\] != 0.0f/bool go = true/
    group_capacity         group.cu              ops simt.in.f32.*group_rows      s/starts\[g\] < capacity/starts[g] <= capacity/
    group_slack            group.cu              ops simt.in.f32.*group_rows      s/owner\[i % rows\] < 0/owner[i % rows] < -1/
    grouped_barrier        group.cu              ops simt.in.f32.*grouped         /move_tile<B, VECTOR>/,/multiply/{/barrier();/d}
    grouped_lane_map       group.cu               ops simt.in.bf16.*grouped       s/row + 8 \* odd + line, k + 8 \* half/row + 8 * half + line, k + 8 * odd/
    grouped_neighbour      group.cu              ops simt.in.f32.*grouped         s/A ? a_left : rest, A ? rest : a_left/A ? a_left : rest + 1, A ? rest : a_left/
LIST
}

# The objects of the simt library without that of one source.
other_objects() { # SOURCE
    ls "$build"/obj/kernels/{cuda,simt}/*.simt.o | grep -v "/${1//./\\.}\.simt\.o\$"
}

run_mutant() { # NAME FILE SPEC PATTERN SED
    local name=$1 file=${2%@*} source=${2#*@} spec=$3 pattern=$4 dir=$work/$1
    mkdir -p "$dir/kernels/cuda"
    sed "$5" "kernels/cuda/$file" >"$dir/kernels/cuda/$file"
    if cmp -s "$dir/kernels/cuda/$file" "kernels/cuda/$file"; then
        echo "FAILED $name: its sed command changes nothing in kernels/cuda/$file"
        return 1
    fi
    [ "$file" = "$source" ] || cp "kernels/cuda/$source" "$dir/kernels/cuda"
    "${compile[@]}" "-I$dir" -I. -c -o "$dir/mutant.o" "$dir/kernels/cuda/$source" || return 1
    # shellcheck disable=SC2046 # one word per object
    "$(echo "${compile[*]}" | grep -o '[^ ]*g++[^ ]*')" -shared -o "$dir/seqrun_simt.so" \
        $(other_objects "$source") "$dir/mutant.o" -lm || return 1
    SEQRUN_TEST_SIMT=$dir/seqrun_simt.so timeout 300 "$build/seqrun" tests/run.lua "only=$pattern" \
        "tests/spec/${spec}_spec.lua" >"$dir/log" 2>&1
    if grep -q '^FAILED' "$dir/log"; then
        printf 'caught %-24s %s\n' "$name" \
            "$(grep -m 1 -A 1 '^FAILED' "$dir/log" | tail -n 1 | sed 's/^ *//' | cut -c 1-150)"
    else
        echo "FAILED $name was not caught: $(tail -n 1 "$dir/log")"
        return 1
    fi
}

failed=0 number=0
while read -r name file spec pattern sed; do
    [ -z "${2:-}" ] || [ "$name" = "$2" ] || continue
    number=$((number + 1))
    [ -n "${2:-}" ] || [ "${LONG:-0}" = 1 ] || [ $((number % 20)) = 1 ] || continue
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || failed=1; done
    run_mutant "$name" "$file" "$spec" "$pattern" "$sed" &
done < <(mutants)
while [ -n "$(jobs -rp)" ]; do wait -n || failed=1; done
exit $failed
