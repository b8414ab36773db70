#include "core/store/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "core/base/directory.h"
#include "core/base/draft.h"
#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/store/manifest.h"

enum { LOCK_BYTES = 256 };

/* ---- the lock -------------------------------------------------------------------------------- */

/* The holder of the lock, from the file's text, on one line. */
static void read_holder(char holder[LOCK_BYTES + 1], int fd) {
    ssize_t n = sr_io_now.pread(fd, holder, LOCK_BYTES, 0);
    holder[n > 0 ? n : 0] = '\0';
    size_t length = strcspn(holder, "\n");
    for (size_t i = 0; i < length; i++)
        if (holder[i] < 0x20 || holder[i] > 0x7E) holder[i] = '?';
    holder[length] = '\0';
    if (length == 0) strcpy(holder, "unknown");
}

/* Overwrites the whole record, so that no part of an older one remains. */
static void write_holder(int fd, const char *path) {
    char text[LOCK_BYTES + 1], host[65] = "unknown", when[32] = "?";
    time_t now = time(NULL);
    struct tm utc;
    gethostname(host, sizeof host - 1);
    if (gmtime_r(&now, &utc) != NULL) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    int n = snprintf(text, sizeof text, "process %d on %s since %s\n", (int)getpid(), host, when);
    memset(text + n, ' ', sizeof text - (size_t)n);
    text[LOCK_BYTES - 1] = '\n';
    if (sr_file_write(fd, text, LOCK_BYTES, path) != SR_OK)
        sr_log(SR_LOG_WARN, "%s; the lock is held nevertheless", sr_message());
}

/* Tries, and nanoseconds between them: a program that looks at the lock holds it for an instant. */
enum { LOCK_TRIES = 5, LOCK_PAUSE = 10 * 1000 * 1000 };

static sr_status lock_patiently(int fd, const char *path) {
    sr_status st = sr_file_lock(fd, path);
    for (int i = 1; i < LOCK_TRIES && st == SR_ELOCK; i++) {
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE}, NULL);
        st = sr_file_lock(fd, path);
    }
    return st;
}

static sr_status take_lock(sr_run_dir *dir) {
    char *path;
    SR_TRY(sr_file_join(&path, dir->path, "lock"));
    sr_status st = SR_OK;
    do dir->lock = sr_io_now.open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    while (dir->lock < 0 && errno == EINTR);
    if (dir->lock < 0)
        st = sr_fail(SR_EIO, "%s: cannot open: %s; choose a writable directory", path,
                     strerror(errno));
    if (st == SR_OK) st = lock_patiently(dir->lock, path);
    if (st == SR_OK) write_holder(dir->lock, path);
    if (st == SR_ELOCK) {
        char holder[LOCK_BYTES + 1];
        read_holder(holder, dir->lock);
        st = sr_fail(SR_ELOCK,
                     "%s: another run is using this directory (%s); stop it, or choose "
                     "another directory with --out",
                     dir->path, holder);
    }
    sr_free(path);
    return st;
}

/* ---- the directory --------------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static sr_status sync_parent(const char *path) {
    char *copy;
    SR_TRY(sr_strdup(&copy, path));
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/') copy[--n] = '\0';
    char *slash = strrchr(copy, '/');
    if (slash != NULL) slash[slash == copy] = '\0';
    sr_status st = sr_file_sync_dir(slash != NULL ? copy : ".");
    sr_free(copy);
    return st;
}

/* Creates a directory and its parents, each name durable before the next is created.  An existing
 * directory may have been created a moment ago by someone who did not sync it. */
static sr_status make_durably(const char *path) {
    if (sr_file_is_dir(path)) {
        if (sync_parent(path) != SR_OK) sr_log(SR_LOG_DEBUG, "%s", sr_message());
        return SR_OK;
    }
    char *copy;
    SR_TRY(sr_strdup(&copy, path));
    sr_status st = SR_OK;
    for (size_t i = 1, n = strlen(path); i <= n && st == SR_OK; i++) {
        if ((path[i] != '/' && path[i] != '\0') || path[i - 1] == '/') continue;
        copy[i] = '\0';
        if (!sr_file_is_dir(copy)) {
            st = sr_file_make_dirs(copy);
            if (st == SR_OK) st = sync_parent(copy);
        }
        copy[i] = path[i];
    }
    sr_free(copy);
    return st;
}

/* Writes, syncs and renames a small file, so that an unusable directory is noticed at once. */
static sr_status try_writing(const char *run) {
    char *path;
    SR_TRY(sr_file_join(&path, run, ".probe.tmp-00000000")); /* a leftover, if it stays */
    sr_status st = sr_file_replace(path, "probe\n", 6);
    if (sr_io_now.unlink(path) != 0 && st == SR_OK)
        st = sr_fail(SR_EIO, "%s: cannot remove: %s", path, strerror(errno));
    sr_free(path);
    return st;
}

/* Leftovers of a killed run: drafts and trash of checkpoints, and the temporary files of
 * sr_file_replace(), .NAME.tmp-01234567. */
