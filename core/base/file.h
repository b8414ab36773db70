/* file.h - opens, reads (with a limit) and writes files; and the single steps of a durable write.
 *
 * EINTR and short counts are handled here, so that callers need not.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

/* Opens a regular file of at most `limit` bytes for reading; the caller closes *fd (-1 on failure)
 * through sr_io_now.  SR_ENOENT, SR_EDATA (a directory, a pipe, too large), SR_EIO. */
sr_status sr_file_open(int *fd, size_t *size, const char *path, size_t limit);

/* Opens anything that can be read sequentially, a pipe too, but not a directory (SR_EDATA).
 * *size is that of a regular file, 0 for the rest. */
sr_status sr_file_open_stream(int *fd, uint64_t *size, const char *path);

/* One read: *got = 0 at the end of the file, else 1 .. room.  SR_ESTOP where nothing comes and
 * sr_stop_request() was called. */
sr_status sr_file_read_some(size_t *got, int fd, void *bytes, size_t room, const char *path);

/* Reads a whole file into *bytes (freed by sr_free(), one zero byte follows the contents).
 * SR_ENOENT when it does not exist, SR_EDATA when it is larger than `limit` or not a regular file,
 * SR_EIO when reading fails. */
sr_status sr_file_read(void **bytes, size_t *size, const char *path, size_t limit);

/* Exactly `size` bytes at offset `at`, or SR_EDATA ("truncated"). */
sr_status sr_file_pread(int fd, void *bytes, size_t size, uint64_t at, const char *path);

/* All of `size` bytes, or SR_EIO with the path and the reason. */
sr_status sr_file_write(int fd, const void *bytes, size_t size, const char *path);

/* The steps of a durable write, for callers that order them themselves (core/store/saving.c).  Each
 * is one call of sr_io_now, with EINTR handled and the message set; SR_EIO unless stated. */

/* A new file for writing: O_EXCL, O_NOFOLLOW, so that no planted file or link is followed. */
sr_status sr_file_create(int *fd, const char *path, unsigned mode);
/* Reserves space for `size` bytes, so that a full disk is noticed before anything is written; a
 * no-op where the file system does not support it. */
sr_status sr_file_reserve(int fd, uint64_t size, const char *path);
sr_status sr_file_sync(int fd, const char *path);
/* Closes and reports the error of close(): on some file systems the failure of a write. */
sr_status sr_file_close(int fd, const char *path);
sr_status sr_file_rename(const char *from, const char *to);
/* Exchanges two names atomically; *done is false where the file system does not support it. */
sr_status sr_file_exchange(bool *done, const char *a, const char *b);
sr_status sr_file_truncate(int fd, uint64_t size, const char *path);
/* An exclusive lock that the kernel drops with the last descriptor; SR_ELOCK when it is held. */
sr_status sr_file_lock(int fd, const char *path);

/* Fails as sr_file_lock() does while somebody holds the lock; several may probe at once. */
sr_status sr_file_probe_lock(int fd, const char *path);
/* SR_EIO when fewer than `bytes` are free on the file system of `path`. */
sr_status sr_file_check_space(const char *path, uint64_t bytes);

SR_END_C
