/* attention.cu - the slots attention and attention_backward: which kernels take a call. */
#include "kernels/cuda/activation.h"
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/gpu.h"

using attention::FAR;

enum { LARGEST_HEAD = 1024 }; /* of the plain kernels, whose sums are in shared memory */

static bool is_aligned(const sr_tensor *t) {
    return t == nullptr || (uintptr_t)sr_tensor_data(t) % 16 == 0;
}

static bool is_fast(const attention_job *j) {
    return j->qkv->dtype == SR_BF16 && (j->d == 32 || j->d == 64 || j->d == 128) &&
           j->call.scale > 0 && attention_shared_bytes(j->d) <= j->g->shared_bytes &&
           is_aligned(j->qkv) && is_aligned(j->out) && is_aligned(j->dqkv) && is_aligned(j->dout);
}

static attention_job job_of(sr_tensor *out, sr_tensor *lse, const sr_tensor *qkv,
                            const sr_layout *layout, const sr_attention_opts *o) {
    const sr_dropout drop = o->drop;
    attention_job j = {};
    j.g = gpu_of(qkv);
    j.d = (int)(out->shape[1] / o->heads);
    j.layout = layout;
    j.out = out;
    j.lse = lse;
    j.qkv = qkv;
    const bool near = o->window >= 0 && o->window < layout->longest - 1;
    const int far = near ? (int)o->window : (int)FAR;
    j.call.heads = o->heads;
    j.call.kv_heads = o->kv_heads;
    j.call.before = far;
    j.call.after = o->causal ? 0 : far;
    j.call.rows = (size_t)layout->rows;
    j.call.scale = (float)o->scale;
    j.call.drop = drop_site{layout->seed, drop.keep,
                            (uint32_t)drop.purpose << 24 | (drop.layer & 0xFFFu) << 12,
                            256.0f / (float)drop.keep};
    return j;
}

static sr_status run(const attention_job *j) {
    if (j->d > LARGEST_HEAD)
        return sr_fail(SR_EINVAL, "attention: head size %d; the maximum on %s is %d", j->d,
                       j->g->device->name, (int)LARGEST_HEAD);
    if (j->qkv->dtype == SR_F32) return attention_plain<float>(j);
    if (!is_fast(j)) return attention_plain<bf16>(j);
    return j->dqkv != nullptr ? attention_backward(j) : attention_forward(j);
}

sr_status gpu_attention(sr_tensor *out, sr_tensor *lse, const sr_tensor *qkv, const sr_tensor *,
                        const sr_layout *layout, sr_attention_opts opts) {
    const attention_job j = job_of(out, lse, qkv, layout, &opts);
    return run(&j);
}

sr_status gpu_attention_backward(sr_tensor *dqkv, sr_tensor *dbias, const sr_tensor *dout,
                                 const sr_tensor *qkv, const sr_tensor *out, const sr_tensor *lse,
                                 const sr_tensor *, const sr_layout *layout,
                                 sr_attention_opts opts) {
    attention_job j = job_of((sr_tensor *)out, (sr_tensor *)lse, qkv, layout, &opts);
    j.dqkv = dqkv;
    j.dout = dout;
    const bool sums = is_fast(&j) && opts.kv_heads == opts.heads; /* in the same pass */
    if (sums) j.dbias = dbias;
    SR_TRY(run(&j));
    if (dbias == nullptr || sums) return SR_OK;
    return add_columns(j.g, "attention_backward", SR_DATA(float, dbias), sr_tensor_data(dqkv),
                       nullptr, dqkv->dtype, dqkv->shape[0], dqkv->shape[1], dqkv->shape[1]);
}
