/* state.c - what ops take from the device: memory of the workers and of an op, its threads, its
 * dtypes. */
#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

/* ---- memory of ops --------------------------------------------------------------------------- */

/* Large blocks fill huge pages, up to 2 MiB more for each worker: small pages would share places of
 * the caches by chance. */
static sr_status grow(sr_cpu_block *block, size_t bytes) {
    enum { LARGE = 256 << 10, HUGE = 2 << 20 };
    if (bytes <= block->bytes) return SR_OK;
    if (bytes >= LARGE) SR_TRY(sr_add_size(&bytes, bytes, (HUGE - bytes % HUGE) % HUGE));
    void *data;
    SR_TRY(sr_alloc_pages(&data, bytes, bytes));
    sr_free_aligned(block->data);
    *block = (sr_cpu_block){data, bytes};
    return SR_OK;
}

/* Scratch for the workers of the device's current threads. */
static sr_status follow_pool(sr_cpu_state *cpu) {
    int workers = sr_threads_count(cpu->device->threads);
    if (workers <= cpu->workers) return SR_OK;
    SR_TRY(sr_grow(&cpu->scratch, workers));
    memset(cpu->scratch + cpu->workers, 0, (size_t)(workers - cpu->workers) * sizeof *cpu->scratch);
    cpu->workers = workers;
    return SR_OK;
}

sr_status sr_cpu_reserve(sr_cpu_state *cpu, size_t each, size_t shared) {
    SR_TRY(follow_pool(cpu));
    for (int i = 0; each > 0 && i < cpu->workers; i++) SR_TRY(grow(&cpu->scratch[i], each));
    return grow(&cpu->shared, shared);
}

sr_status sr_cpu_reserve_panels(sr_cpu_state *cpu, size_t bytes) {
    return grow(&cpu->panels, bytes);
}

sr_status sr_cpu_reserve_across(sr_cpu_state *cpu, size_t bytes) {
    return grow(&cpu->across, bytes);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

typedef struct stoppable {
    sr_task task;
    void *context;
} stoppable;

static sr_status stoppable_task(void *context, int64_t i, int worker) {
    const stoppable *s = context;
    if (sr_stop_requested()) return sr_fail(SR_ESTOP, "stopped on request");
    return s->task(s->context, i, worker);
}

sr_status sr_cpu_run(const sr_tensor *t, sr_task task, void *context, int64_t count) {
    stoppable s = {task, context};
    return sr_cpu_run_whole(t, stoppable_task, &s, count);
}

sr_status sr_cpu_run_whole(const sr_tensor *t, sr_task task, void *context, int64_t count) {
    sr_threads *threads = t->storage->device->threads;
    sr_cpu_jobs *jobs = sr_cpu_of(t)->jobs;
    if (jobs != NULL) return sr_cpu_run_recorded(jobs, threads, task, context, count);
    return sr_threads_run(threads, task, context, count);
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

sr_status sr_cpu_need_f32(const char *op, const sr_tensor *const *t, int count) {
    for (int i = 0; i < count; i++)
        if (t[i] != NULL && t[i]->dtype != SR_F32)
            return sr_fail(SR_EINVAL,
                           "%s: the cpu device computes in f32, not in %s; convert the tensor with "
                           ":to(\"f32\"), or use the ref device for f64",
                           op, sr_dtype_name(t[i]->dtype));
    return SR_OK;
}

sr_status sr_cpu_need_f32_or_bf16(const char *op, const sr_tensor *const *t, int count) {
    for (int i = 0; i < count; i++)
        if (t[i] != NULL && t[i]->dtype != SR_BF16) SR_TRY(sr_cpu_need_f32(op, t + i, 1));
    return SR_OK;
}
