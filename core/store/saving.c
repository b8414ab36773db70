#include "core/store/saving.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/store/checkpoint.h"
#include "core/store/manifest.h"

enum { MAX_FOLDERS = 8 };

struct sr_saving {
    char *run;   /* the run's directory */
    char *draft; /* the temporary directory in it; NULL if there is none */
    bool joined; /* the directory belongs to another process */
    char *folders[MAX_FOLDERS];
    int folder_count;
    sr_manifest *manifest;
    int fd; /* of the open file, or -1 */
    char *path;
    uint64_t announced;
    XXH3_state_t *whole, *block;
    size_t in_block; /* bytes in the current block */
};

/* ---- begin ----------------------------------------------------------------------------------- */

static sr_status make_draft(sr_saving *s) {
    for (int tries = 0; tries < 16; tries++) {
        uint32_t random;
        char name[64];
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return sr_fail(SR_EIO, "%s: cannot get a random number from the system", s->run);
        snprintf(name, sizeof name, SR_DRAFT_PREFIX "%" PRId64 "-%08x", s->manifest->step, random);
        char *path;
        SR_TRY(sr_file_join(&path, s->run, name));
        int rc = sr_io_now.mkdir(path, 0777);
        if (rc == 0) {
            s->draft = path;
            return SR_OK;
        }
        int error = errno;
        sr_status st =
            sr_fail(SR_EIO, "%s: cannot create the directory: %s", path, strerror(error));
        sr_free(path);
        if (error != EEXIST) return st;
    }
    return sr_fail(SR_EIO, "%s: all temporary names are taken", s->run);
}

static sr_status prepare(sr_saving *s, int64_t step) {
    if (step < 0 || step > SR_MAX_STEP)
        return sr_fail(SR_EINVAL, "checkpoint: step %" PRId64 " is out of range 0..%" PRId64, step,
                       (int64_t)SR_MAX_STEP);
    SR_TRY(sr_new(&s->manifest, 1));
    s->manifest->step = step;
    SR_TRY(sr_alloc_aligned((void **)&s->whole, sizeof *s->whole));
    return sr_alloc_aligned((void **)&s->block, sizeof *s->block);
}

static sr_status begin(sr_saving *s, const char *run, int64_t step, uint64_t bytes) {
    SR_TRY(prepare(s, step));
    SR_TRY(sr_strdup(&s->run, run));
    SR_TRY(sr_file_check_space(run, bytes + bytes / 10));
    return make_draft(s);
}

static sr_status join(sr_saving *s, const char *draft, int64_t step) {
    s->joined = true;
    SR_TRY(prepare(s, step));
    return sr_strdup(&s->draft, draft);
}

/* Hands over the saving, or frees it after a failure. */
static sr_status give(sr_saving **out, sr_saving *s, sr_status st) {
    if (st == SR_OK)
        *out = s;
    else
        sr_saving_end(s);
    return st;
}

sr_status sr_saving_begin(sr_saving **out, const char *run, int64_t step, uint64_t bytes) {
    sr_saving *s;
    *out = NULL;
    SR_TRY(sr_new(&s, 1));
    s->fd = -1;
    return give(out, s, begin(s, run, step, bytes));
}

sr_status sr_saving_join(sr_saving **out, const char *draft, int64_t step) {
    sr_saving *s;
    *out = NULL;
    SR_TRY(sr_new(&s, 1));
    s->fd = -1;
    return give(out, s, join(s, draft, step));
}

const char *sr_saving_draft(const sr_saving *s) {
    return s->draft;
}

/* ---- one file -------------------------------------------------------------------------------- */

/* Creates a directory of the draft; another process may have done so already. */
static sr_status make_dir(const char *path) {
    if (sr_io_now.mkdir(path, 0777) == 0 || (errno == EEXIST && sr_file_is_dir(path))) return SR_OK;
    return sr_fail(SR_EIO, "%s: cannot create the directory: %s", path, strerror(errno));
}

/* Creates the directory of `name`, once. */
static sr_status make_folder(sr_saving *s, const char *name) {
    const char *slash = strchr(name, '/');
    if (slash == NULL) return SR_OK;
    char *path;
    SR_TRY(sr_file_join(&path, s->draft, name));
    path[strlen(s->draft) + 1 + (size_t)(slash - name)] = '\0';
    sr_status st = SR_OK;
    for (int i = 0; i < s->folder_count; i++)
        if (strcmp(s->folders[i], path) == 0) goto out;
    if (s->folder_count == MAX_FOLDERS)
        st = sr_fail(SR_EINVAL, "checkpoint: more than %d subdirectories", MAX_FOLDERS);
    else
        st = make_dir(path);
    if (st == SR_OK) {
        s->folders[s->folder_count++] = path;
        return SR_OK;
    }
out:
    sr_free(path);
    return st;
}

