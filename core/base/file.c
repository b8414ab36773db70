#include "core/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/mem.h"

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

/* What to do about the errors that people meet; "" for the rest. */
static const char *way_out(const char *verb, int error) {
    bool reading =
        strcmp(verb, "open") == 0 || strcmp(verb, "read") == 0 || strcmp(verb, "list") == 0;
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

/* The status of a failed call, from errno. */
static sr_status failed(const char *verb, const char *path) {
    int error = errno;
    sr_status status = error == ENOENT ? SR_ENOENT : error == ENOMEM ? SR_ENOMEM : SR_EIO;
    return sr_fail(status, "%s: cannot %s: %s%s", path, verb, strerror(error),
                   way_out(verb, error));
}

static int open_retry(const char *path, int flags, unsigned mode) {
    int fd;
    do fd = sr_io_now.open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

sr_status sr_file_read_some(size_t *got, int fd, void *bytes, size_t room, const char *path) {
    ssize_t n;
    *got = 0;
    do n = sr_io_now.read(fd, bytes, room);
    while (n < 0 && errno == EINTR);
    if (n < 0) return failed("read", path);
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
    if (fstat(fd, &st) != 0) return failed("examine", path);
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
    *fd = open_retry(path, O_RDONLY | O_NONBLOCK, 0);
    if (*fd < 0) return failed("open", path);
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
    *fd = open_retry(path, O_RDONLY, 0);
    if (*fd < 0) return failed("open", path);
    if (fstat(*fd, &st) == 0 && !S_ISDIR(st.st_mode)) {
        if (S_ISREG(st.st_mode)) *size = (uint64_t)st.st_size;
        return SR_OK;
    }
    sr_io_now.close(*fd);
    *fd = -1;
    return sr_fail(SR_EDATA, "%s: is a directory; expected a file", path);
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
        if (n < 0) return failed("read", path);
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
        if (n <= 0) return failed("write", path);
        from += n;
        size -= (size_t)n;
    }
    return SR_OK;
}

sr_status sr_file_sync(int fd, const char *path) {
    int rc;
    do rc = sr_io_now.fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? SR_OK : failed("sync", path);
}

/* A file that cannot be created because its directory is missing: an error of storage, not of the
 * input. */
static sr_status failed_to_create(const char *verb, const char *path) {
    if (errno != ENOENT) return failed(verb, path);
    return sr_fail(SR_EIO, "%s: cannot %s: its directory does not exist; create it first", path,
                   verb);
}

sr_status sr_file_create(int *fd, const char *path, unsigned mode) {
    *fd = open_retry(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    return *fd >= 0 ? SR_OK : failed_to_create("create it", path);
}

sr_status sr_file_reserve(int fd, uint64_t size, const char *path) {
    int rc;
    if (size == 0) return SR_OK;
    if (size > INT64_MAX) return sr_fail(SR_EINVAL, "%s: too large for a file", path);
    do rc = sr_io_now.fallocate(fd, (off_t)size);
    while (rc != 0 && errno == EINTR);
    bool unable = errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;
    return rc == 0 || unable ? SR_OK : failed("reserve space", path);
}

sr_status sr_file_close(int fd, const char *path) {
    return sr_io_now.close(fd) == 0 || errno == EINTR ? SR_OK : failed("close", path);
}

sr_status sr_file_rename(const char *from, const char *to) {
    return sr_io_now.rename(from, to) == 0 ? SR_OK : failed("rename to it", to);
}

sr_status sr_file_exchange(bool *done, const char *a, const char *b) {
    *done = sr_io_now.exchange(a, b) == 0;
    bool unable = errno == EINVAL || errno == ENOSYS;
    return *done || unable ? SR_OK : failed("exchange another directory with it", b);
}

sr_status sr_file_truncate(int fd, uint64_t size, const char *path) {
    int rc;
    do rc = sr_io_now.ftruncate(fd, (off_t)size);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? SR_OK : failed("cut", path);
}

sr_status sr_file_lock(int fd, const char *path) {
    int rc;
    do rc = sr_io_now.flock(fd, LOCK_EX | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    if (rc != 0 && errno == EWOULDBLOCK)
        return sr_fail(SR_ELOCK, "%s: the lock is held by another process", path);
    return rc == 0 ? SR_OK : failed("lock", path);
}

sr_status sr_file_check_space(const char *path, uint64_t bytes) {
    uint64_t left;
    if (sr_io_now.space(path, &left) != 0) return failed("get the free space", path);
    if (left >= bytes) return SR_OK;
    return sr_fail(SR_EIO, "%s: only %ju bytes are free, %ju are needed%s", path, (uintmax_t)left,
                   (uintmax_t)bytes, way_out("write", ENOSPC));
}

/* The directory of `path`, "." when it has none; freed by sr_free(). */
static sr_status folder_of(char **out, const char *path) {
    SR_TRY(sr_strdup(out, path));
    char *slash = strrchr(*out, '/');
    if (slash == NULL) {
        sr_free(*out);
        return sr_strdup(out, ".");
    }
    slash[slash == *out] = '\0'; /* "/name" is in "/" */
    return SR_OK;
}

/* An unpredictable name next to `path`: DIRECTORY/.NAME.tmp-XXXXXXXX, freed by sr_free(). */
static sr_status temporary_name(char **out, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return sr_fail(SR_EIO, "%s: cannot get a random number from the system", path);
    size_t size = strlen(path) + sizeof "..tmp-01234567";
    SR_TRY(sr_alloc((void **)out, size, 1));
    snprintf(*out, size, "%.*s.%s.tmp-%08x", (int)(name - path), path, name, random);
    return SR_OK;
}

/* Creates the temporary file that will become `path`. */
static sr_status open_temporary(int *fd, char **temporary, const char *path) {
    for (int tries = 0; tries < 16; tries++) {
        SR_TRY(temporary_name(temporary, path));
        *fd = open_retry(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        if (*fd >= 0) return SR_OK;
        bool taken = errno == EEXIST;
        sr_status st = failed_to_create("create a temporary file next to it", path);
        sr_free(*temporary);
        *temporary = NULL;
        if (!taken) return st;
    }
    return sr_fail(SR_EIO, "%s: all temporary names next to it are taken", path);
}

sr_status sr_draft_open(sr_draft *d, const char *path) {
    *d = (sr_draft){.fd = -1};
    if (sr_file_is_dir(path)) { /* known before the work, not at the rename */
        errno = EISDIR;
        return failed("write to it", path);
    }
    sr_status st = sr_strdup(&d->path, path);
    if (st == SR_OK) st = open_temporary(&d->fd, &d->temporary, path);
    if (st != SR_OK) sr_draft_drop(d);
    return st;
}

/* The name's directory is looked up before the rename: after it, nothing may run out of memory. */
static sr_status publish(sr_draft *d) {
    char *folder;
    SR_TRY(folder_of(&folder, d->path));
    sr_status st = SR_OK;
    if (sr_io_now.rename(d->temporary, d->path) != 0) {
        st = failed("replace", d->path);
    } else {
        sr_free(d->temporary);
        d->temporary = NULL;
        st = sr_file_sync_dir(folder);
    }
    sr_free(folder);
    return st;
}

sr_status sr_draft_commit(sr_draft *d) {
    sr_status st = sr_file_sync(d->fd, d->path);
    if (sr_io_now.close(d->fd) != 0 && st == SR_OK && errno != EINTR) st = failed("close", d->path);
    d->fd = -1;
    if (st == SR_OK) st = publish(d);
    sr_draft_drop(d);
    return st;
}

void sr_draft_drop(sr_draft *d) {
    if (d->path == NULL) return; /* all zero, or dropped before */
    if (d->fd >= 0) sr_io_now.close(d->fd);
    if (d->temporary != NULL) sr_io_now.unlink(d->temporary);
    sr_free(d->temporary);
    sr_free(d->path);
    *d = (sr_draft){.fd = -1};
}

sr_status sr_file_replace(const char *path, const void *bytes, size_t size) {
    sr_draft draft;
    SR_TRY(sr_draft_open(&draft, path));
    sr_status st = sr_file_write(draft.fd, bytes, size, path);
    if (st == SR_OK) return sr_draft_commit(&draft);
    sr_draft_drop(&draft);
    return st;
}

sr_status sr_file_sync_dir(const char *path) {
    int fd = open_retry(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return failed("open", path);
    sr_status st = sr_file_sync(fd, path);
    sr_io_now.close(fd);
    return st;
}

/* Creates one directory; one that exists is fine. */
static sr_status make_dir(const char *path) {
    if (sr_io_now.mkdir(path, 0777) == 0) return SR_OK;
    int error = errno; /* not only EEXIST: an existing parent may give EROFS or EACCES too */
    if (sr_file_is_dir(path)) return SR_OK;
    if (error == ENOENT) /* its parents exist: no directory can be created there, as in /proc */
        return sr_fail(SR_EIO, "%s: no directory can be created there; choose another location",
                       path);
    errno = error;
    return failed("create the directory", path);
}

sr_status sr_file_make_dirs(const char *path) {
    if (path[0] == '\0') return sr_fail(SR_EINVAL, "make_dirs: the path is empty");
    char *copy;
    SR_TRY(sr_strdup(&copy, path));
    sr_status st = SR_OK;
    for (char *p = copy + 1; st == SR_OK && *p != '\0'; p++) {
        if (*p != '/' || p[-1] == '/') continue;
        *p = '\0';
        st = make_dir(copy);
        *p = '/';
    }
    if (st == SR_OK) st = make_dir(copy);
    sr_free(copy);
    return st;
}

sr_status sr_file_join(char **out, const char *folder, const char *name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    SR_TRY(sr_new(out, size));
    snprintf(*out, size, "%s/%s", folder, name);
    return SR_OK;
}

bool sr_file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

bool sr_file_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static sr_status list_into(char ***names, size_t *count, DIR *dir, const char *path) {
    size_t room = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) return errno == 0 ? SR_OK : failed("list", path);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (*count == room) {
            room = room * 2 + 16;
            SR_TRY(sr_grow(names, room));
        }
        SR_TRY(sr_strdup(&(*names)[*count], entry->d_name));
        ++*count;
    }
}

sr_status sr_file_list(char ***names, size_t *count, const char *path) {
    *names = NULL;
    *count = 0;
    DIR *dir = opendir(path);
    if (dir == NULL) return failed("list", path);
    sr_status st = list_into(names, count, dir, path);
    closedir(dir);
    if (st != SR_OK) {
        sr_file_list_free(*names, *count);
        *names = NULL;
        *count = 0;
        return st;
    }
    if (*count > 1) qsort(*names, *count, sizeof **names, by_name);
    return SR_OK;
}

void sr_file_list_free(char **names, size_t count) {
    for (size_t i = 0; i < count; i++) sr_free(names[i]);
    sr_free(names);
}

static sr_status remove_entry(const char *folder, const char *name) {
    char *path;
    SR_TRY(sr_file_join(&path, folder, name));
    sr_status st = sr_file_remove_tree(path);
    sr_free(path);
    return st;
}

sr_status sr_file_remove_tree(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0) return errno == ENOENT ? SR_OK : failed("remove", path);
    if (!S_ISDIR(info.st_mode)) {
        if (sr_io_now.unlink(path) != 0 && errno != ENOENT) return failed("remove", path);
        return SR_OK;
    }
    char **names;
    size_t count;
    SR_TRY(sr_file_list(&names, &count, path));
    sr_status st = SR_OK;
    for (size_t i = 0; i < count && st == SR_OK; i++) st = remove_entry(path, names[i]);
    sr_file_list_free(names, count);
    if (st == SR_OK && sr_io_now.rmdir(path) != 0) st = failed("remove", path);
    return st;
}
