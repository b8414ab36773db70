/* blank.h - parts of a storage that count as zeros although nothing wrote them: gradients whose
 * first addition writes instead, which saves filling them.
 *
 * A tensor that meets such a part is filled with zeros when an op looks at it, by
 * sr_tensor_check(); only sr_blanks_take() hands one out as it is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

/* Elements [first, last), of the dtype that all tensors of the storage have. */
typedef struct sr_blank {
    int64_t first, last;
    bool blank;
} sr_blank;

/* Of a storage, whose owner keeps it: ranges in order, apart from each other. */
struct sr_blanks {
    int64_t count, left; /* left: how many are blank */
    sr_blank *range;
};

void sr_blanks_begin(sr_blanks *blanks); /* all are blank */

/* Whether t is exactly one blank range, which the caller is to write: it no longer counts as zeros.
 */
bool sr_blanks_take(const sr_tensor *t);

/* Fills what is blank of the ranges that t meets. */
sr_status sr_blanks_settle(const sr_tensor *t);

SR_END_C
