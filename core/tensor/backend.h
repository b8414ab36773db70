/* backend.h - the table of ops that a device implements.
 *
 * `ref` computes in f64 with plain loops and is the reference for `cpu` and `cuda`.  An op that a
 * device lacks is a NULL slot and an error that names both (sr_backend_lacks()); there is no
 * fallback to another device.
 *
 * Rules for every slot
 *   - Arguments come in this order: outputs, inputs, saved statistics, layout, scalars.
 *   - Shapes, dtypes and liveness have been checked by the public ops (front.c, ops_*.c); outputs
 *     are allocated.  All tensors of a call live on one device, y->storage->device.
 *   - Small ops accept any strides.  Coarse ops get contiguous tensors (but see logit_multiple).
 *   - Activation gradients are written (=, but see `adds`); parameter gradients are accumulated
 *     (+=).  A gradient that is not needed is NULL.
 *   - The result has the same bits on any number of threads: split by shape, combine in order.
 *   - Rows of slack: see layout.h.
 *   - "real" is the device's compute dtype (f64 on ref, f32 elsewhere).  Coarse ops get activations
 *     and weights (x, w, b, qkv, residual, word, position, type, bias, logits) of one dtype, f32 or
 *     bf16, and write outputs (y, pre, out, sum, dlogits) and gradients of activations of the same.
 *     Always real: gamma, beta, loss weights, statistics (lse, mean, rstd, nll, correct), losses
 *     and every gradient that is added to.  Small ops may get several dtypes in one call.
 *   - bf16 is storage: arithmetic is f32, and a value is rounded once, at an output or a tensor
 *     kept for the backward pass.  Statistics are those of values before rounding.  Attention also
 *     rounds P and dS before they are multiplied.  Gradients of biases are sums in f32.
 *   - The bits of a row of an output do not depend on other rows, but for products: a library may
 *     sum those of another number of rows in another order.  Equal shapes give equal bits.
 *
 * When work is done
 *   - A device is a queue.  A call may return before its work is done; the device does its work in
 *     the order of the calls.
 *   - The host waits in `download` and `wait` only.  Nothing else may read device memory from
 *     the host, neither here nor in core/.
 *   - Arguments live for the call: sr_tensor and sr_storage structs, segments and sr_step are read
 *     or copied before it returns.  Device memory lives on: the caller may return a block to
 *     the pool right away, which hands it to a later call of the same queue.
 *   - `upload` has read all of `host` when it returns (directly, or into memory of its own).
 *   - `alloc` may return at once; `free` gets blocks that queued work may still use.
 *   - A layout's arrays are read by the host during the call; work that comes later reads the
 *     device's own copy, sr_layout_find_on() (layout_on.h).
 *   - What only the device can see (an index or label out of range, a fault) is checked there: the
 *     message names op and row.  A device that is done when a call returns reports it at once;
 *     others keep the first and report it at the next wait, then forget it.  Whatever ran in
 *     between has undefined values, but writes nowhere outside its outputs.
 *   - A wait looks at sr_device.watch where the work of other machines can hold the queue up.
 *   - A device with `host` set has done its work when a call returns, and may leave `wait` NULL.
 *
 * Alphabet: T rows, N sequences, M gathered rows, H hidden, A heads, K heads of keys and values, D
 * head size (H = A D), F inner size, V vocabulary.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/each.h"
#include "core/base/rng.h"
#include "core/base/status.h"
#include "core/batch/layout.h"
#include "core/tensor/device.h"
#include "core/tensor/functions.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

/* clang-format off */
#define SR_ENUM(NAME, ...) SR_##NAME,
typedef enum sr_unary { SR_UNARY_OPS(SR_ENUM) SR_UNARY_COUNT } sr_unary;
typedef enum sr_binary { SR_BINARY_OPS(SR_ENUM) SR_BINARY_COUNT } sr_binary;
#undef SR_ENUM
#define SR_ENUM(NAME, ...) SR_ACT_##NAME,
typedef enum sr_act { SR_ACT_NONE, SR_ACTIVATIONS(SR_ENUM) SR_ACT_COUNT } sr_act; /* of `linear` */
#undef SR_ENUM
/* clang-format on */

static inline bool sr_binary_compares(sr_binary op) {
    return op >= SR_EQ;
}

/* Whether i32 has a function of its own; else it is taken as real. */
static inline bool sr_unary_is_whole(sr_unary op) {
#define SR_IS_WHOLE(NAME, value) op == SR_##NAME ||
    return SR_WHOLE_UNARY_OPS(SR_IS_WHOLE) false;
#undef SR_IS_WHOLE
}

