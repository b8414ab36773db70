/* layout_on.h - a layout's arrays in the memory of a device.
 *
 * A kernel that runs after its call has returned, or elsewhere, reads these; the layout itself is
 * read by the host during the call.  A copy is made once per layout and device: with the
 * batch that brings it (batch_on.h), else on first use; it is freed with the layout.  Where device
 * memory is the host's (sr_backend.host) it is the layout's own arrays.
 *
 * Like everything of a device, for its thread only.
 */
#pragma once

#include "core/base/status.h"
#include "core/batch/layout.h"
#include "core/tensor/device.h"
#include "core/tensor/parcel.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

typedef struct sr_layout_on {
    sr_mirror head;
    sr_device *device;
    sr_tensor *block; /* holds the arrays; NULL: they are the layout's */
    /* as in sr_layout, in device memory */
    const int32_t *start, *len, *owner, *position, *longest_first;
    const uint32_t *uid, *epoch;
    /* What the backend derives once per layout, such as its list of tiles; may be NULL.  free_own
     * may be called while queued work still uses `own`, and after the device was closed: memory of
     * the device belongs in a tensor that `own` holds. */
    void *own;
    void (*free_own)(sr_device *device, void *own);
} sr_layout_on;

/* *out = the layout's arrays on the device, which belong to the layout: not to be freed, and good
 * for calls made before the next sr_layout_release() or the end of a scope.  SR_ENOMEM. */
sr_status sr_layout_find_on(sr_layout_on **out, const sr_layout *layout, sr_device *device);

/* ---- for batch_on.c: the layout as part of a larger parcel ----------------------------------- */

enum { SR_LAYOUT_PIECES = 7 };

/* Adds the arrays; returns the number of the first piece. */
int sr_layout_add_pieces(sr_parcel *parcel, const sr_layout *layout);
/* Makes pieces first..first + 6 of a parcel that was sent the layout's copy on the block's device.
 */
sr_status sr_layout_hang(sr_layout_on **out, const sr_layout *layout, sr_tensor *block,
                         const sr_parcel *parcel, int first);

SR_END_C
