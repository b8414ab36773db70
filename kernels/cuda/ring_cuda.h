/* ring_cuda.h - uploads: a ring of pinned host memory.
 *
 * What is uploaded is copied into pinned memory at once; the device fetches it later.  Small pieces
 * are fetched by the stream of the kernels.  Larger ones cross the bus on a stream of their own,
 * into a staging ring on the device, while kernels run; the kernels' stream only moves them to
 * their place, which queued kernels may still be using.
 *
 * The ring has segments; the host waits for a segment only when the device is a whole ring behind.
 */
#ifndef SR_CUDA_RING_CUDA_H
#define SR_CUDA_RING_CUDA_H

#include "kernels/cuda/gpu_cuda.h"

enum { RING_BYTES = 32 << 20 }; /* of host memory, and as much of device memory */

sr_status ring_new(ring **out);
void ring_free(ring *r); /* call it once the device is done; may be NULL */

/* Queues the copy of host memory to device memory; `from` may be reused at once. */
sr_status ring_send(ring *r, cuda_host *h, void *to, const void *from, size_t bytes);

#endif
