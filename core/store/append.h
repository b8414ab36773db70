/* append.h - files that grow by whole records.
 *
 * metrics.jsonl and TensorBoard's event files are appended to during a run.  A record is one write;
 * if it fails part way (a full disk), the part is cut off again, now or before the next record, so
 * that readers never see half a record in the middle of a file.  Any thread may write.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_append {
    char *path;
    int fd;
    pthread_mutex_t lock;
    uint64_t size; /* of the whole records */
    bool torn;     /* part of a record follows them */
} sr_append;

/* Opens or creates a file, never through a symbolic link, and truncates it to `size` bytes if it
 * is longer; UINT64_MAX leaves it unchanged. */
sr_status sr_append_open(sr_append **out, const char *path, uint64_t size);

/* Appends one record: all of it or, after a failure, nothing. */
sr_status sr_append_write(sr_append *file, const void *bytes, size_t size);

/* Fails if its path no longer names the file that is written. */
sr_status sr_append_sync(sr_append *file);
void sr_append_close(sr_append *file); /* may be NULL */

SR_END_C
