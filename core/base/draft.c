#include "core/base/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"

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
        *fd = sr_io_open(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        if (*fd >= 0) return SR_OK;
        bool taken = errno == EEXIST;
        sr_status st = sr_io_failed_to_create("create a temporary file next to it", path);
        sr_free(*temporary);
        *temporary = NULL;
        if (!taken) return st;
    }
    return sr_fail(SR_EIO, "%s: all temporary names next to it are taken", path);
}

/* Whether the path is something that a file must not replace: a directory, a device, a pipe. */
static sr_status check_kind(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) return SR_OK;
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return sr_io_failed("write to it", path);
    }
    return sr_fail(SR_EIO, "%s: not a regular file; write to a regular file", path);
}

sr_status sr_draft_open(sr_draft *d, const char *path) {
    *d = (sr_draft){.fd = -1};
    SR_TRY(check_kind(path)); /* report it before the work, not at the rename */
    sr_status st = sr_strdup(&d->path, path);
    if (st == SR_OK) st = open_temporary(&d->fd, &d->temporary, path);
    if (st != SR_OK) sr_draft_drop(d);
    return st;
}

/* The name's directory is found before the rename: after it, nothing may run out of memory. */
static sr_status publish(sr_draft *d) {
    char *folder;
    SR_TRY(folder_of(&folder, d->path));
    sr_status st = SR_OK;
    if (sr_io_now.rename(d->temporary, d->path) != 0) {
        st = sr_io_failed("replace", d->path);
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
    if (sr_io_now.close(d->fd) != 0 && st == SR_OK && errno != EINTR)
        st = sr_io_failed("close", d->path);
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
