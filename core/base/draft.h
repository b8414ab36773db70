/* draft.h - files that appear whole or not at all. */
#pragma once

#include <stddef.h>

#include "core/base/status.h"

SR_BEGIN_C

/* A file that is written piece by piece and appears whole or not at all: sr_file_write() to
 * draft.fd, then commit.  sr_file_replace() is open, write, commit; its guarantees hold here. */
typedef struct sr_draft {
    int fd;
    char *path, *temporary; /* owned */
} sr_draft;

sr_status sr_draft_open(sr_draft *d, const char *path);

/* The draft is consumed, whether it became `path` or not. */
sr_status sr_draft_commit(sr_draft *d);

/* Abandons the draft: the temporary is removed, `path` unchanged.  No-op after commit and on an
 * all-zero draft. */
void sr_draft_drop(sr_draft *d);

/* Replaces `path` by these bytes: temporary file next to it (O_EXCL, O_NOFOLLOW), write, fsync,
 * rename, fsync of the directory.  On failure `path` is unchanged and no temporary is left; only if
 * the very last call fails, the fsync of the directory, are the new contents in place although
 * their name may not survive a power cut. */
sr_status sr_file_replace(const char *path, const void *bytes, size_t size);

SR_END_C
