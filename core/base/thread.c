/* A worker sleeps between jobs, but spins for a moment first: ops follow each other within a few
 * microseconds, and waking a sleeping thread takes longer.  Every worker checks in at every job,
 * even when no task is left, so a job's fields are never overwritten while another thread reads
 * them. */
#include "core/base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "core/base/file.h"
#include "core/base/mem.h"

enum { SPINS = 2000, THREADS_MAX = 1024, MXCSR_DEFAULT = 0x1F80, LINE = 64 };

typedef struct {
    sr_task task;
    void *context;
    int64_t count;
    int64_t failed_at; /* the lowest index that failed, count when none did; under team->lock */
    sr_status status;
    char message[1024];
} job;

struct sr_threads {
    int threads, spins;
    pthread_t *workers; /* threads - 1 of them: the caller is worker 0 */
    pthread_mutex_t lock, callers;
    pthread_cond_t wake, done;
    _Atomic bool quit;
    job job;
    /* Fields that some threads change while others wait have cache lines of their own. */
    char line0[LINE];
    _Atomic uint64_t jobs; /* how many have been handed out */
    char line1[LINE];
    _Atomic int busy; /* workers that have not finished with the present one */
    char line2[LINE];
    _Atomic int64_t next; /* the task to be taken next; set to count to hand out no more */
    char line3[LINE];
};

/* The task that this thread runs: of which team, and as which worker. */
static _Thread_local const sr_threads *inside;
static _Thread_local int inside_worker;

/* ---- usable processors ----------------------------------------------------------------------- */

static int64_t number_in(const char *path, int which) {
    void *bytes;
    size_t size;
    if (sr_file_read(&bytes, &size, path, 4096) != SR_OK) return -1;
    char *at = bytes, *end = bytes;
    int64_t value = -1;
    for (int i = 0; i <= which; i++, at = end) {
        value = strtoll(at, &end, 10);
        if (end == at) value = -1; /* "max" */
    }
    sr_free(bytes);
    return value;
}

static int least_of(int cpus, int64_t quota, int64_t period) {
    if (quota <= 0 || period <= 0) return cpus;
    int64_t allowed = (quota + period - 1) / period;
    return allowed < cpus ? (int)allowed : cpus;
}

/* The smallest quota from `group` up to the root of its hierarchy at `mount`. */
static int least_quota(int cpus, const char *mount, char *group, bool v2) {
    for (;;) {
        char path[4096];
        int64_t quota, period;
        if (v2) {
            snprintf(path, sizeof path, "%s%s/cpu.max", mount, group);
            quota = number_in(path, 0);
            period = number_in(path, 1);
        } else {
            snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", mount, group);
            quota = number_in(path, 0);
            snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", mount, group);
            period = number_in(path, 0);
        }
        cpus = least_of(cpus, quota, period);
        char *slash = strrchr(group, '/');
        if (slash == NULL) return cpus;
        *slash = '\0';
    }
}

/* Whether a comma-separated list of controllers holds "cpu". */
static bool names_cpu(const char *list) {
    for (const char *p = list; *p != '\0'; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == 3 && strncmp(p, "cpu", 3) == 0) return true;
    return false;
}

/* One line of /proc/self/cgroup is NUMBER:CONTROLLERS:PATH; version 2 has no controllers. */
static int cgroup_line(int cpus, char *line) {
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) return cpus;
    *controllers++ = *group++ = '\0';
    if (strcmp(group, "/") == 0) group++;
    if (*controllers == '\0') return least_quota(cpus, "/sys/fs/cgroup", group, true);
    return names_cpu(controllers) ? least_quota(cpus, "/sys/fs/cgroup/cpu", group, false) : cpus;
}

static int cgroup_cpus(int cpus) {
    void *bytes;
    size_t size;
    if (sr_file_read(&bytes, &size, "/proc/self/cgroup", 65536) != SR_OK) return cpus;
    char *rest = NULL;
    for (char *line = strtok_r(bytes, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        cpus = cgroup_line(cpus, line);
    sr_free(bytes);
    return cpus;
}

int sr_thread_default(void) {
    cpu_set_t set;
    int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                           : (int)sysconf(_SC_NPROCESSORS_ONLN);
    cpus = cgroup_cpus(cpus);
    return cpus < 1 ? 1 : cpus > THREADS_MAX ? THREADS_MAX : cpus;
}

/* ---- running a job -------------------------------------------------------------------------- */

/* Tasks are handed out in order, so every index below a failing one has been taken already and
 * reports before the job ends: the lowest failure is the same on any number of threads. */
static void note_failure(sr_threads *team, int64_t i, sr_status status) {
    job *j = &team->job;
    atomic_store_explicit(&team->next, j->count, memory_order_relaxed);
    pthread_mutex_lock(&team->lock);
    if (i < j->failed_at) {
        j->failed_at = i;
        j->status = status;
        snprintf(j->message, sizeof j->message, "%s", sr_message());
    }
    pthread_mutex_unlock(&team->lock);
}

static void take_part(sr_threads *team, int worker) {
    job *j = &team->job;
    const sr_threads *outer = inside;
    int outer_worker = inside_worker;
    inside = team;
    inside_worker = worker;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed);
        if (i >= j->count) break;
        sr_status status = j->task(j->context, i, worker);
        if (status != SR_OK) note_failure(team, i, status);
    }
    inside = outer;
    inside_worker = outer_worker;
}