static sr_status add_to_manifest(sr_saving *s, const char *name, uint64_t bytes) {
    sr_manifest *m = s->manifest;
    uint64_t blocks = bytes / SR_MANIFEST_BLOCK + (bytes % SR_MANIFEST_BLOCK != 0);
    for (int64_t i = 0; i < m->count; i++)
        if (strcmp(m->files[i].name, name) == 0)
            return sr_fail(SR_EINVAL, "checkpoint: duplicate file '%s'", name);
    if (m->count == SR_MANIFEST_MAX_FILES)
        return sr_fail(SR_EINVAL, "checkpoint: more than %d files", SR_MANIFEST_MAX_FILES);
    SR_TRY(sr_grow(&m->files, m->count + 1));
    sr_manifest_file *file = &m->files[m->count];
    memset(file, 0, sizeof *file);
    SR_TRY(sr_strdup(&file->name, name));
    m->count++;
    return sr_new(&file->blocks, blocks);
}

/* A new file of the draft, open for writing, with its space reserved. */
static sr_status create(sr_saving *s, const char *name, uint64_t bytes) {
    SR_TRY(sr_file_join(&s->path, s->draft, name));
    SR_TRY(sr_file_create(&s->fd, s->path, 0666));
    s->announced = bytes;
    return sr_file_reserve(s->fd, bytes, s->path);
}

/* Makes the open file durable and closes it, even after errors. */
static sr_status finish(sr_saving *s) {
    sr_status st = sr_file_sync(s->fd, s->path);
    sr_status closed = sr_file_close(s->fd, s->path);
    s->fd = -1;
    sr_free(s->path);
    s->path = NULL;
    return st != SR_OK ? st : closed;
}

sr_status sr_saving_open(sr_saving *s, const char *name, uint64_t bytes) {
    SR_TRY(sr_manifest_check_name(name));
    if (s->fd >= 0 || s->draft == NULL)
        return sr_fail(SR_EINTERNAL, "checkpoint: '%s' is opened out of order", name);
    SR_TRY(add_to_manifest(s, name, bytes));
    SR_TRY(make_folder(s, name));
    XXH3_128bits_reset(s->whole);
    XXH3_64bits_reset(s->block);
    s->in_block = 0;
    return create(s, name, bytes);
}

static void end_block(sr_saving *s, sr_manifest_file *file) {
    file->blocks[file->block_count++] = XXH3_64bits_digest(s->block);
    XXH3_64bits_reset(s->block);
    s->in_block = 0;
}

sr_status sr_saving_write(void *saving, const void *bytes, size_t size) {
    sr_saving *s = saving;
    sr_manifest_file *file = &s->manifest->files[s->manifest->count - 1];
    if (s->fd < 0 || size > s->announced - file->bytes)
        return sr_fail(SR_EINTERNAL, "checkpoint: a file has more bytes than announced");
    SR_TRY(sr_file_write(s->fd, bytes, size, s->path));
    file->bytes += size;
    XXH3_128bits_update(s->whole, bytes, size);
    for (const char *at = bytes; size > 0;) {
        size_t room = SR_MANIFEST_BLOCK - s->in_block, n = size < room ? size : room;
        XXH3_64bits_update(s->block, at, n);
        s->in_block += n;
        at += n;
        size -= n;
        if (s->in_block == SR_MANIFEST_BLOCK) end_block(s, file);
    }
    return SR_OK;
}

sr_status sr_saving_close(sr_saving *s) {
    sr_manifest_file *file = &s->manifest->files[s->manifest->count - 1];
    if (s->fd < 0 || file->bytes != s->announced)
        return sr_fail(SR_EINTERNAL, "checkpoint: '%s' has fewer bytes than announced",
                       s->manifest->count > 0 ? file->name : "?");
    if (s->in_block > 0) end_block(s, file);
    XXH128_hash_t sum = XXH3_128bits_digest(s->whole);
    file->sum[0] = sum.high64;
    file->sum[1] = sum.low64;
    return finish(s);
}

