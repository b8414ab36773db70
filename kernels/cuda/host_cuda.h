/* host_cuda.h - what gpu.h is on a GPU; private to the files *_cuda.cu. */
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/gpu.h"

struct ring;     /* below */
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
    bool lacked;                /* a product that cuBLASLt lacks was logged */
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

/* Whether a kernel failed, which every later call of the process reports. */
bool cuda_is_late(cudaError_t error);
/* SR_OK, or SR_EDEVICE (SR_ENOMEM): "cuda: WHAT: the error". */
sr_status cuda_check(cudaError_t error, const char *what);

/* Waits for the stream, or for an event in it, and looks at the device's watch meanwhile. */
sr_status cuda_finish(const cuda_host *h, cudaEvent_t event);

/* For errors of work that was queued: names the ops launched last. */
sr_status cuda_failed_later(const cuda_host *h, cudaError_t error);

/* ---- uploads: ring_cuda.cu ------------------------------------------------------------------- */

enum { RING_BYTES = 32 << 20 }; /* of host memory, and as much of device memory */

sr_status ring_new(ring **out);
void ring_free(ring *r); /* call it once the device is done; may be NULL */

/* Queues the copy of host memory to device memory; `from` may be reused at once. */
sr_status ring_send(ring *r, cuda_host *h, void *to, const void *from, size_t bytes);
