/* gpu_cuda.cu - gpu.h on a GPU: a stream that the host waits for in gpu_wait and gpu_download only.
 *
 * Errors of queued work appear at the next wait; bad data found by kernels is in the fault word, in
 * device memory, which every wait reads.
 */
#include "kernels/cuda/gpu_cuda.h"

#include <sched.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "kernels/cuda/gpu_ops.h"
#include "kernels/cuda/lt_cuda.h"
#include "kernels/cuda/ring_cuda.h"

sr_status cuda_select(int number) {
    static thread_local int now = -1;
    if (now == number) return SR_OK;
    SR_TRY(cuda_check(cudaSetDevice(number), "cannot select the device"));
    now = number;
    return SR_OK;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Whether a kernel failed, which every later call of the process reports. */
static bool is_late(cudaError_t error) {
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
        return true;
    default:
        return false;
    }
}

sr_status cuda_check(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return SR_OK;
    cudaGetLastError(); /* a recoverable error is reported once */
    if (is_late(error))
        return sr_fail(SR_EDEVICE,
                       "cuda: an op that was queued before failed (seen at %s): %s; "
                       "CUDA_LAUNCH_BLOCKING=1 names it",
                       what, cudaGetErrorString(error));
    sr_status st = error == cudaErrorMemoryAllocation ? SR_ENOMEM : SR_EDEVICE;
    return sr_fail(st, "cuda: %s: %s", what, cudaGetErrorString(error));
}

sr_status cuda_failed_later(const cuda_host *h, cudaError_t error) {
    if (error == cudaSuccess) return SR_OK;
    char ops[256] = "";
    size_t length = 0;
    uint64_t first = h->launches > RECENT ? h->launches - RECENT : 0;
    for (uint64_t i = first; i < h->launches && length < sizeof ops - 40; i++)
        length += (size_t)snprintf(ops + length, sizeof ops - length, "%s%.32s",
                                   i > first ? ", " : "", h->recent[i % RECENT]);
    return sr_fail(
        SR_EDEVICE,
        "cuda: %s; the last ops were %s; CUDA_LAUNCH_BLOCKING=1 names the one that failed",
        cudaGetErrorString(error), ops);
}

/* ---- launches -------------------------------------------------------------------------------- */

enum { PLAIN_SHARED = 48 << 10 };

/* More shared memory than every GPU has must be requested, once for a kernel: all that a block may
 * have, which costs nothing until it is used. */
static sr_status grant(const gpu *g, const char *op, const void *kernel, size_t bytes) {
    if (bytes <= PLAIN_SHARED) return SR_OK;
    if (bytes > g->shared_bytes)
        return sr_fail(SR_EDEVICE, "%s: a block needs %zu KB of shared memory; this GPU has %zu KB",
                       op, bytes >> 10, g->shared_bytes >> 10);
    const void **place = &cuda_of(g)->granted[(uintptr_t)kernel / 16 % GRANTED];
    if (*place == kernel) return SR_OK;
    SR_TRY(cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           (int)g->shared_bytes),
                      op));
    *place = kernel;
    return SR_OK;
}

