#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "core/base/io.h"
#include "core/base/mem.h"
#include "core/base/thread.h"

enum { LOOK_MS = 200 }; /* between looks at the stop flag */

/* Waits until a pipe or terminal has something; a file always has. */
static sr_status await(int fd, const char *path) {
    struct pollfd input = {.fd = fd, .events = POLLIN};
    for (;;) {
        int ready = poll(&input, 1, LOOK_MS);
        if (ready > 0 || (ready < 0 && errno != EINTR)) return SR_OK;
        if (sr_stop_requested())
            return sr_fail(SR_ESTOP, "%s: stopped while waiting for input", path);
    }
}

sr_status sr_file_read_some(size_t *got, int fd, void *bytes, size_t room, const char *path) {
    ssize_t n;
    *got = 0;
    SR_TRY(await(fd, path));
    do n = sr_io_now.read(fd, bytes, room);
    while (n < 0 && errno == EINTR);
    if (n < 0) return sr_io_failed("read", path);
    *got = (size_t)n;
    return SR_OK;
}

/* Reads to the end; the size that fstat gave is a hint (files under /sys and /proc lie). */
static sr_status read_all(char **bytes, size_t *size, int fd, size_t hint, size_t limit,
                          const char *path) {
    size_t room = hint < limit ? hint : limit;
    for (;;) {
        size_t need;
        SR_TRY(sr_add_size(&need, room, 2)); /* the zero byte, and one that shows there is more */
        SR_TRY(sr_grow(bytes, need));
        size_t got = 1;
        while (*size <= room && got > 0) {
            SR_TRY(sr_file_read_some(&got, fd, *bytes + *size, room + 1 - *size, path));
            *size += got;
        }
        if (*size <= room) break;
        if (room == limit)
            return sr_fail(SR_EDATA, "%s: the file is larger than the limit of %zu bytes", path,
                           limit);
        room = limit / 2 > 4096 && room < limit / 2 - 4096 ? room * 2 + 4096 : limit;
    }
    (*bytes)[*size] = '\0';
    return SR_OK;
}

/* SR_EDATA unless `fd` is a regular file of at most `limit` bytes; *size is its size. */
static sr_status check_plain(size_t *size, int fd, size_t limit, const char *path) {
    struct stat st;
    if (fstat(fd, &st) != 0) return sr_io_failed("examine", path);
    if (!S_ISREG(st.st_mode))
        return sr_fail(SR_EDATA, "%s: is %s; expected a regular file", path,
                       S_ISDIR(st.st_mode) ? "a directory" : "a pipe or a device");
    if ((uintmax_t)st.st_size > limit)
        return sr_fail(SR_EDATA, "%s: the file has %jd bytes, the limit is %zu", path,
                       (intmax_t)st.st_size, limit);
    *size = (size_t)st.st_size;
    return SR_OK;
}

sr_status sr_file_open(int *fd, size_t *size, const char *path, size_t limit) {
    *size = 0;
    /* O_NONBLOCK: opening a pipe without a writer must not block. */
    *fd = sr_io_open(path, O_RDONLY | O_NONBLOCK, 0);
    if (*fd < 0) return sr_io_failed("open", path);
    sr_status st = check_plain(size, *fd, limit, path);
    if (st != SR_OK) {
        sr_io_now.close(*fd);
        *fd = -1;
    }
    return st;
}

sr_status sr_file_open_stream(int *fd, uint64_t *size, const char *path) {
    struct stat st;
    *size = 0;
    *fd = sr_io_open(path, O_RDONLY, 0);
    if (*fd < 0) return sr_io_failed("open", path);
    bool known = fstat(*fd, &st) == 0;
    if (known && !S_ISDIR(st.st_mode)) {
        if (S_ISREG(st.st_mode)) *size = (uint64_t)st.st_size;
        return SR_OK;
    }
    sr_status status = known ? sr_fail(SR_EDATA, "%s: is a directory; expected a file", path)
                             : sr_io_failed("examine", path);
    sr_io_now.close(*fd);
    *fd = -1;
    return status;
}

