#include "kernels/cuda/graph_cuda.h"

#include "core/base/mem.h"
#include "kernels/cuda/gpu_ops.h"
#include "kernels/cuda/ring_cuda.h"

struct graph {
    cudaGraphExec_t ready; /* NULL before the first launch */
    void **freed;          /* while it was recorded */
    size_t count, room;
};

void graph_free(graph *g) {
    if (g == nullptr) return;
    if (g->ready != nullptr) cudaGraphExecDestroy(g->ready);
    sr_free(g->freed);
    sr_free(g);
}

bool graph_defer_free(cuda_host *h, void *data) {
    if (!h->capturing) return false;
    graph *g = h->loop;
    if (g->count == g->room) {
        size_t room = g->room > 0 ? 2 * g->room : 16;
        if (sr_grow(&g->freed, room) != SR_OK) return true; /* better lost than used after free */
        g->room = room;
    }
    g->freed[g->count++] = data;
    return true;
}

static void free_deferred(graph *g) {
    while (g->count > 0) cudaFree(g->freed[--g->count]);
}

static sr_status begin(cuda_host *h) {
    if (h->recording) return sr_fail(SR_EDEVICE, "cuda: a graph is already being recorded");
    if (h->warm && h->loop == nullptr) SR_TRY(sr_new(&h->loop, 1));
    if (h->warm)
        SR_TRY(cuda_check(cudaStreamBeginCapture(h->stream, cudaStreamCaptureModeRelaxed),
                          "cannot record a graph"));
    h->capturing = h->warm;
    h->recording = true;
    return SR_OK;
}

/* Takes what was recorded; NULL when nothing was. */
static sr_status end(cuda_host *h, cudaGraph_t *recorded) {
    *recorded = nullptr;
    h->warm = h->warm || h->recording;
    h->recording = false;
    if (!h->capturing) return SR_OK;
    h->capturing = false;
    return cuda_check(cudaStreamEndCapture(h->stream, recorded), "cannot record a graph");
}

static cudaError_t update(graph *g, cudaGraph_t recorded) {
    cudaGraphExecUpdateResultInfo info;
    if (g->ready != nullptr) {
        if (cudaGraphExecUpdate(g->ready, recorded, &info) == cudaSuccess) return cudaSuccess;
        cudaGetLastError(); /* it has another shape */
        cudaGraphExecDestroy(g->ready);
        g->ready = nullptr;
    }
    return cudaGraphInstantiate(&g->ready, recorded, 0);
}

static sr_status run(cuda_host *h, cudaGraph_t recorded) {
    cudaError_t e = update(h->loop, recorded);
    if (e == cudaSuccess) e = cudaGraphLaunch(h->loop->ready, h->stream);
    SR_TRY(cuda_check(e, "cannot launch a graph"));
    return ring_captured(h->uploads, h);
}

sr_status gpu_capture(sr_device *device, sr_capture what) {
    cuda_host *h = cuda_of((gpu *)device->state);
    cudaGraph_t recorded;
    SR_TRY(cuda_use(h));
    if (what == SR_CAPTURE_BEGIN) return begin(h);
    sr_status st = end(h, &recorded);
    if (st == SR_OK && recorded != nullptr && what == SR_CAPTURE_RUN) st = run(h, recorded);
    if (st == SR_OK && what == SR_CAPTURE_DROP) st = ring_captured(h->uploads, h);
    if (recorded != nullptr) cudaGraphDestroy(recorded);
    if (h->loop != nullptr) free_deferred(h->loop);
    return st;
}
