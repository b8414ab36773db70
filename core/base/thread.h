/* thread.h - threads for all kernels, with work split by shape.
 *
 * A job is `count` tasks, each a pure function of its index.  The caller chooses `count` from the
 * shape of the work, never from the number of threads, so results are bit-identical for any number
 * of threads.  Tasks are taken in order, one at a time; a reduction over tasks writes one partial
 * result per task and sums them in index order afterwards.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_threads sr_threads;

/* The processors that the affinity mask and the cgroup quota allow; at least 1. */
int sr_thread_default(void);

/* Threads that run jobs on `threads` threads, the caller among them; 0 means the default. */
sr_status sr_threads_new(sr_threads **out, int threads);
void sr_threads_free(sr_threads *threads); /* may be NULL */
int sr_threads_count(const sr_threads *threads);

/* Runs task(context, i) for i in 0..count-1 and waits for all of them.  `worker` is the index of
 * the thread that runs the task, below sr_threads_count(): for scratch space only.  NULL runs
 * everything on the caller.  A call from inside a task runs on that task's thread alone (as the
 * same worker of the same threads, as worker 0 of another).  Two callers may share one sr_threads:
 * the second waits.  Returns the failure of the lowest failing index; its message becomes the
 * caller's. */
typedef sr_status (*sr_task)(void *context, int64_t i, int worker);
sr_status sr_threads_run(sr_threads *threads, sr_task task, void *context, int64_t count);

/* The stop flag: a signal handler or another thread sets it, long ops poll it between tasks and
 * return SR_ESTOP.  Training does not use it (it stops between steps); the prompt and data
 * preparation do. */
void sr_stop_request(void); /* async-signal-safe */
void sr_stop_clear(void);
bool sr_stop_requested(void);

SR_END_C
