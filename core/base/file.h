/* file.h - files: read with a limit, written whole or not at all.
 *
 * Every system call that touches storage goes through sr_io, a table that tests replace to inject
 * errors, record the order of writes, or simulate a power cut.  EINTR and short counts are handled
 * here and nowhere else.
 */
#ifndef SR_BASE_FILE_H
#define SR_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The storage calls; same meaning, arguments and errno as the POSIX ones. */
typedef struct sr_io {
    int (*open)(const char *path, int flags, unsigned mode);
    ssize_t (*pread)(int fd, void *bytes, size_t size, off_t at);
    ssize_t (*read)(int fd, void *bytes, size_t size);
    ssize_t (*write)(int fd, const void *bytes, size_t size);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*exchange)(const char *a, const char *b); /* renameat2(RENAME_EXCHANGE) */
    int (*mkdir)(const char *path, unsigned mode);
    int (*unlink)(const char *path);
    int (*rmdir)(const char *path);
    int (*fallocate)(int fd, off_t size); /* fallocate(fd, 0, 0, size) */
    int (*ftruncate)(int fd, off_t size);
    int (*flock)(int fd, int operation);
    int (*space)(const char *path, uint64_t *bytes); /* free bytes of the file system */
} sr_io;

/* The table in force; tests assign to its members and restore them. */
extern sr_io sr_io_now;

/* Opens a regular file of at most `limit` bytes for reading; the caller closes *fd (-1 on failure)
 * through sr_io_now.  SR_ENOENT, SR_EDATA (a directory, a pipe, too large), SR_EIO. */
sr_status sr_file_open(int *fd, size_t *size, const char *path, size_t limit);

/* Opens anything that can be read sequentially, a pipe too, but not a directory (SR_EDATA).
 * *size is that of a regular file, 0 for the rest. */
sr_status sr_file_open_stream(int *fd, uint64_t *size, const char *path);

/* One read: *got = 0 at the end of the file, else 1 .. room. */
sr_status sr_file_read_some(size_t *got, int fd, void *bytes, size_t room, const char *path);

/* Reads a whole file into *bytes (freed by sr_free(), one zero byte follows the contents).
 * SR_ENOENT when it does not exist, SR_EDATA when it is larger than `limit` or not a regular file,
 * SR_EIO when reading fails. */
sr_status sr_file_read(void **bytes, size_t *size, const char *path, size_t limit);

/* Exactly `size` bytes at offset `at`, or SR_EDATA ("truncated"). */
sr_status sr_file_pread(int fd, void *bytes, size_t size, uint64_t at, const char *path);

/* All of `size` bytes, or SR_EIO with the path and the reason. */
sr_status sr_file_write(int fd, const void *bytes, size_t size, const char *path);

/* Replaces `path` by these bytes: temporary file next to it (O_EXCL, O_NOFOLLOW), write, fsync,
 * rename, fsync of the directory.  On failure `path` is unchanged and no temporary is left; only if
 * the very last call fails, the fsync of the directory, are the new contents in place although
 * their name may not survive a power cut. */
sr_status sr_file_replace(const char *path, const void *bytes, size_t size);

/* The steps of a durable write, for callers that order them themselves (core/store/saving.c).  Each
 * is one call of the table, with EINTR handled and the message set; SR_EIO unless stated. */

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
/* SR_EIO when fewer than `bytes` are free on the file system of `path`. */
sr_status sr_file_check_space(const char *path, uint64_t bytes);

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

/* fsync of a directory, so that names in it survive a power cut. */
sr_status sr_file_sync_dir(const char *path);

/* mkdir -p, mode 0777 less the umask. */
sr_status sr_file_make_dirs(const char *path);

/* "DIRECTORY/NAME", freed by sr_free(). */
sr_status sr_file_join(char **out, const char *folder, const char *name);

bool sr_file_exists(const char *path);
bool sr_file_is_dir(const char *path);

/* The names in a directory, sorted by bytes, without "." and ".."; freed by sr_file_list_free(). */
sr_status sr_file_list(char ***names, size_t *count, const char *path);
void sr_file_list_free(char **names, size_t count); /* NULL, 0 are allowed */

/* Removes a file, or a directory with its contents.  A symbolic link is removed, never followed;
 * a path that does not exist is SR_OK.  Stops at the first failure. */
sr_status sr_file_remove_tree(const char *path);

#ifdef __cplusplus
}
#endif
#endif
