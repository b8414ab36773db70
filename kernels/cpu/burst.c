/* burst.c - the peak rate of a device's threads together. */
#include "kernels/cpu/cpu.h"

typedef struct job {
    const sr_simd *simd;
    int64_t rounds;
    bool bf16;
} job;

enum { SINK = 16 };

static sr_status burst_task(void *context, int64_t i, int worker) {
    const job *j = context;
    float sink[SINK];
    (void)i, (void)worker;
    j->simd->burst(sink, j->rounds, j->bf16);
    return SR_OK;
}

sr_status sr_cpu_burst(const sr_device *device, int64_t rounds, bool bf16, double *flops) {
    const sr_cpu_state *cpu = device->state;
    int threads = sr_threads_count(device->threads);
    job j = {cpu->simd, rounds, bf16};
    float sink[SINK];
    *flops = cpu->simd->burst(sink, 1, bf16) * (double)rounds * threads;
    return sr_threads_run(device->threads, burst_task, &j, threads);
}
