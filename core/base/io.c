#include "core/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int io_open(const char *path, int flags, unsigned mode) {
    return open(path, flags, (mode_t)mode);
}

static int io_fallocate(int fd, off_t size) {
    return fallocate(fd, 0, 0, size);
}

static int io_space(const char *path, uint64_t *bytes) {
    struct statvfs info;
    if (statvfs(path, &info) != 0) return -1;
    *bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return 0;
}

static int io_exchange(const char *a, const char *b) {
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

static int io_mkdir(const char *path, unsigned mode) {
    return mkdir(path, (mode_t)mode);
}

sr_io sr_io_now = {
    .open = io_open,
    .pread = pread,
    .read = read,
    .write = write,
    .fsync = fsync,
    .close = close,
    .rename = rename,
    .exchange = io_exchange,
    .mkdir = io_mkdir,
    .unlink = unlink,
    .rmdir = rmdir,
    .fallocate = io_fallocate,
    .ftruncate = ftruncate,
    .flock = flock,
    .space = io_space,
};

/* What to do about common errors; "" for the rest. */
static const char *way_out(const char *verb, int error) {
    bool reading = strcmp(verb, "open") == 0 || strcmp(verb, "read") == 0 ||
                   strcmp(verb, "list") == 0 || strcmp(verb, "examine") == 0;
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "; free some space or choose another directory";
    case EFBIG:
        return "; raise the limit on file sizes (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
        return reading ? "; check its permissions" : "; choose a writable directory";
    case EEXIST:
        return "; a file with that name exists";
    case EISDIR:
        return "; name a file, not a directory";
    case ENOTDIR:
        return "; part of the path is a file, not a directory";
    case EMFILE:
    case ENFILE:
        return "; raise the limit on open files (ulimit -n)";
    default:
        return "";
    }
}

bool sr_io_absent(int error) {
    return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

sr_status sr_io_failed(const char *verb, const char *path) {
    int error = errno;
    sr_status status = sr_io_absent(error) ? SR_ENOENT : error == ENOMEM ? SR_ENOMEM : SR_EIO;
    return sr_fail(status, "%s: cannot %s: %s%s", path, verb, strerror(error),
                   way_out(verb, error));
}

int sr_io_open(const char *path, int flags, unsigned mode) {
    int fd;
    do fd = sr_io_now.open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

sr_status sr_io_failed_to_create(const char *verb, const char *path) {
    if (errno != ENOENT) {
        sr_status st = sr_io_failed(verb, path);
        return st == SR_ENOENT ? SR_EIO : st;
    }
    return sr_fail(SR_EIO, "%s: cannot %s: its directory does not exist; create it first", path,
                   verb);
}
