/* ring_cuda.cu - uploads: a ring of pinned host memory.
 *
 * What is uploaded is copied into pinned memory at once; the device fetches it later.  Small pieces
 * are fetched by the stream of the kernels.  Larger ones cross the bus on a stream of their own,
 * into a staging ring on the device, while kernels run; the kernels' stream only moves them to
 * their place, which queued kernels may still be using.
 *
 * The ring has segments; the host waits for a segment only when the device is a whole ring behind.
 */
#include "core/base/mem.h"
#include "kernels/cuda/host_cuda.h"

enum { SEGMENTS = 16, SEGMENT = RING_BYTES / SEGMENTS, ALIGN = 256, SMALL = 64 << 10 };

struct ring {
    char *pinned, *beside;      /* SEGMENTS x SEGMENT bytes of the host and of the device */
    cudaEvent_t done[SEGMENTS]; /* the device has read everything in the segment */
    cudaEvent_t crossed;        /* the last copy over the bus */
    int now;                    /* the segment in use, */
    size_t used;                /* and its bytes in use */
};

sr_status ring_new(ring **out) {
    ring *r;
    *out = nullptr;
    SR_TRY(sr_new(&r, 1));
    sr_status st = cuda_check(
        cudaHostAlloc((void **)&r->pinned, (size_t)SEGMENTS * SEGMENT, cudaHostAllocDefault),
        "cannot allocate 32 MiB of pinned memory");
    if (st == SR_OK)
        st = cuda_check(cudaMalloc((void **)&r->beside, (size_t)SEGMENTS * SEGMENT),
                        "cannot allocate 32 MiB for uploads");
    for (int i = 0; i <= SEGMENTS && st == SR_OK; i++)
        st = cuda_check(cudaEventCreateWithFlags(i < SEGMENTS ? &r->done[i] : &r->crossed,
                                                 cudaEventDisableTiming),
                        "cannot create an event");
    if (st != SR_OK) {
        ring_free(r);
        return st;
    }
    *out = r;
    return SR_OK;
}

void ring_free(ring *r) {
    if (r == nullptr) return;
    for (int i = 0; i < SEGMENTS; i++)
        if (r->done[i] != nullptr) cudaEventDestroy(r->done[i]);
    if (r->crossed != nullptr) cudaEventDestroy(r->crossed);
    cudaFree(r->beside);
    cudaFreeHost(r->pinned);
    sr_free(r);
}

/* Moves on to the next segment once the device is done with it. */
static sr_status next_segment(ring *r, cuda_host *h) {
    SR_TRY(cuda_check(cudaEventRecord(r->done[r->now], h->stream), "cannot record an event"));
    r->now = (r->now + 1) % SEGMENTS;
    r->used = 0;
    return cuda_finish(h, r->done[r->now]);
}

static cudaError_t fetch(ring *r, cuda_host *h, void *to, size_t at, size_t bytes) {
    if (bytes <= SMALL)
        return cudaMemcpyAsync(to, r->pinned + at, bytes, cudaMemcpyHostToDevice, h->stream);
    cudaError_t e =
        cudaMemcpyAsync(r->beside + at, r->pinned + at, bytes, cudaMemcpyHostToDevice, h->copies);
    if (e == cudaSuccess) e = cudaEventRecord(r->crossed, h->copies);
    if (e == cudaSuccess) e = cudaStreamWaitEvent(h->stream, r->crossed, 0);
    if (e != cudaSuccess) return e;
    return cudaMemcpyAsync(to, r->beside + at, bytes, cudaMemcpyDeviceToDevice, h->stream);
}

sr_status ring_send(ring *r, cuda_host *h, void *to, const void *from, size_t bytes) {
    while (bytes > 0) {
        size_t piece = bytes < SEGMENT ? bytes : (size_t)SEGMENT;
        if (r->used + piece > SEGMENT) SR_TRY(next_segment(r, h));
        size_t at = (size_t)r->now * SEGMENT + r->used;
        memcpy(r->pinned + at, from, piece);
        SR_TRY(cuda_check(fetch(r, h, to, at, piece), "cannot upload"));
        r->used += (piece + ALIGN - 1) / ALIGN * ALIGN;
        to = (char *)to + piece;
        from = (const char *)from + piece;
        bytes -= piece;
    }
    return SR_OK;
}
