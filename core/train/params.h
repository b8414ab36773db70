/* params.h - the parameters of a model: one contiguous store of values, one of gradients.
 *
 * Every parameter is a view of both stores, with a name and a shape as in Hugging Face; the
 * optimizer, the norm and the reduction over ranks work on two flat arrays and a list of segments.
 *
 * With precision bf16 there is a third store, `bf16`: a copy of the values, which ops read
 * instead.  The values are then masters: the optimizer updates them and refreshes the copy in one
 * pass, and checkpoints hold them.  Gradients are f32.  Weights of norms are read in f32 always.
 *
 * Offsets are multiples of 64 elements (a cache line in every dtype), but the members of one fuse
 * group are contiguous, so that one matrix product can use them all: query, key and
 * value weights are three parameters and one (3 H, H) matrix.  Rows may be padded in the store (a
 * vocabulary to a multiple that suits the kernels); the view of a parameter excludes the padding,
 * so it is always zero and never saved.
 *
 * Initial values are keyed by the parameter's name: they depend on neither padding nor order.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/blank.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

/* Elements [first, last) of a store. */
typedef struct sr_range {
    int64_t first, last;
} sr_range;

/* Initialisation of a parameter; normal is truncated at two standard deviations. */
typedef enum sr_init { SR_INIT_NORMAL, SR_INIT_ZEROS, SR_INIT_ONES } sr_init;

typedef struct sr_param_spec {
    const char *name;
    int ndim; /* at least 1 */
    int64_t shape[SR_MAX_DIMS];
    sr_init init;
    double std;          /* of SR_INIT_NORMAL */
    int64_t pad_rows_to; /* rows in the store are a multiple of this; 0 or 1: no padding */
    const char *fuse;    /* members of a group are consecutive in the list; or NULL */
    bool keep_f32;       /* ops read it in f32 in every precision: weights of norms */
} sr_param_spec;

typedef struct sr_param {
    char *name;
    int ndim;
    int64_t shape[SR_MAX_DIMS];
    int64_t offset;  /* elements from the start of the stores */
    int64_t size;    /* elements that the model sees */
    int64_t stored;  /* the same, with padded rows */
    sr_tensor *leaf; /* what ops read: view of the values or of their bf16 copy; requires_grad, its
                        grad is a view of the gradients */
    sr_tensor *master; /* view of the values; the leaf itself when that is one */
    bool keep_f32;
    bool whole; /* belongs to one owner where a store is cut over ranks: a matrix of Muon */
    sr_init init;
    double std;
    int32_t fused; /* index of its fuse group, or -1 */
} sr_param;

/* All members of a fuse group as one parameter: rows concatenated. */
typedef struct sr_fused {
    char *name;
    int64_t first, count; /* members in the list */
    sr_tensor *leaf;
} sr_fused;

typedef struct sr_params {
    sr_device *device; /* borrowed */
    sr_tensor *value;  /* (stored) flat; compute dtype of the device: f32 masters, f64 on ref */
    sr_tensor *grad;   /* (stored) flat, same dtype */
    sr_tensor *bf16;   /* (stored) flat bf16 copy of value; NULL when ops read the values */
    sr_tensor **read;  /* borrowed: all leaves, those of fuse groups last */
    uint64_t bf16_version, value_version; /* of the storages after the last refresh of bf16 */
    bool partial; /* masters outside this rank's part are stale (sharded.h) */
    sr_param *list;
    int64_t count;
    sr_fused *fused;
    int32_t fused_count;
    sr_blanks
        blanks;     /* of the gradients: matrices that ops read, where the device can write them */
    int64_t *clear; /* the ranges between them: pairs of ends */
    int64_t elements; /* of all parameters, without padding */
    int64_t stored;   /* elements of a store */
} sr_params;

/* Creates a store on `device`, outside any scope, with all values and gradients zero.
 *
 *   precision  what ops read: the device's compute dtype, or SR_BF16 where that is f32
 *
 * Errors: SR_EINVAL  a precision that the device lacks, an empty list, a duplicate name, a size
 * below 1, a fuse group whose members differ in more than rows, are padded, kept in f32 in part, or
 * do not follow each other; SR_ENOMEM
 */
sr_status sr_params_new(sr_params **out, sr_device *device, const sr_param_spec *specs,
                        int64_t count, sr_dtype precision);
void sr_params_free(sr_params *params); /* may be NULL; retained tensors stay live */

/* The fuse group with this name, or NULL. */
sr_fused *sr_params_find_fused(const sr_params *params, const char *name);

/* Writes the initial values of every parameter: keyed by (seed, name). */
sr_status sr_params_initialise(sr_params *params, uint64_t seed);

/* The same for one parameter. */
sr_status sr_params_initialise_one(sr_params *params, sr_param *param, uint64_t seed);

/* All gradients count as zeros.  They are, but for `blanks`. */
sr_status sr_params_zero_grad(sr_params *params);

/* For code that reads or writes elements of `grad` by itself, not through an op: afterwards they
 * are what they count as. */
sr_status sr_params_settle_grad(const sr_params *params, sr_range elements);

/* Must be called after writing to a master: refreshes the bf16 copy and the device's layouts of
 * weights.  SR_EINVAL while masters are partial. */
sr_status sr_params_refresh(sr_params *params);

/* For the optimizer: refreshes the bf16 copy if masters were written to since; a step refreshes
 * only what it updates.  SR_EINVAL if the copy itself was written to, which the step would undo. */
sr_status sr_params_sync_bf16(sr_params *params);

/* Before and after a step of the optimizer writes values and their copy. */
void sr_params_before_step(sr_params *params);
sr_status sr_params_after_step(sr_params *params);

/* SR_EINVAL while masters are partial. */
sr_status sr_params_check_whole(const sr_params *params);

/* The masters outside of `own` are stale from here on (see partial): on a host their memory goes
 * back to the system, but for weights that ops read. */
void sr_params_keep_only(sr_params *params, sr_range own);

/* A zeroed flat tensor that belongs to no scope: a store.  sr_params_flat: of the device's compute
 * dtype. */
sr_status sr_params_store(sr_tensor **out, sr_device *device, sr_dtype dtype, int64_t elements);
sr_status sr_params_flat(sr_tensor **out, sr_device *device, int64_t elements);

SR_END_C
