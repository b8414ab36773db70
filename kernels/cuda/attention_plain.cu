/* attention_plain.cu - launches of the plain attention kernels. */
#include "kernels/cuda/attention_plain.cuh"
#include "kernels/cuda/attention.h"

using namespace attention;

static sequences sequences_of(const sr_layout_on *on, const sr_layout *l) {
    const size_t n = (size_t)l->sequences;
    return sequences{gpu_pointer(on->owner, (size_t)l->rows), gpu_pointer(on->start, n),
                     gpu_pointer(on->len, n), gpu_pointer(on->uid, n), gpu_pointer(on->epoch, n)};
}

/* Shared memory for sums of `width` floats per warp, with `lists` lists of 32. */
static size_t shared_bytes(int lists, int width) {
    return (size_t)(WARPS * (lists * 32 + width)) * sizeof(float);
}

/* A warp for each row and head. */
static dim grid_of(const attention_job *j, int heads) {
    return dim(ceil_div(j->call.rows * (size_t)heads, WARPS));
}

template <class T> static sr_status backward(const attention_job *j, sequences l) {
    const dim grid = grid_of(j, j->call.heads);
    plain_tensors<T> t = {out<T>(j->dqkv),  {}, in<T>(j->qkv), in<T>(j->out), in<T>(j->dout),
                          in<float>(j->lse)};
    const char *op = "attention_backward";
    SR_TRY(scratch(&t.delta, j->g, 0, (size_t)j->call.heads * j->call.rows));
    SR_TRY(launch(j->g, op, plain_deltas<T>, grid, THREADS, 0, j->call, j->d, l, t));
    SR_TRY(launch(j->g, op, plain_queries<T>, grid, THREADS, shared_bytes(1, j->d), j->call, j->d,
                  l, t));
    return launch(j->g, op, plain_keys<T>, grid_of(j, j->call.kv_heads), THREADS,
                  shared_bytes(2, 2 * j->d), j->call, j->d, l, t);
}

template <class T> sr_status attention_plain(const attention_job *j) {
    sr_layout_on *on;
    SR_TRY(sr_layout_find_on(&on, j->layout, j->g->device));
    const sequences l = sequences_of(on, j->layout);
    if (j->dqkv != nullptr) return backward<T>(j, l);
    return launch(j->g, "attention", plain_forward<T>, grid_of(j, j->call.heads), THREADS,
                  shared_bytes(1, j->d), j->call, j->d, l, out<T>(j->out), out<float>(j->lse),
                  in<T>(j->qkv));
}

template sr_status attention_plain<float>(const attention_job *);
template sr_status attention_plain<bf16>(const attention_job *);
