/* attention_backward.cu - launches of the backward kernels on tensor cores. */
#include "kernels/cuda/attention_backward.cuh"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/columns.h"

using namespace attention;

static const char op[] = "attention_backward";

template <class T, int D, bool DROP, bool LOCAL> struct passes {
    const attention_job *j;
    const attention_tiles *tiles;
    tensors<T> t;

    work take(sr_tile_run first, sr_tile_run then) const {
        return {gpu_pointer(tiles->tile, (size_t)tiles->list->count), first.first, first.count,
                then.first};
    }
    dim grid(int32_t count, int heads) const {
        return dim((size_t)count * (size_t)heads);
    }

    /* The longest sequences: `blocks` blocks of them. */
    sr_status split(int32_t blocks) const {
        typedef shape<D> S;
        const work w = take({tiles->list->blocks.first, blocks}, {});
        SR_TRY(
            launch(j->g, op, deltas<T, D>, grid(blocks, j->call.heads), THREADS, 0, j->call, w, t));
        SR_TRY(launch(j->g, op, backward<T, D, DROP, LOCAL>, grid(blocks, j->call.kv_heads),
                      S::THREADS, S::BYTES, j->call, w, true, t));
        return launch(j->g, op, backward_queries<T, D, DROP, LOCAL>, grid(blocks, j->call.heads),
                      S::THREADS, S::BYTES, j->call, w, t);
    }

    /* The sequences that follow, and groups; their parts of sums follow `blocks` others. */
    sr_status own(int32_t from, int32_t blocks) const {
        typedef shape<D> S;
        tensors<T> those = t;
        if (t.parts) those.parts += (size_t)blocks * (size_t)j->dqkv->shape[1];
        const sr_tiles *list = tiles->list;
        const sr_tile_run rest = {list->owners.first + from, list->owners.count - from};
        return launch(j->g, op, backward<T, D, DROP, LOCAL>,
                      grid(rest.count + list->groups.count, j->call.kv_heads), S::THREADS, S::BYTES,
                      j->call, take(rest, list->groups), false, those);
    }
};

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

template <class T, int D, bool DROP, bool LOCAL>
static sr_status run(const attention_job *j, const attention_tiles *tiles) {
    const sr_tiles *list = tiles->list;
    const size_t heads = (size_t)j->call.heads;
    int32_t blocks;
    const int slots = j->g->processors * (D > 64 ? 1 : 2);
    const int32_t from = sr_tiles_split(&blocks, list, j->call.kv_heads, slots, reach_of(j->call));
    passes<T, D, DROP, LOCAL> p = {j,
                                   tiles,
                                   {out<T>(j->dqkv), nullptr, nullptr, nullptr, in<T>(j->qkv),
                                    in<T>(j->out), in<T>(j->dout), in<float>(j->lse)}};
    const int32_t parts = blocks + list->owners.count - from + list->groups.count;
    const bool sums = j->dbias != nullptr && parts > 0;
    SR_TRY(scratch(&p.t.delta, j->g, 0, heads * j->call.rows));
    if (needs_sums(list, from))
        SR_TRY(
            scratch(&p.t.sums, j->g, 1, (size_t)list->blocks.count * heads * (size_t)(BLOCK * D)));
    if (sums)
        SR_TRY(scratch(&p.t.parts, j->g, SCRATCH_PARTS, (size_t)parts * (size_t)j->dqkv->shape[1]));
    if (blocks > 0) SR_TRY(p.split(blocks));
    SR_TRY(p.own(from, blocks));
    return sums ? add_tiles(j, p.t.parts, parts) : SR_OK;
}

template <class T, int D>
static sr_status choose(const attention_job *j, const attention_tiles *tiles) {
    const bool drops = j->call.drop.keep < 256;
    if (is_local(j->call))
        return drops ? run<T, D, true, true>(j, tiles) : run<T, D, false, true>(j, tiles);
    return drops ? run<T, D, true, false>(j, tiles) : run<T, D, false, false>(j, tiles);
}

size_t attention_shared_bytes(int d) { /* the forward kernels need less */
    return d == 32 ? shape<32>::BYTES : d == 64 ? shape<64>::BYTES : shape<128>::BYTES;
}

template <class T> sr_status attention_backward(const attention_job *j) {
    attention_tiles *tiles;
    SR_TRY(attention_tiles_of(&tiles, j->layout, j->g->device));
    SR_TRY(attention_clear<T>(j, tiles, j->dqkv));
    if (j->d == 32) return choose<T, 32>(j, tiles);
    if (j->d == 64) return choose<T, 64>(j, tiles);
    return choose<T, 128>(j, tiles);
}

template sr_status attention_backward<bf16>(const attention_job *);
#ifdef SR_SIMT /* no tensor is f16: for tests */
template sr_status attention_backward<f16>(const attention_job *);
#endif