/* Whether the derivative is taken at the input of the activation; else at its output. */
static inline bool sr_act_keeps_input(sr_act act) {
#define SR_KEEPS(NAME, name, keeps_input) (act == SR_ACT_##NAME && (keeps_input)) ||
    return SR_ACTIVATIONS(SR_KEEPS) false;
#undef SR_KEEPS
}

typedef enum sr_reduction { SR_SUM, SR_MAX, SR_MIN, SR_ARGMAX, SR_ARGMIN } sr_reduction;

typedef enum sr_random { SR_UNIFORM, SR_NORMAL, SR_TRUNCATED_NORMAL } sr_random;

/* Keyed dropout at one site.  A decision is Philox4x32-7 with counter
 *   { row | group(col) << 16, uid, purpose << 24 | layer << 12 | head, epoch }
 * where row and col are relative to the sequence (attention: query, key; else: row, channel, head
 * 0), and the byte of sr_drop_byte(); kept iff byte < keep; kept values are scaled by 256 / keep.
 */
typedef struct sr_dropout {
    uint32_t keep; /* n of n/256; 256: no dropout */
    sr_purpose purpose;
    uint32_t layer;
} sr_dropout;

/* How rows of a sequence attend to one another. */
typedef struct sr_attention_opts {
    int heads, kv_heads; /* A, K: query head a uses the key and value head a / (A / K) */
    int64_t window;      /* row i sees row j if |i - j| <= window; -1: at any distance */
    bool causal;         /* and j <= i */
    double scale;        /* of the scores */
    sr_dropout drop;     /* of the probabilities */
} sr_attention_opts;

/* Optimizers; see `step` in slots.h. */
typedef enum sr_method { SR_ADAMW, SR_LAMB, SR_STABLE_ADAMW, SR_MUON, SR_METHOD_COUNT } sr_method;

/* One parameter in the flat store, as the optimizer sees it. */
typedef struct sr_segment {
    int64_t offset, size; /* elements */
    double rate;          /* factor on the learning rate */
    double decay;         /* decoupled weight decay */
    bool trust;           /* LAMB: scale the update by ||w|| / ||u|| */
    bool frozen;
    int64_t rows, columns; /* Muon: of a matrix that is updated by it; 0: by AdamW */
    double scale;          /* Muon: factor on the orthogonal matrix */
} sr_segment;

/* A piece of a segment: norms are summed over chunks in order, in f64, and the store is cut between
 * chunks where several optimizers share it. */
enum { SR_CHUNK = 32768 };
typedef struct sr_chunk {
    int64_t from, size; /* elements of the store; at most SR_CHUNK */
    int64_t segment;
} sr_chunk;

typedef struct sr_step {
    sr_method method;
    sr_tensor *value;      /* flat f32 (f64 on ref) masters */
    const sr_tensor *grad; /* flat */
    sr_tensor *m, *v;      /* flat moments, starting at element `base` of the store */
    sr_tensor *average;    /* flat moving average of the values, as the moments; or NULL */
    double average_decay;
    int64_t base;
    sr_tensor *bf16_copy;      /* flat bf16 copy of value to refresh in the same pass, or NULL */
    sr_tensor *const *weights; /* what ops read; see weight_build */
    int64_t weight_count;
    const sr_segment *segments;
    int64_t count;
    const sr_chunk *chunks; /* of all segments that are not frozen, in order */
    int64_t chunk_count;
    int64_t first, last; /* the chunks to update: [first, last) */
    sr_tensor *norms;    /* (chunk_count, 2) f64, sums over each chunk that `moments` sets; not of
                            AdamW */
    double rate, beta1, beta2, eps;
    double momentum; /* Muon: of matrices */
    bool nesterov;   /* Muon: the direction is the gradient moved towards the momentum */
    double clip;     /* largest global norm; 0: none.  Factor 1 when norm <= clip, else
                        clip / norm; with clip_eps min(1, clip / (norm + 1e-6)) */
    bool clip_eps;
    sr_tensor *result; /* (SR_RESULTS) real: in [0] global norm, [1] 1 when finite; out [2] 1 when
                          applied; in and out [3] updates applied, [4] averaged so far */
} sr_step;

enum { SR_RESULTS = 5 };

/* Bias correction 1 - beta^t of the update that follows `applied` others. */
static inline double sr_step_correction(double beta, double applied) {
    return 1.0 - pow(beta, applied + 1.0);
}

/* StableAdamW: the beta of that update, whose moments need no correction: 0 for the first. */
static inline double sr_step_beta(double beta, double applied) {
    double power = pow(beta, applied + 1.0);
    return (beta - power) / (1.0 - power);
}

