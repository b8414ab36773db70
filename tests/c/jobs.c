/* jobs.c - recording the tasks of jobs. */
#include "core/base/thread.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/fail.h"

typedef struct work {
    sr_cpu_jobs *jobs;
    sr_threads *team;
    int64_t inner, outer;
} work;

static sr_status inner_task(void *context, int64_t i, int worker) {
    (void)i, (void)worker;
    ((work *)context)->inner++;
    return SR_OK;
}

static sr_status outer_task(void *context, int64_t i, int worker) {
    (void)worker;
    work *w = context;
    w->outer += i;
    return sr_cpu_run_recorded(w->jobs, w->team, inner_task, w, 3);
}

static sr_status failing_task(void *context, int64_t i, int worker) {
    (void)context, (void)worker;
    return i == 2 ? sr_fail(SR_EDATA, "task 2 failed") : SR_OK;
}

/* A job that a task starts is a part of that task; jobs that fail are not recorded. */
static void test_jobs(work *w) {
    CHECK_OK(sr_cpu_run_recorded(w->jobs, w->team, outer_task, w, 5));
    CHECK(w->outer == 10 && w->inner == 15);
    CHECK(w->jobs->job_count == 1 && w->jobs->task_count == 5);
    CHECK_FAILS(sr_cpu_run_recorded(w->jobs, w->team, failing_task, w, 4), SR_EDATA, "task 2");
    CHECK_OK(sr_cpu_run_recorded(w->jobs, w->team, inner_task, w, 1));
    CHECK_OK(sr_cpu_run_recorded(w->jobs, w->team, inner_task, w, 0));
    CHECK(w->jobs->job_count == 3 && w->jobs->task_count == 6);
    CHECK(w->jobs->ends[0] == 5 && w->jobs->ends[1] == 6 && w->jobs->ends[2] == 6);
    for (int i = 0; i < 6; i++) CHECK(w->jobs->tasks[i] >= 0);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(sr_cpu_run_recorded(w->jobs, w->team, inner_task, w, i % 7));
    CHECK(w->jobs->job_count == 1003);
    sr_cpu_jobs_clear(w->jobs);
    CHECK(w->jobs->job_count == 0 && w->jobs->tasks == NULL);
}

/* Whichever allocation fails, the next job is recorded. */
static void test_memory(work *w) {
    for (int64_t n = 1; n <= 3; n++) {
        sr_mem_fail_at(n, false);
        CHECK(sr_cpu_run_recorded(w->jobs, w->team, inner_task, w, 9) == SR_ENOMEM);
        sr_mem_fail_at(0, false);
        CHECK(w->jobs->job_count == 0);
        CHECK_OK(sr_cpu_run_recorded(w->jobs, w->team, inner_task, w, 9));
        CHECK(w->jobs->job_count == 1 && w->jobs->task_count == 9);
        sr_cpu_jobs_clear(w->jobs);
    }
}

static sr_status idle_task(void *context, int64_t i, int worker) {
    (void)context, (void)i, (void)worker;
    return SR_OK;
}

/* A device may have got more threads meanwhile: their jobs run, but are not recorded. */
static void test_threads(sr_cpu_jobs *jobs) {
    sr_threads *team;
    CHECK_OK(sr_threads_new(&team, 3));
    CHECK_OK(sr_cpu_run_recorded(jobs, team, idle_task, NULL, 50));
    CHECK(jobs->job_count == 0 && jobs->tasks == NULL);
    sr_threads_free(team);
}

int main(void) {
    int64_t live = sr_mem_live();
    sr_cpu_jobs jobs = {0};
    work w = {.jobs = &jobs};
    CHECK_OK(sr_threads_new(&w.team, 1));
    test_jobs(&w);
    test_memory(&w);
    test_threads(&jobs);
    sr_threads_free(w.team);
    CHECK(sr_mem_live() == live);
    return CHECK_DONE();
}
