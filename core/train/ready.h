/* ready.h - which parameters have their complete gradient of a micro-batch while its backward pass
 * still runs.
 *
 * A gradient is complete when it has been added to as often as the graph of the pass says, and as
 * often as in any micro-batch before: so passes that the graph does not show (recomputation, a
 * second backward()) are waited for from the second update on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/train/params.h"

SR_BEGIN_C

typedef struct sr_ready {
    const sr_params *params; /* borrowed: outlives this */
    int32_t *most;           /* (params->count) additions of a micro-batch so far */
    int32_t *count;          /* additions of this micro-batch so far */
    int32_t *ahead;          /* additions that its passes have announced */
} sr_ready;

sr_status sr_ready_init(sr_ready *ready, const sr_params *params);
void sr_ready_free(sr_ready *ready);

void sr_ready_begin(sr_ready *ready); /* the next micro-batch */

/* The parameters [first, last) whose gradients `grad` is a view of; empty for another tensor. */
sr_range sr_ready_params(const sr_ready *ready, const sr_tensor *grad);

void sr_ready_expect(sr_ready *ready, sr_range params);
void sr_ready_add(sr_ready *ready, sr_range params);
bool sr_ready_has(const sr_ready *ready, sr_range params); /* their gradients are complete */

SR_END_C
