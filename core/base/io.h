/* io.h - the system calls that touch storage, and what their errors mean.
 *
 * Every such call goes through sr_io_now, a table that tests replace to inject errors, record the
 * order of writes, or simulate a power cut.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/status.h"

SR_BEGIN_C

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

/* open() with O_CLOEXEC, again after EINTR; -1 and errno on failure. */
int sr_io_open(const char *path, int flags, unsigned mode);

/* Whether an error number says that nothing has this name. */
bool sr_io_absent(int error);

/* The status of a failed call, from errno: "PATH: cannot VERB: reason; the way out". */
sr_status sr_io_failed(const char *verb, const char *path);

/* The same for a file that could not be created: if its directory is missing, that is an error of
 * storage (SR_EIO), not of the input. */
sr_status sr_io_failed_to_create(const char *verb, const char *path);

SR_END_C
