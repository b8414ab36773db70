#include "core/store/append.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"

static sr_status open_file(sr_append *a, uint64_t size) {
    struct stat info;
    do
        a->fd =
            sr_io_now.open(a->path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    while (a->fd < 0 && errno == EINTR);
    if (a->fd < 0) return sr_fail(SR_EIO, "%s: cannot open: %s", a->path, strerror(errno));
    if (fstat(a->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return sr_fail(SR_EIO, "%s: is not a regular file", a->path);
    a->size = (uint64_t)info.st_size;
    if (a->size <= size) return SR_OK;
    a->size = size;
    return sr_file_truncate(a->fd, size, a->path);
}

sr_status sr_append_open(sr_append **out, const char *path, uint64_t size) {
    *out = NULL;
    sr_append *a;
    SR_TRY(sr_new(&a, 1));
    a->fd = -1;
    pthread_mutex_init(&a->lock, NULL);
    sr_status st = sr_strdup(&a->path, path);
    if (st == SR_OK) st = open_file(a, size);
    return SR_GIVE(out, a, st, sr_append_close);
}

/* The lock is held. */
static sr_status write_record(sr_append *a, const void *bytes, size_t size) {
    if (a->torn) {
        SR_TRY(sr_file_truncate(a->fd, a->size, a->path));
        a->torn = false;
    }
    sr_status st = sr_file_write(a->fd, bytes, size, a->path);
    if (st == SR_OK) {
        a->size += size;
        return SR_OK;
    }
    a->torn = sr_io_now.ftruncate(a->fd, (off_t)a->size) != 0;
    return st;
}

sr_status sr_append_write(sr_append *a, const void *bytes, size_t size) {
    pthread_mutex_lock(&a->lock);
    sr_status st = write_record(a, bytes, size);
    pthread_mutex_unlock(&a->lock);
    return st;
}

sr_status sr_append_sync(sr_append *a) {
    struct stat mine, there;
    if (fstat(a->fd, &mine) != 0) return sr_io_failed("examine", a->path);
    if (stat(a->path, &there) != 0 || mine.st_ino != there.st_ino || mine.st_dev != there.st_dev)
        return sr_fail(SR_EIO, "%s was removed or replaced while it was written", a->path);
    return sr_file_sync(a->fd, a->path);
}

void sr_append_close(sr_append *a) {
    if (a == NULL) return;
    if (a->fd >= 0) sr_io_now.close(a->fd);
    pthread_mutex_destroy(&a->lock);
    sr_free(a->path);
    sr_free(a);
}
