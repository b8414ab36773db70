/* attention_backward.cu - launches of the backward kernels on tensor cores. */
#include "kernels/cuda/attention_backward.cuh"
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/sums.h"

using namespace attention;

static const char op[] = "attention_backward";

/* Whether any of the sequences from `from` on has more than one block. */
static bool needs_sums(const sr_tiles *list, int32_t from) {
    return from < list->owners.count && list->tile[list->owners.first + from].rows > SR_TILE_ROWS;
}

/* Rows that a row sees at most. */
static int64_t reach_of(const call &c) {
    return (int64_t)c.before + c.after + 1;
}

/* dbias += the parts of all tiles. */
static sr_status add_tiles(const attention_job *j, global<const float> parts, int tiles) {
    const int columns = (int)j->dqkv->shape[1];
    const part_sums sums = {{out<float>(j->dbias)}, parts, nullptr, tiles, columns, columns};
    return add_parts(j->g, op, &sums);
}

static jobs jobs_of(const attention_job *j, const attention_tiles *tiles, const sr_split *split) {
    const sr_tiles *list = tiles->list;
    const int heads = j->call.heads, kv_heads = j->call.kv_heads;
    jobs w = {gpu_pointer(tiles->tile, (size_t)list->count),
              list->owners.first + split->sequences,
              list->blocks.first,
              split->blocks,
              0,
              0,
              0};
    w.keys = split->before * kv_heads;
    w.queries = w.keys + split->blocks * kv_heads;
    w.rest = w.queries + split->blocks * heads;
    return w;
}

template <int D, bool DROP, bool LOCAL>
static sr_status launch_all(const attention_job *j, const attention_tiles *tiles,
                            const sr_split *split, const tensors &t) {
    typedef shape<D> S;
    const sr_tiles *list = tiles->list;
    const jobs w = jobs_of(j, tiles, split);
    const int rest = list->owners.count - split->sequences - split->before + list->groups.count;
    const size_t blocks = (size_t)w.rest + (size_t)rest * (size_t)j->call.kv_heads;
    const slack_rows slack = attention_slack(tiles, blocks);
    const work split_ones = {w.tiles, w.blocks, w.split, 0};
    SR_TRY(launch(j->g, op, deltas<D>, dim((size_t)w.split * (size_t)j->call.heads), THREADS, 0,
                  j->call, split_ones, t));
    return launch(j->g, op, backward<D, DROP, LOCAL>,
                  dim(blocks + ceil_div((size_t)slack.count, S::THREADS / 32)), S::THREADS,
                  S::BYTES, j->call, w, slack, t);
}

template <int D, bool DROP, bool LOCAL>
static sr_status run(const attention_job *j, attention_tiles *tiles) {
    const sr_tiles *list = tiles->list;
    const size_t heads = (size_t)j->call.heads;
    sr_split split;
    SR_TRY(attention_split(&split, tiles, j, j->g->processors * blocks_at_once(D, LOCAL),
                           reach_of(j->call)));
    tensors t = {out<bf16>(j->dqkv), nullptr,          nullptr,           nullptr,
                 in<bf16>(j->qkv),   in<bf16>(j->out), in<bf16>(j->dout), in<float>(j->lse)};
    const int32_t parts = split.blocks + list->owners.count - split.sequences + list->groups.count;
    const bool sums = j->dbias != nullptr && parts > 0;
    SR_TRY(scratch(&t.delta, j->g, 0, heads * j->call.rows));
    if (needs_sums(list, split.sequences))
        SR_TRY(scratch(&t.sums, j->g, 1, (size_t)list->blocks.count * heads * (size_t)(BLOCK * D)));
    if (sums)
        SR_TRY(scratch(&t.parts, j->g, SCRATCH_PARTS, (size_t)parts * (size_t)j->dqkv->shape[1]));
    SR_TRY((launch_all<D, DROP, LOCAL>(j, tiles, &split, t)));
    return sums ? add_tiles(j, t.parts, parts) : SR_OK;
}

template <int D> static sr_status choose(const attention_job *j, attention_tiles *tiles) {
    const bool drops = j->call.drop.keep < 256;
    if (is_local(j->call))
        return drops ? run<D, true, true>(j, tiles) : run<D, false, true>(j, tiles);
    return drops ? run<D, true, false>(j, tiles) : run<D, false, false>(j, tiles);
}

size_t attention_shared_bytes(int d) { /* the forward kernels need less */
    return d == 32 ? shape<32>::BYTES : d == 64 ? shape<64>::BYTES : shape<128>::BYTES;
}

sr_status attention_backward(const attention_job *j) {
    attention_tiles *tiles;
    SR_TRY(attention_tiles_of(&tiles, j->layout, j->g->device));
    if (j->d == 32) return choose<32>(j, tiles);
    if (j->d == 64) return choose<64>(j, tiles);
    return choose<128>(j, tiles);
}