static bool is_leftover(const char *name) {
    if (starts_with(name, SR_DRAFT_PREFIX) || starts_with(name, SR_TRASH_PREFIX)) return true;
    size_t n = strlen(name), tail = strlen(".tmp-01234567");
    return name[0] == '.' && n > tail && starts_with(name + n - tail, ".tmp-") &&
           strspn(name + n - 8, "0123456789abcdef") == 8;
}

/* Removes drafts and trash of killed runs; failures are only logged. */
static sr_status clean(const char *run) {
    char **names;
    size_t count;
    SR_TRY(sr_file_list(&names, &count, run));
    sr_status st = SR_OK;
    for (size_t i = 0; i < count && st == SR_OK; i++) {
        char *path = NULL;
        if (!is_leftover(names[i])) continue;
        st = sr_file_join(&path, run, names[i]);
        if (st == SR_OK && sr_file_remove_tree(path) != SR_OK)
            sr_log(SR_LOG_WARN, "%s", sr_message());
        sr_free(path);
    }
    sr_file_list_free(names, count);
    return st;
}

sr_status sr_run_dir_open(sr_run_dir **out, const char *path) {
    *out = NULL;
    sr_run_dir *dir;
    SR_TRY(sr_new(&dir, 1));
    dir->lock = -1;
    sr_status st = sr_strdup(&dir->path, path);
    if (st == SR_OK) st = make_durably(path);
    if (st == SR_OK) st = take_lock(dir);
    if (st == SR_OK) st = try_writing(path);
    if (st == SR_OK) st = clean(path);
    return SR_GIVE(out, dir, st, sr_run_dir_close);
}

void sr_run_dir_close(sr_run_dir *dir) {
    if (dir == NULL) return;
    if (dir->lock >= 0) sr_io_now.close(dir->lock);
    sr_free(dir->path);
    sr_free(dir);
}

static sr_status check_lock(sr_run_dir *dir, const char *lock) {
    struct stat mine, there;
    if (fstat(dir->lock, &mine) != 0) return sr_io_failed("examine", lock);
    if (stat(lock, &there) == 0) {
        if (mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) return SR_OK;
        return sr_fail(SR_ELOCK,
                       "%s: its lock was removed and another run has taken it, so this one stops "
                       "before it writes over the other's checkpoints; choose another directory "
                       "for one of them with --out",
                       dir->path);
    }
    if (errno != ENOENT) return sr_io_failed("examine", lock);
    int old = dir->lock;
    sr_status st = take_lock(dir);
    int unused = st == SR_OK ? old : dir->lock;
    if (st != SR_OK) dir->lock = old;
    if (unused >= 0) sr_io_now.close(unused);
    return st;
}

sr_status sr_run_dir_check(sr_run_dir *dir) {
    char *lock;
    SR_TRY(sr_file_join(&lock, dir->path, "lock"));
    sr_status st = check_lock(dir, lock);
    sr_free(lock);
    return st;
}

