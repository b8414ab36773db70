/* weight.h - a matrix of parameters in a layout of the device's own.
 *
 * Products read a weight many times per update; a device may read it faster as tiles or padded
 * rows.  Such a copy is made once per update and belongs to the parameter: its leaf holds a handle,
 * and so does what the tape saves of the leaf.  A view of other elements has none.  Kernels get the
 * layout from the tensor, never by address.
 *
 * A layout is stale when the version of the tensor's storage has moved on.  It is first built when
 * an op needs it.  After that the optimizer step builds it again: in the pass that updates the
 * values, if the device does so (sr_step.weights), else right after it.
 */
#pragma once

#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

typedef struct sr_weight {
    sr_device *device;
    int64_t id;         /* number of the parameter in its store */
    int64_t rows, cols; /* of the matrix, as ops see it */
    uint64_t version;   /* of the storage when the layout was built */
    void *layout;       /* the device's own; NULL: no op has asked for it */
    int32_t refs;
    struct sr_weight *next, *prev; /* of the device's list */
} sr_weight;

/* A handle without a layout, with one reference.  SR_ENOMEM. */
sr_status sr_weight_new(sr_weight **out, sr_device *device, int64_t id, int64_t rows, int64_t cols);
sr_weight *sr_weight_retain(sr_weight *weight); /* may be NULL */
void sr_weight_release(sr_weight *weight);      /* may be NULL */

/* For kernels: *layout is the up-to-date layout of t, built if necessary; NULL if t is not a
 * whole parameter or its device has no layouts. */
sr_status sr_weight_layout(void **layout, const sr_tensor *t);

/* Builds the layout of t again if there is one and it is stale; t may have no handle. */
sr_status sr_weight_refresh(const sr_tensor *t);

/* Frees all layouts of a device that is being closed. */
void sr_weight_drop_all(sr_device *device);

SR_END_C
