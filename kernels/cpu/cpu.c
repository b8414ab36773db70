/* cpu.c - the cpu device: how it opens, its memory, and the table of its ops. */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

/* ---- state ---------------------------------------------------------------------------------- */

static sr_status device_open(sr_device *device) {
    sr_cpu_state *cpu;
    SR_TRY(sr_cpu_check_isa());
    SR_TRY(sr_new(&cpu, 1));
    cpu->simd = sr_cpu_simd();
    cpu->device = device;
    device->state = cpu;
    return SR_OK;
}

static void device_close(sr_device *device) {
    sr_cpu_state *cpu = device->state;
    if (cpu == NULL) return;
    for (int i = 0; i < cpu->workers; i++) sr_free_aligned(cpu->scratch[i].data);
    sr_free_aligned(cpu->shared.data);
    sr_free_aligned(cpu->panels.data);
    sr_free_aligned(cpu->across.data);
    sr_free(cpu->scratch);
    sr_free(cpu);
    device->state = NULL;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Classes of the pool are up to a quarter larger than what was asked for. */
static sr_status memory_alloc(sr_device *device, void **data, size_t bytes) {
    (void)device;
    return sr_alloc_pages(data, bytes, bytes / 5 * 4);
}

static void memory_free(sr_device *device, void *data, size_t bytes) {
    (void)device, (void)bytes;
    sr_free_aligned(data);
}

static sr_status memory_copy(sr_device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    if (bytes > 0) memcpy(to, from, bytes);
    return SR_OK;
}

typedef struct range_job {
    float *y;
    const int64_t *ends;
} range_job;

static sr_status range_task(void *context, int64_t i, int worker) {
    (void)worker;
    const range_job *j = context;
    int64_t first = j->ends[2 * i], end = j->ends[2 * i + 1];
    if (first < end) memset(j->y + first, 0, (size_t)(end - first) * sizeof *j->y);
    return SR_OK;
}

static sr_status zero_ranges(sr_tensor *y, const int64_t *ends, int64_t count) {
    range_job j = {SR_DATA(float, y), ends};
    return sr_cpu_run_whole(y, range_task, &j, count);
}

/* ---- the table ------------------------------------------------------------------------------- */

const sr_backend sr_backend_cpu = {
    SR_BACKEND_ABI,
    .name = "cpu",
    .host = true,
    .real = SR_F32,
    .attends_rows = true,
    .open = device_open,
    .close = device_close,
    .alloc = memory_alloc,
    .free = memory_free,
    .upload = memory_copy,
    .download = memory_copy,
    .zero_ranges = zero_ranges,
    .weight_build = sr_cpu_weight_build,
    .weight_free = sr_cpu_weight_free,
#define SR_SLOT(name, ...) .name = sr_cpu_##name,
#include "core/tensor/slots.h"
};