sr_status sr_saving_file(sr_saving *s, const char *name, const void *bytes, size_t size) {
    SR_TRY(sr_saving_open(s, name, size));
    SR_TRY(sr_saving_write(s, bytes, size));
    return sr_saving_close(s);
}

/* ---- commit ---------------------------------------------------------------------------------- */

static sr_status write_manifest(sr_saving *s) {
    char *text = NULL;
    size_t size;
    SR_TRY(sr_manifest_print(&text, &size, s->manifest));
    sr_status st = create(s, SR_MANIFEST_NAME, size);
    if (st == SR_OK) st = sr_file_write(s->fd, text, size, s->path);
    if (st == SR_OK) st = finish(s);
    sr_free(text);
    return st;
}

/* Gives the draft its name.  If that name is taken (a step saved before, and trained again), the
 * two are exchanged, so that one of them is always there; the old one is then removed as a draft.
 */
static sr_status publish(sr_saving *s, const char *final) {
    bool taken, done;
    struct stat facts;
    SR_TRY(sr_file_stat(&taken, &facts, final));
    if (taken) {
        sr_log(SR_LOG_WARN, "%s: saved again; replaces the older checkpoint", final);
        SR_TRY(sr_file_exchange(&done, s->draft, final));
        if (done) return sr_file_sync_dir(s->run);
        SR_TRY(sr_checkpoint_trash(s->run, s->manifest->step));
    }
    SR_TRY(sr_file_rename(s->draft, final));
    sr_free(s->draft);
    s->draft = NULL;
    return sr_file_sync_dir(s->run);
}

static sr_status sync_folders(const sr_saving *s) {
    for (int i = 0; i < s->folder_count; i++) SR_TRY(sr_file_sync_dir(s->folders[i]));
    return SR_OK;
}

sr_status sr_saving_commit(sr_saving *s) {
    if (s->fd >= 0 || s->draft == NULL || s->joined)
        return sr_fail(SR_EINTERNAL, "checkpoint: committed out of order");
    SR_TRY(write_manifest(s));
    SR_TRY(sync_folders(s));
    SR_TRY(sr_file_sync_dir(s->draft));
    char *final;
    SR_TRY(sr_checkpoint_path(&final, s->run, s->manifest->step));
    sr_status st = publish(s, final);
    sr_free(final);
    return st;
}

/* ---- several processes ----------------------------------------------------------------------- */

sr_status sr_saving_report(char **text, size_t *size, sr_saving *s) {
    *text = NULL;
    if (s->fd >= 0) return sr_fail(SR_EINTERNAL, "checkpoint: reported out of order");
    SR_TRY(sync_folders(s));
    return sr_manifest_print(text, size, s->manifest);
}

/* Moves one file of a report to the manifest. */
static sr_status adopt_file(sr_saving *s, sr_manifest_file *file) {
    SR_TRY(add_to_manifest(s, file->name, 0));
    sr_manifest_file *own = &s->manifest->files[s->manifest->count - 1], swap = *own;
    *own = *file;
    *file = swap;
    return make_folder(s, own->name);
}

sr_status sr_saving_adopt(sr_saving *s, const char *report, size_t size) {
    sr_manifest *theirs;
    if (s->fd >= 0 || s->draft == NULL || s->joined)
        return sr_fail(SR_EINTERNAL, "checkpoint: a report is adopted out of order");
    SR_TRY(sr_manifest_parse(&theirs, report, size, "report"));
    sr_status st = SR_OK;
    if (theirs->step != s->manifest->step)
        st = sr_fail(SR_EDATA,
                     "checkpoint: step %" PRId64 " was saved by another rank, not %" PRId64,
                     theirs->step, s->manifest->step);
    for (int64_t i = 0; st == SR_OK && i < theirs->count; i++)
        st = adopt_file(s, &theirs->files[i]);
    sr_manifest_free(theirs);
    return st;
}

void sr_saving_end(sr_saving *s) {
    if (s == NULL) return;
    if (s->fd >= 0) sr_io_now.close(s->fd);
    if (s->draft != NULL && !s->joined && sr_file_remove_tree(s->draft) != SR_OK)
        sr_log(SR_LOG_WARN, "%s; it will be removed when the run starts next", sr_message());
    for (int i = 0; i < s->folder_count; i++) sr_free(s->folders[i]);
    sr_manifest_free(s->manifest);
    sr_free_aligned(s->whole);
    sr_free_aligned(s->block);
    sr_free(s->path);
    sr_free(s->draft);
    sr_free(s->run);
    sr_free(s);
}