/* Waits for job number seen + 1; false when the team closes. */
static bool await_job(sr_threads *team, uint64_t seen) {
    for (int i = 0; i < team->spins; i++) {
        if (atomic_load_explicit(&team->jobs, memory_order_acquire) != seen) return true;
        _mm_pause();
    }
    pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->jobs) == seen && !atomic_load(&team->quit))
        pthread_cond_wait(&team->wake, &team->lock);
    pthread_mutex_unlock(&team->lock);
    return atomic_load(&team->jobs) != seen;
}

typedef struct {
    sr_threads *team;
    int worker;
} worker_start;

static void *work(void *argument) {
    worker_start start = *(worker_start *)argument;
    sr_threads *team = start.team;
    sr_free(argument);
    _mm_setcsr(MXCSR_DEFAULT); /* a library built with -ffast-math sets flush-to-zero for all */
    for (uint64_t seen = 0; await_job(team, seen); seen++) {
        take_part(team, start.worker);
        if (atomic_fetch_sub_explicit(&team->busy, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&team->lock);
            pthread_cond_signal(&team->done);
            pthread_mutex_unlock(&team->lock);
        }
    }
    return NULL;
}

static void await_workers(sr_threads *team) {
    for (int i = 0; i < team->spins; i++) {
        if (atomic_load_explicit(&team->busy, memory_order_acquire) == 0) return;
        _mm_pause();
    }
    pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->busy) != 0) pthread_cond_wait(&team->done, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static sr_status run_alone(sr_task task, void *context, int64_t count, int worker) {
    for (int64_t i = 0; i < count; i++) SR_TRY(task(context, i, worker));
    return SR_OK;
}

static sr_status run_shared(sr_threads *team, sr_task task, void *context, int64_t count) {
    job *j = &team->job;
    pthread_mutex_lock(&team->lock);
    j->task = task;
    j->context = context;
    j->count = count;
    j->failed_at = count;
    j->status = SR_OK;
    atomic_store(&team->next, 0);
    atomic_store(&team->busy, team->threads - 1);
    atomic_fetch_add(&team->jobs, 1);
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
    take_part(team, 0);
    await_workers(team);
    return j->status == SR_OK ? SR_OK : sr_fail(j->status, "%s", j->message);
}

sr_status sr_threads_run(sr_threads *team, sr_task task, void *context, int64_t count) {
    if (inside != NULL) return run_alone(task, context, count, inside == team ? inside_worker : 0);
    if (team == NULL) return run_alone(task, context, count, 0);
    pthread_mutex_lock(&team->callers);
    sr_status st;
    if (team->threads == 1 || count <= 1) {
        inside = team;
        inside_worker = 0;
        st = run_alone(task, context, count, 0);
        inside = NULL;
    } else {
        st = run_shared(team, task, context, count);
    }
    pthread_mutex_unlock(&team->callers);
    return st;
}

/* ---- creation and destruction ---------------------------------------------------------------- */

static sr_status start_worker(sr_threads *team, int worker) {
    worker_start *start;
    SR_TRY(sr_new(&start, 1));
    *start = (worker_start){team, worker};
    int error = pthread_create(&team->workers[worker - 1], NULL, work, start);
    if (error == 0) return SR_OK;
    sr_free(start);
    return sr_fail(SR_ENOMEM, "threads: cannot start thread %d: %s; use fewer threads", worker,
                   strerror(error));
}

static void stop_workers(sr_threads *team, int started) {
    pthread_mutex_lock(&team->lock);
    atomic_store(&team->quit, true);
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
    for (int i = 0; i < started; i++) pthread_join(team->workers[i], NULL);
}

/* The main thread handles signals: workers start with all of them blocked. */
static sr_status start_workers(sr_threads *team) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    sr_status st = SR_OK;
    int started = 0;
    while (st == SR_OK && started < team->threads - 1) {
        st = start_worker(team, started + 1);
        if (st == SR_OK) started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (st != SR_OK) stop_workers(team, started);
    return st;
}

static void destroy(sr_threads *team) {
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->callers);
    pthread_mutex_destroy(&team->lock);
    sr_free(team->workers);
    sr_free(team);
}

sr_status sr_threads_new(sr_threads **out, int threads) {
    *out = NULL;
    if (threads < 0 || threads > THREADS_MAX)
        return sr_fail(SR_EINVAL, "threads: %d is out of range; use 1 to %d, or 0 for the default",
                       threads, THREADS_MAX);
    sr_threads *team;
    int fit = sr_thread_default();
    SR_TRY(sr_new(&team, 1));
    team->threads = threads > 0 ? threads : fit;
    team->spins = team->threads <= fit ? SPINS : 0; /* a spinning thread must not delay a worker */
    pthread_mutex_init(&team->lock, NULL);
    pthread_mutex_init(&team->callers, NULL);
    pthread_cond_init(&team->wake, NULL);
    pthread_cond_init(&team->done, NULL);
    sr_status st = sr_new(&team->workers, team->threads - 1);
    if (st == SR_OK) st = start_workers(team);
    return SR_GIVE(out, team, st, destroy);
}

void sr_threads_free(sr_threads *team) {
    if (team == NULL) return;
    stop_workers(team, team->threads - 1);
    destroy(team);
}

int sr_threads_count(const sr_threads *team) {
    return team != NULL ? team->threads : 1;
}

/* ---- the stop flag -------------------------------------------------------------------------- */

static _Atomic int stop; /* lock-free, so a signal handler may write it */

void sr_stop_request(void) {
    atomic_store(&stop, 1);
}

void sr_stop_clear(void) {
    atomic_store(&stop, 0);
}

bool sr_stop_requested(void) {
    return atomic_load_explicit(&stop, memory_order_relaxed) != 0;
}
