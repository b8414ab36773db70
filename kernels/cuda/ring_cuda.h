/* ring_cuda.h - uploads: pinned host memory that is used round and round.
 *
 * What is uploaded is copied into pinned memory at once; the device fetches it later.  Small pieces
 * are fetched by the stream of the kernels.  Larger ones cross the bus on a stream of their own,
 * into device memory beside the ring, while kernels run; the kernels' stream only moves them to
 * their place, which queued kernels may still be using.
 *
 * The ring has segments; the host waits for a segment only when the device is a whole ring behind.
 */
#ifndef SR_CUDA_RING_CUDA_H
#define SR_CUDA_RING_CUDA_H

#include "kernels/cuda/gpu_cuda.h"

enum { RING_BYTES = 32 << 20 }; /* of the host and, as many, of the device */

sr_status ring_new(ring **out);
void ring_free(ring *r); /* once the device is done; may be NULL */

/* Queues the copy of host memory to device memory; `from` is the caller's again at once. */
sr_status ring_send(ring *r, cuda_host *h, void *to, const void *from, size_t bytes);

/* After the graph whose capture took uploads was launched. */
sr_status ring_captured(ring *r, cuda_host *h);

#endif