/* The share of the values in their average after `averaged` others: all of it at first, so that the
 * average needs no correction; the same as a decay that rises from 0 to `decay`. */
static inline double sr_step_share(double decay, double averaged) {
    return averaged == 0 ? 1.0 : (1.0 - decay) / (1.0 - pow(decay, averaged + 1.0));
}

/* A device as `describe` reports it; strings are "" and numbers 0 where unknown. */
typedef struct sr_device_facts {
    char model[128]; /* "NVIDIA H100 80GB HBM3" */
    char arch[16];   /* "sm_90" */
    char driver[32], runtime[32];
    int64_t memory, free; /* bytes */
    int64_t reserved;     /* bytes of device memory that it takes, without those of tensors */
    char problem[256];    /* why it cannot be opened; "" if it can */
} sr_device_facts;

/* Incremented with every change of this table, sr_tensor, sr_storage, sr_device, sr_layout,
 * sr_layout_on, sr_weight, sr_host (plugin.h), sr_function (function.h) or sr_comm_engine (comm.h).
 */
enum { SR_ABI = 17 };

struct sr_backend {
    int abi;      /* SR_ABI, */
    size_t bytes; /* and sizeof(sr_backend), when the backend was compiled: SR_BACKEND_ABI */
    const char *name;
    sr_dtype real;
    bool host; /* its memory is the host's, and calls are done when they return */
    /* The decoder's dlogits have rows that begin at multiples of this many elements; 0: contiguous.
     * The size of a vocabulary is seldom the multiple that vector loads and matrix units need. */
    int logit_multiple;
    /* Backward passes may add to gradients of activations, and sum them for a bias (add_x, dbias).
     */
    bool adds;
    bool attends_rows; /* attention takes `rows` */

    /* ---- devices: both or neither; NULL where there is always one ------------------------- */
    /* The devices of this kind that the machine has; SR_EDEVICE says why there is none. */
    sr_status (*count)(int *devices);
    /* Device `number`, from 0, open or not. */
    sr_status (*describe)(sr_device_facts *facts, int number);

    /* ---- memory -------------------------------------------------------------------------- */
    sr_status (*open)(sr_device *device);                             /* or NULL; sets ->state */
    void (*close)(sr_device *device);                                 /* or NULL; waits */
    sr_status (*alloc)(sr_device *device, void **data, size_t bytes); /* 64-byte aligned */
    void (*free)(sr_device *device, void *data, size_t bytes);
    sr_status (*upload)(sr_device *device, void *to, const void *host, size_t bytes);
    sr_status (*download)(sr_device *device, void *host, const void *from, size_t bytes);
    sr_status (*wait)(sr_device *device); /* or NULL: see "When work is done" */

    /* NULL where there is none: the queue as the device's libraries know it, a cudaStream_t, whose
     * device becomes the current one of the calling thread. */
    void *(*queue)(sr_device *device);

    /* Turns an option of the device on or off; NULL where it has none.
     * "tf32"  products of f32 may round their operands to TF32
     *
     * Errors: SR_EDEVICE  the device has no such option */
    sr_status (*option)(sr_device *device, const char *name, bool on);

    /* NULL: gradients are filled with zeros before they are added to.  Otherwise linear_backward
     * may write them (set_w), and this clears the others: elements ends[2 i] .. ends[2 i + 1] - 1
     * of y, flat and real, for each i below count. */
    sr_status (*zero_ranges)(sr_tensor *y, const int64_t *ends, int64_t count);

    /* ---- ops: slots.h --------------------------------------------------------------------- */
#define SR_SLOT(name, ...) sr_status (*name)(SR_PARAMETERS(__VA_ARGS__));
#include "core/tensor/slots.h"

    /* ---- weights in a layout of the device's own: both or neither ------------------------- */
    /* Makes or updates weight->layout, the device's copy of w (rows, cols), which ops get from
     * sr_weight_layout(); called on its first use and after writes to w's storage.  Queued like any
     * call.  `step` may do this itself for those of its weights that have a layout, and sets
     * weight->version to the version of w's storage. */
    sr_status (*weight_build)(sr_weight *weight, const sr_tensor *w);
    void (*weight_free)(sr_weight *weight);
};

/* The initial fields of every table. */
#define SR_BACKEND_ABI .abi = SR_ABI, .bytes = sizeof(sr_backend)

/* SR_EDEVICE: "OP is not implemented for DEVICE". */
sr_status sr_backend_lacks(const sr_device *device, const char *op);

/* The built-in backends; for others see plugin.h. */
extern const sr_backend sr_backend_ref, sr_backend_cpu;

SR_END_C
