/* io_faults.h - calls of storage that fail on demand, over the table of core/base/io.h:
 *
 *     io_fail(n, EIO, NULL); ... io_faults.calls ...; io_sound();
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/io.h"

static struct io_faults {
    sr_io sound;
    bool replaced;
    const char *only; /* the call that is counted; NULL: all */
    int64_t calls, at;
    int error;     /* of call number `at`; 0: if it is a write, half of it */
    bool on;       /* and of all later ones */
    bool in_parts; /* no read or write is of more than 3 bytes, every second write is interrupted */
    int64_t writes;
    bool failed_fd[1024],
        again; /* descriptors whose fsync failed, and whether one was synced again */
} io_faults;

static inline bool io_hits(void) {
    const struct io_faults *f = &io_faults;
    return f->at > 0 && (f->calls == f->at || (f->on && f->calls > f->at));
}

static inline bool io_fails(const char *name) {
    static const char *const interruptible = "open pread read write fsync close fallocate flock";
    struct io_faults *f = &io_faults;
    if (f->only != NULL && strcmp(name, f->only) != 0) return false;
    f->calls++;
    if (!io_hits() || f->error == 0) return false;
    if (f->error == EINTR && strstr(interruptible, name) == NULL) return false;
    errno = f->error;
    return true;
}

/* One call of the table: it fails, or is that of the sound one. */
#define IO_FAULT(name, parameters, arguments)                                                      \
    static inline int io_fault_##name parameters {                                                 \
        return io_fails(#name) ? -1 : io_faults.sound.name arguments;                              \
    }
IO_FAULT(rename, (const char *a, const char *b), (a, b))
IO_FAULT(exchange, (const char *a, const char *b), (a, b))
IO_FAULT(mkdir, (const char *path, unsigned mode), (path, mode))
IO_FAULT(unlink, (const char *path), (path))
IO_FAULT(rmdir, (const char *path), (path))
IO_FAULT(fallocate, (int fd, off_t size), (fd, size))
IO_FAULT(flock, (int fd, int operation), (fd, operation))
IO_FAULT(space, (const char *path, uint64_t *bytes), (path, bytes))

static inline int io_fault_open(const char *path, int flags, unsigned mode) {
    int fd = io_fails("open") ? -1 : io_faults.sound.open(path, flags, mode);
    if (fd >= 0 && fd < 1024) io_faults.failed_fd[fd] = false;
    return fd;
}
static inline ssize_t io_fault_pread(int fd, void *bytes, size_t size, off_t at) {
    return io_fails("pread") ? -1 : io_faults.sound.pread(fd, bytes, size, at);
}
static inline ssize_t io_fault_read(int fd, void *bytes, size_t size) {
    if (io_fails("read")) return -1;
    return io_faults.sound.read(fd, bytes, io_faults.in_parts && size > 3 ? 3 : size);
}
static inline ssize_t io_fault_write(int fd, const void *bytes, size_t size) {
    struct io_faults *f = &io_faults;
    if (io_fails("write")) return -1;
    if (f->in_parts && f->writes++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    if (f->in_parts && size > 3) size = 3;
    bool half = f->at > 0 && f->error == 0 && f->calls >= f->at && size > 1;
    return f->sound.write(fd, bytes, half ? (size + 1) / 2 : size);
}
static inline int io_fault_fsync(int fd) {
    if (io_faults.failed_fd[fd]) io_faults.again = true;
    if (!io_fails("fsync")) return io_faults.sound.fsync(fd);
    if (io_faults.error != EINTR) io_faults.failed_fd[fd] = true;
    return -1;
}
static inline int io_fault_close(int fd) {
    int rc = io_faults.sound.close(fd); /* a failed close has closed the file too */
    return io_fails("close") ? -1 : rc;
}

/* The calls of storage are those of before again. */
static inline void io_sound(void) {
    if (io_faults.replaced) sr_io_now = io_faults.sound;
    io_faults.replaced = false;
}

/* Call n of storage from now fails with `error`, of those named `only` if it is not NULL; 0: none. */
static inline void io_fail(int64_t n, int error, const char *only) {
    io_sound();
    memset(&io_faults, 0, sizeof io_faults);
    io_faults.sound = sr_io_now;
    io_faults.replaced = true;
    io_faults.only = only;
    io_faults.at = n;
    io_faults.error = error;
    sr_io_now.open = io_fault_open;
    sr_io_now.pread = io_fault_pread;
    sr_io_now.read = io_fault_read;
    sr_io_now.write = io_fault_write;
    sr_io_now.fsync = io_fault_fsync;
    sr_io_now.close = io_fault_close;
    sr_io_now.rename = io_fault_rename;
    sr_io_now.exchange = io_fault_exchange;
    sr_io_now.mkdir = io_fault_mkdir;
    sr_io_now.unlink = io_fault_unlink;
    sr_io_now.rmdir = io_fault_rmdir;
    sr_io_now.fallocate = io_fault_fallocate;
    sr_io_now.flock = io_fault_flock;
    sr_io_now.space = io_fault_space;
}
