/* front.h - helpers of the public ops: checks and recording.
 *
 * For core/tensor/ops_*.c only.
 */
#pragma once

#include "core/tensor/grad.h"
#include "core/tensor/ops.h"

SR_BEGIN_C

/* Returns an error that names op and device if the table of the device has no `slot`. */
#define SR_NEED(device, slot)                                                                      \
    do {                                                                                           \
        if ((device)->backend->slot == NULL) return sr_backend_lacks(device, #slot);               \
    } while (0)

/* Every tensor (NULLs allowed) is live and on one device. */
sr_status sr_front_check(const char *op, int count, sr_tensor *const *list);

/* `t` has this dtype, and `ndim` dimensions of these sizes, -1 for any. `name` is the argument's.
 */
sr_status sr_front_shape(const char *op, const char *name, const sr_tensor *t, sr_dtype dtype,
                         int ndim, const int64_t *shape);
/* The same for activations and weights, of any dtype that the device of t computes with. */
sr_status sr_front_real(const char *op, const char *name, const sr_tensor *t, int ndim,
                        const int64_t *shape);
/* Checks that two arguments have the same dtype, such as an activation and its weight. */
sr_status sr_front_same(const char *op, const char *name, const sr_tensor *t, const char *other,
                        const sr_tensor *u);
/* The common dtype of real operands: see ops.h. */
sr_dtype sr_front_meet(const sr_tensor *a, const sr_tensor *b);

/* Checks that the layout has as many rows as x. */
sr_status sr_front_rows(const char *op, const char *name, const sr_tensor *x,
                        const sr_layout *layout);

/* Records `rule` with y as output 0; *node is NULL if no input needs a gradient.  The node is owned
 * by y. */
sr_status sr_front_record(sr_node **node, const sr_rule *rule, sr_tensor *y, int inputs,
                          sr_tensor *const *x);

/* In-place writes are not recorded, so this rejects those that would give wrong gradients.  Also
 * rejects views whose elements share memory. */
sr_status sr_front_writable(const char *op, const sr_tensor *y);

/* *view = t expanded to the shape (which it must fit); a struct on the caller's stack, for kernels
 * only. */
void sr_front_stretch(sr_tensor *view, const sr_tensor *t, int ndim, const int64_t *shape);

SR_END_C
