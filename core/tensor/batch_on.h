/* batch_on.h - a micro-batch on a device: sent by one upload into one block, with a tensor for each
 * array and the copies of its layouts.
 */
#pragma once

#include "core/base/status.h"
#include "core/batch/batch.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

typedef struct sr_target_on {
    sr_tensor *rows, *places; /* (count), spans (count, 2) i32 */
    sr_tensor *labels;        /* (count), or (count, columns) when there are several; i32 or real */
    sr_tensor *weights;       /* (count) real */
} sr_target_on;

/* Views of one storage, which belongs to the scope that was open. */
typedef struct sr_batch_on {
    sr_tensor *block;
    sr_tensor *ids, *types;  /* (T) i32 */
    sr_tensor *original_ids; /* or NULL, as in sr_batch */
    sr_tensor *last_rows;    /* or NULL */
    int targets;
    sr_target_on *target;
} sr_batch_on;

/* Sends a batch, whose weights are set, to the device.  SR_ENOMEM. */
sr_status sr_batch_upload(sr_batch_on **out, sr_device *device, const sr_batch *batch);
void sr_batch_on_free(sr_batch_on *on); /* may be NULL */

SR_END_C
