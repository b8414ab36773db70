#include "core/base/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"

sr_status sr_file_sync_dir(const char *path) {
    int fd = sr_io_open(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return sr_io_failed("open", path);
    sr_status st = sr_file_sync(fd, path);
    sr_io_now.close(fd);
    return st;
}

/* Creates one directory; one that exists is fine. */
static sr_status make_dir(const char *path) {
    if (sr_io_now.mkdir(path, 0777) == 0) return SR_OK;
    int error = errno; /* not only EEXIST: an existing parent may give EROFS or EACCES too */
    if (sr_file_is_dir(path)) return SR_OK;
    if (error == ENOENT) /* its parent exists: no directory can be created there, as in /proc */
        return sr_fail(SR_EIO, "%s: no directory can be created there; choose another location",
                       path);
    errno = error;
    return sr_io_failed("create the directory", path);
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

sr_status sr_file_make_temporary(char **out) {
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] == '\0') folder = "/tmp";
    SR_TRY(sr_file_join(out, folder, "seqrun-XXXXXX"));
    if (mkdtemp(*out) != NULL) return SR_OK;
    sr_status st = sr_io_failed_to_create("make a directory", *out);
    sr_free(*out);
    *out = NULL;
    return st;
}

sr_status sr_file_join(char **out, const char *folder, const char *name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    SR_TRY(sr_new(out, size));
    snprintf(*out, size, "%s/%s", folder, name);
    return SR_OK;
}

sr_status sr_file_stat(bool *there, struct stat *st, const char *path) {
    *there = stat(path, st) == 0;
    if (*there || sr_io_absent(errno)) return SR_OK;
    return sr_fail(errno == ENOMEM ? SR_ENOMEM : SR_EIO, "cannot examine %s: %s", path,
                   strerror(errno));
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
        if (entry == NULL) return errno == 0 ? SR_OK : sr_io_failed("list", path);
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
    if (dir == NULL) return sr_io_failed("list", path);
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
    if (lstat(path, &info) != 0) return errno == ENOENT ? SR_OK : sr_io_failed("remove", path);
    if (!S_ISDIR(info.st_mode)) {
        if (sr_io_now.unlink(path) != 0 && errno != ENOENT) return sr_io_failed("remove", path);
        return SR_OK;
    }
    char **names;
    size_t count;
    SR_TRY(sr_file_list(&names, &count, path));
    sr_status st = SR_OK;
    for (size_t i = 0; i < count && st == SR_OK; i++) st = remove_entry(path, names[i]);
    sr_file_list_free(names, count);
    if (st == SR_OK && sr_io_now.rmdir(path) != 0) st = sr_io_failed("remove", path);
    return st;
}

/* Adds those of a name in an open directory; what links to another directory has none. */
static sr_status add_size(uint64_t *bytes, int folder, const char *name) {
    struct stat st;
    if (fstatat(folder, name, &st, 0) != 0)
        return errno == ENOENT ? SR_OK : sr_io_failed("examine", name);
    if (!S_ISDIR(st.st_mode)) {
        *bytes += (uint64_t)st.st_size;
        return SR_OK;
    }
    int links = folder == AT_FDCWD ? 0 : O_NOFOLLOW;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | links);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        bool none = errno == ENOENT || errno == ELOOP || (links != 0 && errno == ENOTDIR);
        sr_status status = none ? SR_OK : sr_io_failed("list", name);
        if (fd >= 0) sr_io_now.close(fd);
        return status;
    }
    sr_status status = SR_OK;
    while (status == SR_OK) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL && errno != 0) status = sr_io_failed("list", name);
        if (entry == NULL) break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = add_size(bytes, dirfd(dir), entry->d_name);
    }
    closedir(dir);
    return status;
}

sr_status sr_file_tree_size(uint64_t *bytes, const char *path) {
    *bytes = 0;
    return add_size(bytes, AT_FDCWD, path);
}
