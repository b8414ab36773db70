/* course.h - a value that changes during training: a table over one of a loader's counters.
 *
 * Workers make updates in any order, so what an update is made with is a function of the totals
 * before it, never of what was made earlier.
 */
#ifndef SR_BATCH_COURSE_H
#define SR_BATCH_COURSE_H

#include "core/batch/cursor.h"
#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_course_by {
    SR_COURSE_STEP, /* number of the update, from 1 */
    SR_COURSE_SEQUENCES,
    SR_COURSE_RAW_TOKENS,
    SR_COURSE_REAL_TOKENS /* totals before the update */
} sr_course_by;

/* Zero-initialised: none. */
typedef struct sr_course {
    sr_course_by by;
    int64_t count;
    int64_t *from; /* (count) ascending; the first is 0 */
    double *value; /* (count) from there on */
} sr_course;

/* Errors: SR_EINVAL  from does not begin at 0 or does not ascend; a value outside (0, most] */
sr_status sr_course_check(const sr_course *c, const char *name, double most);

sr_status sr_course_copy(sr_course *out, const sr_course *c);
void sr_course_free(sr_course *c); /* resets it to none */

/* The value for the update after these totals; 0 without a table.  O(log count). */
double sr_course_at(const sr_course *c, const sr_counters *before);

#ifdef __cplusplus
}
#endif
#endif
