/* inject.c - faults in a whole program: a plug-in, named by SEQRUN_PLUGINS, built as
 * build/tests/inject.so.
 *
 *   INJECT          "memory N"  allocation N fails
 *                   "starve N"  allocation N and all later ones fail
 *                   "full N"    the disk is full from the N-th call on that wants space
 *                   "late N"    N of 1,000 reads, drawn by INJECT_SEED, take INJECT_MS longer
 *                   "none 0"    nothing fails
 *   INJECT_STACK    if set, the path of calls to that allocation goes to stderr
 *   INJECT_REPORT   a file that gets, when the program ends, lines "space N" and "late N": how many
 *                   calls wanted space, how many reads were late; and of "none 0" a line
 *                   "memory N HASH" for the first allocation of each path of calls, which has
 *                   the same hash in every process of this build
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/mem.h"
#include "core/tensor/plugin.h"

static char what[16];
static int64_t number;
static int64_t allocations, wanted_space, reads, late;

static int64_t next(int64_t *counter) {
    return __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

/* ---- memory: paths of calls ---------------------------------------------------------------------
 */

enum { FRAMES = 16, OWN_FRAMES = 2, PATHS = 1 << 16 };

static struct {
    uint64_t path[PATHS]; /* open addressing; 0: free */
    uint64_t name[PATHS]; /* without the addresses that libraries were loaded at */
    int64_t first[PATHS];
    int count;
} seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t mix(uint64_t hash, uint64_t x) {
    return (hash ^ x) * 0x100000001b3u;
}

static uint64_t name_of(void **frames, int depth) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = OWN_FRAMES; i < depth; i++) {
        Dl_info in;
        if (dladdr(frames[i], &in) == 0) continue;
        for (const char *c = in.dli_fname; *c != '\0'; c++) hash = mix(hash, (uint8_t)*c);
        hash = mix(hash, (uint64_t)((uintptr_t)frames[i] - (uintptr_t)in.dli_fbase));
    }
    return hash;
}

static void note_path(int64_t n) {
    void *frames[FRAMES];
    int depth = backtrace(frames, FRAMES);
    uint64_t path = 0xcbf29ce484222325u;
    for (int i = OWN_FRAMES; i < depth; i++) path = mix(path, (uint64_t)(uintptr_t)frames[i]);
    if (path == 0) path = 1;
    pthread_mutex_lock(&lock);
    size_t at = (path >> 20) % PATHS;
    while (seen.path[at] != 0 && seen.path[at] != path) at = (at + 1) % PATHS;
    if (seen.path[at] == 0 && seen.count < PATHS / 2) {
        seen.path[at] = path;
        seen.name[at] = name_of(frames, depth);
        seen.first[at] = n;
        seen.count++;
    }
    pthread_mutex_unlock(&lock);
}

static void show_path(void) {
    void *frames[4 * FRAMES];
    backtrace_symbols_fd(frames, backtrace(frames, 4 * FRAMES), STDERR_FILENO);
}

static bool refuse(void) {
    int64_t n = next(&allocations);
    if (what[0] == 'n') {
        note_path(n);
        return false;
    }
    if (n == number && getenv("INJECT_STACK") != NULL) show_path();
    return n == number || (what[0] == 's' && n > number);
}

/* ---- storage ------------------------------------------------------------------------------------
 */

static sr_io real;

static bool full(void) {
    int64_t n = next(&wanted_space);
    if (what[0] != 'f' || n < number) return false;
    errno = ENOSPC;
    return true;
}

static int full_open(const char *path, int flags, unsigned mode) {
    return (flags & O_CREAT) && full() ? -1 : real.open(path, flags, mode);
}
static ssize_t full_write(int fd, const void *bytes, size_t size) {
    return full() ? -1 : real.write(fd, bytes, size);
}
static int full_mkdir(const char *path, unsigned mode) {
    return full() ? -1 : real.mkdir(path, mode);
}
static int full_fallocate(int fd, off_t size) {
    return full() ? -1 : real.fallocate(fd, size);
}

/* A keyed hash of the number of the read: any share of the reads, the same for one seed. */
static void wait_maybe(void) {
    static uint64_t seed;
    static long milliseconds = -1;
    if (milliseconds < 0) {
        const char *of = getenv("INJECT_SEED"), *ms = getenv("INJECT_MS");
        seed = of != NULL ? strtoull(of, NULL, 10) : 0;
        milliseconds = ms != NULL ? atol(ms) : 20;
    }
    uint64_t x = (uint64_t)next(&reads) + seed * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    if ((x ^ x >> 31) % 1000 >= (uint64_t)number) return;
    next(&late);
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static ssize_t late_pread(int fd, void *bytes, size_t size, off_t at) {
    wait_maybe();
    return real.pread(fd, bytes, size, at);
}
static ssize_t late_read(int fd, void *bytes, size_t size) {
    wait_maybe();
    return real.read(fd, bytes, size);
}

/* ---- the plug-in --------------------------------------------------------------------------------
 */

static void report(void) {
    const char *path = getenv("INJECT_REPORT");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL) return;
    sr_mem_refuse_by(NULL);
    fprintf(file, "space %lld\nlate %lld\n", (long long)wanted_space, (long long)late);
    for (int i = 0; i < PATHS; i++)
        if (seen.path[i] != 0)
            fprintf(file, "memory %lld %016llx\n", (long long)seen.first[i],
                    (unsigned long long)seen.name[i]);
    fclose(file);
}

sr_status sr_plugin_init(const sr_host *host, int abi) {
    (void)host, (void)abi;
    const char *text = getenv("INJECT");
    long long n;
    if (text == NULL || sscanf(text, "%15s %lld", what, &n) != 2) return SR_OK;
    number = n;
    real = sr_io_now;
    if (strcmp(what, "late") == 0) {
        sr_io_now.pread = late_pread;
        sr_io_now.read = late_read;
    } else {
        sr_io_now.open = full_open;
        sr_io_now.write = full_write;
        sr_io_now.mkdir = full_mkdir;
        sr_io_now.fallocate = full_fallocate;
    }
    atexit(report);
    if (strchr("msn", what[0]) != NULL) sr_mem_refuse_by(refuse);
    return SR_OK;
}
