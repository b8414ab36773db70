/* thread.h - one pool of threads for all kernels, split by shape.
 *
 * A job is `count` tasks, each a pure function of its index.  The caller chooses `count` from the
 * shape of the work, never from the number of threads, so results have the same bits on any number
 * of threads.  Tasks are taken in order, one at a time; a reduction over tasks writes one partial a
 * task and sums them in index order afterwards.
 */
#ifndef SR_BASE_THREAD_H
#define SR_BASE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_pool sr_pool;

/* The processors that the affinity mask and the cgroup quota allow; at least 1. */
int sr_thread_default(void);

/* A pool that runs jobs on `threads` threads, the caller among them; 0 means the default. */
sr_status sr_pool_new(sr_pool **out, int threads);
void sr_pool_free(sr_pool *pool); /* NULL is allowed */
int sr_pool_threads(const sr_pool *pool);

/* Runs task(context, i) for i in 0..count-1 and waits for all of them.  `worker` is the index of
 * the thread that runs the task, below sr_pool_threads(): for scratch space only.  A NULL pool runs
 * everything on the caller.  A call from inside a task runs on that task's thread alone (as the
 * same worker of the same pool, as worker 0 of another).  Two threads may use one pool: the second
 * waits. Returns the failure of the lowest failing index; its message becomes the caller's. */
typedef sr_status (*sr_task)(void *context, int64_t i, int worker);
sr_status sr_pool_run(sr_pool *pool, sr_task task, void *context, int64_t count);

/* The stop flag: a signal handler or another thread sets it, long ops poll it between tasks and
 * return SR_ESTOP.  Training does not use it (it stops between steps); the prompt and the making of
 * data sets do. */
void sr_stop_request(void); /* async-signal-safe */
void sr_stop_clear(void);
bool sr_stop_requested(void);

#ifdef __cplusplus
}
#endif
#endif