sr_status gpu_launch(gpu *g, const char *op, const void *kernel, dim grid, int threads,
                     size_t shared_bytes, void **arguments) {
    cuda_host *h = cuda_of(g);
    SR_TRY(cuda_use(h));
    h->recent[h->launches++ % RECENT] = op;
    SR_TRY(grant(g, op, kernel, shared_bytes));
    cudaError_t e = cudaLaunchKernel(kernel, dim3(grid.x, grid.y, grid.z), dim3((unsigned)threads),
                                     arguments, shared_bytes, h->stream);
    return is_late(e) ? cuda_failed_later(h, e) : cuda_check(e, op);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static const double LOOK_SECONDS = 0.05;

static cudaError_t state_of(const cuda_host *h, cudaEvent_t event) {
    return event != nullptr ? cudaEventQuery(event) : cudaStreamQuery(h->stream);
}

/* What other machines do can hold the queue up, without end if one of them fails. */
static sr_status finish_watched(const cuda_host *h, cudaEvent_t event) {
    const sr_device *device = h->device;
    double looked = sr_time_monotonic();
    cudaError_t e;
    while ((e = state_of(h, event)) == cudaErrorNotReady) {
        double now = sr_time_monotonic();
        if (now - looked < LOOK_SECONDS) {
            sched_yield();
            continue;
        }
        looked = now;
        SR_TRY(device->watch(device->watcher, false));
    }
    SR_TRY(cuda_failed_later(h, e));
    return device->watch(device->watcher, true);
}

sr_status cuda_finish(const cuda_host *h, cudaEvent_t event) {
    if (h->device->watch != nullptr) return finish_watched(h, event);
    return cuda_failed_later(h, event != nullptr ? cudaEventSynchronize(event)
                                                 : cudaStreamSynchronize(h->stream));
}

/* Queues it: kernels that follow find no fault. */
static sr_status clear_fault(gpu *g) {
    cuda_host *h = cuda_of(g);
    *h->word = gpu_no_fault(); /* until the next wait reads into it, after this copy */
    return cuda_failed_later(
        h, cudaMemcpyAsync(g->word, h->word, sizeof *h->word, cudaMemcpyDefault, h->stream));
}

sr_status gpu_wait(sr_device *device) {
    gpu *g = (gpu *)device->state;
    cuda_host *h = cuda_of(g);
    SR_TRY(cuda_use(h));
    cudaError_t e =
        cudaMemcpyAsync(h->word, g->word, sizeof *h->word, cudaMemcpyDefault, h->stream);
    SR_TRY(cuda_failed_later(h, e));
    SR_TRY(cuda_finish(h, nullptr));
    g->calls = 0;
    queue_fault found = *h->word;
    if (found.key == gpu_no_fault().key) return SR_OK;
    SR_TRY(clear_fault(g));
    return gpu_fault_status(&found);
}

void *gpu_queue(sr_device *device) {
    cuda_host *h = cuda_of((gpu *)device->state);
    return cuda_use(h) == SR_OK ? h->stream : nullptr;
}

sr_status gpu_upload(sr_device *device, void *to, const void *host, size_t bytes) {
    cuda_host *h = cuda_of((gpu *)device->state);
    SR_TRY(cuda_use(h));
    return ring_send(h->uploads, h, to, host, bytes);
}

sr_status gpu_download(sr_device *device, void *host, const void *from, size_t bytes) {
    cuda_host *h = cuda_of((gpu *)device->state);
    SR_TRY(gpu_wait(device));
    return cuda_failed_later(h, cudaMemcpy(host, from, bytes, cudaMemcpyDeviceToHost));
}

sr_status gpu_option(sr_device *device, const char *name, bool on) {
    if (strcmp(name, "tf32") != 0)
        return sr_fail(SR_EDEVICE, "%s has no option '%s'", device->name, name);
    cuda_of((gpu *)device->state)->tf32 = on;
    return SR_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

sr_status gpu_alloc(sr_device *device, void **data, size_t bytes) {
    cuda_host *h = cuda_of((gpu *)device->state);
    size_t unused, total;
    SR_TRY(cuda_use(h));
    cudaError_t e = cudaMalloc(data, bytes);
    if (e != cudaErrorMemoryAllocation) return cuda_check(e, "cannot allocate memory");
    cudaGetLastError();
    if (cudaMemGetInfo(&unused, &total) != cudaSuccess) unused = total = 0;
    return sr_fail(SR_ENOMEM,
                   "out of memory: cannot allocate %.1f MiB on %s (%.1f of %.1f GiB free); lower "
                   "batch.micro_packs or data.max_len, or set model.recompute: true",
                   (double)bytes / (1 << 20), device->name, (double)unused / (1 << 30),
                   (double)total / (1 << 30));
}

void gpu_free(sr_device *device, void *data, size_t) {
    cuda_host *h = cuda_of((gpu *)device->state);
    if (cuda_use(h) == SR_OK) cudaFree(data); /* waits for the device */
}

/* ---- opening --------------------------------------------------------------------------------- */

static sr_status open_streams(gpu *g, cuda_host *h) {
    SR_TRY(cuda_check(cudaStreamCreateWithFlags(&h->stream, cudaStreamNonBlocking),
                      "cannot create a stream"));
    SR_TRY(cuda_check(cudaStreamCreateWithFlags(&h->copies, cudaStreamNonBlocking),
                      "cannot create a stream"));
    SR_TRY(cuda_check(cudaHostAlloc((void **)&h->word, sizeof *h->word, cudaHostAllocDefault),
                      "cannot allocate pinned memory"));
    SR_TRY(cuda_check(cudaMalloc((void **)&g->word, sizeof *g->word), "cannot allocate memory"));
    SR_TRY(clear_fault(g));
    return ring_new(&h->uploads);
}

static sr_status open_device(gpu *g, cuda_host *h) {
    cudaDeviceProp p;
    char problem[256];
    SR_TRY(cuda_check(cudaGetDeviceProperties(&p, h->number), "cannot query the device"));
    cuda_problem(problem, sizeof problem, &p);
    if (problem[0] != '\0')
        return sr_fail(SR_EDEVICE, "device '%s' cannot be used: %s", g->device->name, problem);
    SR_TRY(cuda_use(h));
    g->processors = p.multiProcessorCount;
    g->shared_bytes = p.sharedMemPerBlockOptin;
    return open_streams(g, h);
}

sr_status gpu_open(sr_device *device) {
    gpu *g = nullptr;
    cuda_host *h = nullptr;
    SR_TRY(sr_new(&g, 1));
    sr_status st = sr_new(&h, 1);
    if (st != SR_OK) {
        sr_free(g);
        return st;
    }
    h->number = device->number;
    h->device = device;
    g->device = device;
    g->host = h;
    device->state = g;
    st = open_device(g, h);
    if (st != SR_OK) gpu_close(device);
    return st;
}

void gpu_close(sr_device *device) {
    gpu *g = (gpu *)device->state;
    if (g == nullptr) return;
    cuda_host *h = cuda_of(g);
    if (h->stream != nullptr && cuda_use(h) == SR_OK) {
        cudaStreamSynchronize(h->stream);
        gpu_scratch_free(g);
        products_free(h->lt);
        ring_free(h->uploads);
        cudaFree(g->word);
        cudaFreeHost(h->word);
        cudaStreamDestroy(h->stream);
        if (h->copies != nullptr) cudaStreamDestroy(h->copies);
    }
    sr_free(h);
    sr_free(g);
    device->state = nullptr;
}