sr_status sr_run_dir_held(bool *held, const char *path) {
    *held = false;
    char *lock;
    SR_TRY(sr_file_join(&lock, path, "lock"));
    int fd;
    do fd = sr_io_now.open(lock, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    while (fd < 0 && errno == EINTR);
    sr_status st = SR_OK;
    if (fd >= 0) {
        st = sr_file_probe_lock(fd, lock); /* dropped at once */
        *held = st == SR_ELOCK;
        sr_io_now.close(fd);
    } else if (errno != ENOENT && errno != ENOTDIR) {
        st = sr_io_failed("open", lock);
    }
    sr_free(lock);
    return *held ? SR_OK : st;
}

/* ---- finding checkpoints ---- */

static void step_name(char name[40], const char *prefix, int64_t step) {
    snprintf(name, 40, "%sstep-%09" PRId64, prefix, step);
}

sr_status sr_checkpoint_path(char **out, const char *run, int64_t step) {
    char name[40];
    step_name(name, "", step);
    return sr_file_join(out, run, name);
}

/* The step of a directory's name, or -1: "step-" and the digits that step_name() writes. */
static int64_t step_of(const char *name) {
    char again[40];
    if (!starts_with(name, "step-")) return -1;
    size_t digits = strspn(name + 5, "0123456789");
    if (digits < 9 || digits > 12 || name[5 + digits] != '\0') return -1;
    int64_t step = strtoll(name + 5, NULL, 10);
    step_name(again, "", step);
    return strcmp(name, again) == 0 ? step : -1;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

sr_status sr_checkpoint_list(int64_t **steps, size_t *count, const char *run) {
    char **names;
    size_t n;
    *steps = NULL;
    *count = 0;
    SR_TRY(sr_file_list(&names, &n, run));
    sr_status st = sr_new(steps, n);
    for (size_t i = 0; i < n && st == SR_OK; i++) {
        int64_t step = step_of(names[i]);
        if (step >= 0) (*steps)[(*count)++] = step;
    }
    sr_file_list_free(names, n);
    if (*count > 1) qsort(*steps, *count, sizeof **steps, ascending);
    return st;
}

sr_status sr_checkpoint_verify(int64_t *step, const char *path) {
    sr_manifest *manifest;
    SR_TRY(sr_manifest_read(&manifest, path));
    sr_status st = sr_manifest_verify(manifest, path);
    if (step != NULL) *step = manifest->step;
    sr_manifest_free(manifest);
    return st;
}

/* The checkpoint of one step, verified, whose manifest names that step. */
static sr_status verify_step(char **path, const char *run, int64_t step) {
    int64_t found;
    SR_TRY(sr_checkpoint_path(path, run, step));
    sr_status st = sr_checkpoint_verify(&found, *path);
    if (st == SR_OK && found != step)
        st = sr_fail(SR_EDATA, "%s: its manifest is for step %" PRId64, *path, found);
    if (st == SR_OK) return SR_OK;
    sr_free(*path);
    *path = NULL;
    return st;
}

/* Whether a checkpoint is not what was saved.  One that could not be read may well be: whoever went
 * on from an older one would do so without a reason. */
static bool is_damage(sr_status st) {
    return st == SR_EDATA || st == SR_ENOENT;
}

sr_status sr_checkpoint_latest(char **path, int64_t *step, const char *run) {
    int64_t *steps;
    size_t count;
    *path = NULL;
    SR_TRY(sr_checkpoint_list(&steps, &count, run));
    sr_status st = SR_ENOENT;
    for (size_t i = count; i-- > 0;) {
        st = verify_step(path, run, steps[i]);
        *step = steps[i];
        if (st == SR_OK || !is_damage(st)) break;
        sr_log(SR_LOG_WARN, "%s: skipping step %" PRId64 ": %s", run, steps[i], sr_message());
    }
    sr_free(steps);
    if (st == SR_OK || !is_damage(st)) return st;
    if (count == 0) return sr_fail(SR_ENOENT, "%s: contains no checkpoint", run);
    char reason[500]; /* sr_fail() writes where sr_message() is */
    snprintf(reason, sizeof reason, "%s", sr_message());
    return sr_fail(SR_EDATA, "%s: none of its %zu checkpoints is valid; the oldest: %s", run, count,
                   reason);
}

/* ---- removing checkpoints ---- */

/* Renames a checkpoint to a name that is not a step's; *path (freed by sr_free()) is the new name.
 */
static sr_status move_away(char **path, const char *run, int64_t step, const char *prefix) {
    char name[96], kept[40];
    uint32_t random;
    char *from;
    *path = NULL;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return sr_fail(SR_EIO, "%s: cannot get a random number from the system", run);
    step_name(kept, prefix, step);
    snprintf(name, sizeof name, "%s-%08x", kept, random);
    SR_TRY(sr_checkpoint_path(&from, run, step));
    sr_status st = sr_file_join(path, run, name);
    if (st == SR_OK) st = sr_file_rename(from, *path);
    sr_free(from);
    if (st == SR_OK) return SR_OK;
    sr_free(*path);
    *path = NULL;
    return st;
}

sr_status sr_checkpoint_trash(const char *run, int64_t step) {
    char *path;
    SR_TRY(move_away(&path, run, step, SR_TRASH_PREFIX));
    sr_status st = sr_file_sync_dir(run);
    if (st == SR_OK) st = sr_file_remove_tree(path);
    sr_free(path);
    return st;
}

sr_status sr_checkpoint_retain(const char *run, int64_t newest, int keep, int64_t every) {
    int64_t *steps;
    size_t count;
    if (keep < 2)
        return sr_fail(SR_EINVAL,
                       "checkpoint: keep must be at least 2, got %d: one corrupt "
                       "checkpoint must not lose the run",
                       keep);
    SR_TRY(sr_checkpoint_list(&steps, &count, run));
    while (count > 0 && steps[count - 1] > newest) count--;
    sr_status st = SR_OK;
    for (size_t i = 0; st == SR_OK && i + (size_t)keep < count; i++)
        if (every <= 0 || steps[i] % every != 0) st = sr_checkpoint_trash(run, steps[i]);
    sr_free(steps);
    return st;
}

sr_status sr_checkpoint_set_aside(const char *run, int64_t step) {
    int64_t *steps;
    size_t count;
    bool moved = false;
    SR_TRY(sr_checkpoint_list(&steps, &count, run));
    sr_status st = SR_OK;
    for (size_t i = 0; st == SR_OK && i < count; i++) {
        char *path = NULL;
        if (steps[i] <= step) continue;
        st = move_away(&path, run, steps[i], "set-aside-");
        if (st == SR_OK) sr_log(SR_LOG_WARN, "%s: set aside; it is not part of this run", path);
        sr_free(path);
        moved = true;
    }
    sr_free(steps);
    return st == SR_OK && moved ? sr_file_sync_dir(run) : st;
}
