/* schedule.h - a value that changes during training: a table over one of a loader's counters.
 *
 * Workers make updates in any order, so the value for an update is a function of the totals before
 * it.
 */
#pragma once

#include "core/loader/cursor.h"
#include "core/base/status.h"

SR_BEGIN_C

typedef enum sr_schedule_by {
    SR_SCHEDULE_STEP, /* number of the update, from 1 */
    SR_SCHEDULE_SEQUENCES,
    SR_SCHEDULE_RAW_TOKENS,
    SR_SCHEDULE_REAL_TOKENS /* totals before the update */
} sr_schedule_by;

/* Zero-initialised: none. */
typedef struct sr_schedule {
    sr_schedule_by by;
    int64_t count;
    int64_t *from; /* (count) ascending; the first is 0 */
    double *value; /* (count) from there on */
} sr_schedule;

/* Errors: SR_EINVAL  from does not begin at 0 or does not ascend; a value outside (0, most] */
sr_status sr_schedule_check(const sr_schedule *s, const char *name, double most);

sr_status sr_schedule_copy(sr_schedule *out, const sr_schedule *s);
void sr_schedule_free(sr_schedule *s); /* resets it to none */

/* The value for the update after these totals; 0 without a table.  O(log count). */
double sr_schedule_at(const sr_schedule *s, const sr_counters *before);

SR_END_C
