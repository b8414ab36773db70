/* attention_forward.cu - launches of the forward kernels on tensor cores. */
#include "kernels/cuda/attention_forward.cuh"
#include "kernels/cuda/attention.h"

using namespace attention;

/* Tiles of 64 M rows; those of 64 come last, and with them the rows of no sequence. */
template <int D, int M, bool LOCAL>
static sr_status run(const attention_job *j, const attention_tiles *tiles, sr_tile_run first,
                     sr_tile_run then) {
    const work w = {gpu_pointer(tiles->tile, (size_t)tiles->list->count), first.first, first.count,
                    then.first};
    const size_t blocks = (size_t)(first.count + then.count) * (size_t)j->call.heads;
    const slack_rows slack = attention_slack(tiles, blocks);
    const dim grid(blocks + (M == 1 ? ceil_div((size_t)slack.count, WARPS) : 0));
    return launch(j->g, "attention",
                  j->call.drop.keep < 256 ? forward<D, M, true, LOCAL>
                                          : forward<D, M, false, LOCAL>,
                  grid, THREADS, forward_bytes<D, M>(), j->call, w, slack, out<bf16>(j->out),
                  out<float>(j->lse), in<bf16>(j->qkv));
}

/* Two strips a warp halve the traffic of shared memory, if the registers suffice: not for heads of
 * 128, nor with a mask for each row, where short tiles also see less that is masked. */
template <int D, bool LOCAL>
static sr_status run_all(const attention_job *j, const attention_tiles *tiles) {
    const sr_tiles *list = tiles->list;
    if constexpr (D > 64 || LOCAL) {
        return run<D, 1, LOCAL>(j, tiles, list->blocks, list->groups);
    } else {
        SR_TRY((run<D, 2, LOCAL>(j, tiles, list->wide, sr_tile_run{0, 0})));
        return run<D, 1, LOCAL>(j, tiles, list->narrow, list->groups);
    }
}

template <int D> static sr_status choose(const attention_job *j, const attention_tiles *tiles) {
    return is_local(j->call) ? run_all<D, true>(j, tiles) : run_all<D, false>(j, tiles);
}

sr_status attention_forward(const attention_job *j) {
    attention_tiles *tiles;
    SR_TRY(attention_tiles_of(&tiles, j->layout, j->g->device));
    if (j->d == 32) return choose<32>(j, tiles);
    if (j->d == 64) return choose<64>(j, tiles);
    return choose<128>(j, tiles);
}
