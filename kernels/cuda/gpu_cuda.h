/* gpu_cuda.h - what gpu.h is on a GPU; private to the files *_cuda.cu. */
#ifndef SR_CUDA_GPU_CUDA_H
#define SR_CUDA_GPU_CUDA_H

#include <cuda_runtime.h>

#include "kernels/cuda/gpu.h"

struct ring;     /* ring_cuda.h */
struct products; /* lt_cuda.h */

enum { RECENT = 8, GRANTED = 256 };

struct cuda_host {
    const sr_device *device;
    int number; /* of the device */
    cudaStream_t stream, copies;
    queue_fault *word; /* in pinned memory: the fault word as the last wait read it */
    ring *uploads;
    products *lt;               /* NULL until the first product */
    bool tf32;                  /* f32 products may use TF32 */
    const char *recent[RECENT]; /* ops launched last: recent[launches % RECENT] is the oldest */
    uint64_t launches;
    const void *granted[GRANTED]; /* kernels that may take more shared memory, by address */
};

static inline cuda_host *cuda_of(const gpu *g) {
    return (cuda_host *)g->host;
}

/* Makes device `number` the one that CUDA calls of this thread use.  Nothing else selects one. */
sr_status cuda_select(int number);
static inline sr_status cuda_use(const cuda_host *h) {
    return cuda_select(h->number);
}

/* SR_OK, or SR_EDEVICE (SR_ENOMEM): "cuda: WHAT: the error". */
sr_status cuda_check(cudaError_t error, const char *what);

/* Waits for the stream, or for an event in it, and looks at the device's watch meanwhile. */
sr_status cuda_finish(const cuda_host *h, cudaEvent_t event);

/* For errors of work that was queued: names the ops launched last. */
sr_status cuda_failed_later(const cuda_host *h, cudaError_t error);

/* Why a device cannot be used, in one sentence; "" if it can. */
void cuda_problem(char *text, size_t size, const cudaDeviceProp *p);

#endif
