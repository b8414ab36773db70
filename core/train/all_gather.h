/* all_gather.h - an all-gather of a flat store (values, gradients, chunk norms) that is divided
 * into one part per rank.
 *
 * Parts differ in size, so each rank broadcasts its own: in place, without a copy of the store.
 */
#pragma once

#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/comm.h"
#include "core/train/params.h"

SR_BEGIN_C

static inline sr_range sr_range_common(sr_range a, sr_range b) {
    sr_range c = {a.first > b.first ? a.first : b.first, a.last < b.last ? a.last : b.last};
    return c.first < c.last ? c : (sr_range){c.first, c.first};
}

/* Queues the broadcasts; sr_comm_wait() completes them.
 *
 *   store   flat and contiguous, of any dtype; the caller updates its version
 *   parts   (comm->ranks) by rank, in units of `width` elements; the same on all ranks
 */
sr_status sr_all_gather(sr_comm *comm, sr_tensor *store, const sr_range *parts, int64_t width);

SR_END_C
