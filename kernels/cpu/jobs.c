/* jobs.c - records how long each task of each job takes. */
#include <time.h>

#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

static double processor_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct timed {
    sr_cpu_jobs *jobs;
    sr_task task;
    void *context;
    double *seconds;
} timed;

static sr_status timed_task(void *context, int64_t i, int worker) {
    const timed *t = context;
    double began = processor_time();
    t->jobs->inside = true;
    sr_status st = t->task(t->context, i, worker);
    t->jobs->inside = false;
    t->seconds[i] = processor_time() - began;
    return st;
}

static sr_status reserve(sr_cpu_jobs *jobs, int64_t tasks) {
    if (jobs->job_count == jobs->job_room) {
        SR_TRY(sr_grow(&jobs->ends, 2 * jobs->job_room + 16));
        SR_TRY(sr_grow(&jobs->whole, 2 * jobs->job_room + 16));
        jobs->job_room = 2 * jobs->job_room + 16;
    }
    if (jobs->task_room - jobs->task_count >= tasks) return SR_OK;
    SR_TRY(sr_grow(&jobs->tasks, 2 * jobs->task_room + tasks));
    jobs->task_room = 2 * jobs->task_room + tasks;
    return SR_OK;
}

sr_status sr_cpu_run_recorded(sr_cpu_jobs *jobs, sr_threads *threads, sr_task task, void *context,
                              int64_t count) {
    bool alone = sr_threads_count(threads) == 1; /* the pool may have changed since */
    if (jobs->inside || !alone) return sr_threads_run(threads, task, context, count);
    SR_TRY(reserve(jobs, count));
    timed t = {jobs, task, context, jobs->tasks + jobs->task_count};
    double began = processor_time();
    SR_TRY(sr_threads_run(threads, timed_task, &t, count));
    jobs->whole[jobs->job_count] = processor_time() - began;
    jobs->task_count += count;
    jobs->ends[jobs->job_count++] = jobs->task_count;
    return SR_OK;
}

sr_status sr_cpu_record_jobs(const sr_device *device, sr_cpu_jobs *jobs) {
    int threads = sr_threads_count(device->threads);
    if (jobs != NULL && threads != 1)
        return sr_fail(SR_EINVAL,
                       "jobs: the device has %d threads; tasks can only be timed on one: use "
                       "sr.use(\"cpu\", {threads = 1})",
                       threads);
    sr_cpu_state *cpu = device->state;
    if (jobs != NULL && cpu->jobs != NULL)
        return sr_fail(SR_EINVAL, "jobs: this device is already recording its jobs");
    cpu->jobs = jobs;
    return SR_OK;
}

void sr_cpu_jobs_clear(sr_cpu_jobs *jobs) {
    sr_free(jobs->ends);
    sr_free(jobs->tasks);
    sr_free(jobs->whole);
    *jobs = (sr_cpu_jobs){0};
}