sr_status sr_file_read(void **bytes, size_t *size, const char *path, size_t limit) {
    *bytes = NULL;
    *size = 0;
    char *text = NULL;
    int fd;
    size_t hint = 0, length = 0;
    SR_TRY(sr_file_open(&fd, &hint, path, limit));
    sr_status st = read_all(&text, &length, fd, hint, limit, path);
    sr_io_now.close(fd); /* nothing was written: a failure to close loses nothing */
    if (st != SR_OK) {
        sr_free(text);
        return st;
    }
    *bytes = text;
    *size = length;
    return SR_OK;
}

sr_status sr_file_pread(int fd, void *bytes, size_t size, uint64_t at, const char *path) {
    char *to = bytes;
    if (at > INT64_MAX - size)
        return sr_fail(SR_EDATA, "%s: offset %ju is too large for a file", path, (uintmax_t)at);
    while (size > 0) {
        ssize_t n = sr_io_now.pread(fd, to, size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return sr_io_failed("read", path);
        if (n == 0)
            return sr_fail(SR_EDATA, "%s: truncated: expected %zu more bytes at byte %ju", path,
                           size, (uintmax_t)at);
        to += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return SR_OK;
}

sr_status sr_file_write(int fd, const void *bytes, size_t size, const char *path) {
    const char *from = bytes;
    while (size > 0) {
        ssize_t n = sr_io_now.write(fd, from, size);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = ENOSPC; /* no progress and no reason: do not retry forever */
        if (n <= 0) return sr_io_failed("write", path);
        from += n;
        size -= (size_t)n;
    }
    return SR_OK;
}

sr_status sr_file_sync(int fd, const char *path) {
    int rc;
    do rc = sr_io_now.fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? SR_OK : sr_io_failed("sync", path);
}

sr_status sr_file_create(int *fd, const char *path, unsigned mode) {
    *fd = sr_io_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    return *fd >= 0 ? SR_OK : sr_io_failed_to_create("create it", path);
}

sr_status sr_file_reserve(int fd, uint64_t size, const char *path) {
    int rc;
    if (size == 0) return SR_OK;
    if (size > INT64_MAX) return sr_fail(SR_EINVAL, "%s: too large for a file", path);
    do rc = sr_io_now.fallocate(fd, (off_t)size);
    while (rc != 0 && errno == EINTR);
    bool unable = errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;
    return rc == 0 || unable ? SR_OK : sr_io_failed("reserve space", path);
}

sr_status sr_file_close(int fd, const char *path) {
    return sr_io_now.close(fd) == 0 || errno == EINTR ? SR_OK : sr_io_failed("close", path);
}

sr_status sr_file_rename(const char *from, const char *to) {
    return sr_io_now.rename(from, to) == 0 ? SR_OK : sr_io_failed("rename to it", to);
}

sr_status sr_file_exchange(bool *done, const char *a, const char *b) {
    *done = sr_io_now.exchange(a, b) == 0;
    bool unable = errno == EINVAL || errno == ENOSYS;
    return *done || unable ? SR_OK : sr_io_failed("exchange another directory with it", b);
}

sr_status sr_file_truncate(int fd, uint64_t size, const char *path) {
    int rc;
    do rc = sr_io_now.ftruncate(fd, (off_t)size);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? SR_OK : sr_io_failed("cut", path);
}

static sr_status lock(int fd, int how, const char *path) {
    int rc;
    do rc = sr_io_now.flock(fd, how | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    if (rc != 0 && errno == EWOULDBLOCK)
        return sr_fail(SR_ELOCK, "%s: the lock is held by another process", path);
    return rc == 0 ? SR_OK : sr_io_failed("lock", path);
}

sr_status sr_file_lock(int fd, const char *path) {
    return lock(fd, LOCK_EX, path);
}

sr_status sr_file_probe_lock(int fd, const char *path) {
    return lock(fd, LOCK_SH, path);
}

sr_status sr_file_check_space(const char *path, uint64_t bytes) {
    uint64_t left;
    if (sr_io_now.space(path, &left) != 0) return sr_io_failed("get the free space", path);
    if (left >= bytes) return SR_OK;
    const double mib = 1 << 20;
    return sr_fail(SR_EIO,
                   "%s: only %.1f MiB are free, %.1f MiB are needed; free some space or choose "
                   "another directory",
                   path, (double)left / mib, (double)bytes / mib);
}
