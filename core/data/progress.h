/* progress.h - the values of a metric while it is computed, in a file that survives a stop.
 *
 * The file is a header that says what is computed, then records of values, each with a checksum;
 * a record that was not written whole is cut off when the file is opened again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_progress {
    char *path;
    int fd;
    uint64_t size;
    int64_t count; /* values */
    int64_t next;  /* what the caller stored with the last record; 0 at first */
    double least, most;
    bool whole; /* all values are integers */
} sr_progress;

/* Opens the progress file of `identity`; one of another identity is replaced. SR_ELOCK: another
 * process computes it. */
sr_status sr_progress_open(sr_progress **out, const char *path, const char *identity);
void sr_progress_close(sr_progress *p); /* keeps the file; may be NULL */

/* Closes and removes the file. */
void sr_progress_remove(sr_progress *p);

/* Appends values as one record: all of them or, after a failure, none.  SR_EDATA names the first
 * sequence whose value is not finite. */
sr_status sr_progress_append(sr_progress *p, const double *values, int64_t count, int64_t next);

/* Passes all values in order to `take`, some at a time. */
typedef sr_status (*sr_progress_take)(void *context, const double *values, int64_t count);
sr_status sr_progress_replay(sr_progress *p, sr_progress_take take, void *context);

SR_END_C
