/* attention.h - the host side of attention: what one call is, and the kernels that may take it.
 *
 * attention.cu chooses: the kernels on tensor cores where they can, else the plain ones.
 */
#ifndef SR_CUDA_ATTENTION_H
#define SR_CUDA_ATTENTION_H

#include "core/batch/tiles.h"
#include "core/tensor/layout_on.h"
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/gpu.h"

/* The tiles of a layout in device memory; made once for a layout and device. */
struct attention_tiles {
    sr_tiles *list;
    sr_tensor *block;
    const sr_tile *tile;  /* in device memory */
    const int32_t *slack; /* in device memory */
    struct {
        int heads, kv_heads, slots;
        int64_t reach;
        sr_split split;
    } known[2]; /* layers with a window may take turns with others */
    int next;   /* of `known`, to be replaced */
};

sr_status attention_tiles_of(attention_tiles **out, const sr_layout *layout, sr_device *device);

/* A call of the slot attention, or attention_backward where dqkv is set. */
struct attention_job {
    gpu *g;
    attention::call call;
    int d; /* head size */
    const sr_layout *layout;
    sr_tensor *out, *lse, *dqkv;
    sr_tensor *dbias; /* += sums of dqkv over rows, by attention_backward() alone; or NULL */
    const sr_tensor *qkv, *dout;
};

/* Whether rows do not see all others, or query heads share keys. */
inline bool is_local(const attention::call &c) {
    return c.before < attention::FAR || c.after < attention::FAR || c.kv_heads != c.heads;
}

/* The rows that no sequence owns, for a launch whose blocks from `from` on clear them. */
attention::slack_rows attention_slack(const attention_tiles *tiles, size_t from);

/* sr_tiles_split() of the job, computed once. */
sr_status attention_split(sr_split *out, attention_tiles *tiles, const attention_job *job,
                          int slots, int64_t reach);

template <class T> sr_status attention_plain(const attention_job *job);
/* Shared memory of a block of the kernels below. */
size_t attention_shared_bytes(int d);
/* For d = 32, 64 and 128, rows that begin at multiples of 16 bytes, and a scale above 0. */
sr_status attention_forward(const attention_job *job);
sr_status attention_backward(const attention_job *job);

#endif
