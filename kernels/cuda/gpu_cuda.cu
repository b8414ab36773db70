/* gpu_cuda.cu - gpu.h on a GPU: a stream that the host waits for in gpu_wait and gpu_download only;
 * the GPUs of this machine, and why one cannot be used.
 *
 * Errors of queued work appear at the next wait; bad data found by kernels is in the fault word, in
 * device memory, which every wait reads.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "kernels/cuda/host_cuda.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/lt_cuda.h"

/* ---- launches -------------------------------------------------------------------------------- */

enum { PLAIN_SHARED = 16 << 10 }; /* several blocks of more need more than a GPU sets aside */

/* Much shared memory must be requested, once for a kernel: all that a block may have, and that none
 * of it is a cache; which costs nothing until it is used. */
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
    SR_TRY(cuda_check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100), op));
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
    return cuda_is_late(e) ? cuda_failed_later(h, e) : cuda_check(e, op);
}

/* ---- waiting --------------------------------------------------------------------------------- */

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

/* ---- the GPUs of this machine ---------------------------------------------------------------- */

/* 13000 -> "13.0" */
static void version_text(char *text, size_t size, int version) {
    snprintf(text, size, "%d.%d", version / 1000, version % 1000 / 10);
}

/* cudaGetDeviceCount's error as a sentence with the way out. */
static sr_status no_device(cudaError_t error) {
    int driver = 0;
    char has[16], needs[16];
    cudaDriverGetVersion(&driver);
    version_text(has, sizeof has, driver);
    version_text(needs, sizeof needs, CUDART_VERSION);
    if (driver == 0)
        return sr_fail(SR_EDEVICE, "cuda: no NVIDIA driver was found; set device: cpu, or install "
                                   "the NVIDIA driver");
    if (error == cudaErrorInsufficientDriver)
        return sr_fail(SR_EDEVICE,
                       "cuda: the NVIDIA driver supports CUDA %s, but this program "
                       "needs %s; set device: cpu, or update the driver",
                       has, needs);
    if (error == cudaErrorNoDevice)
        return sr_fail(
            SR_EDEVICE, "cuda: no NVIDIA GPU was found%s; set device: cpu",
            getenv("CUDA_VISIBLE_DEVICES") != nullptr ? " (CUDA_VISIBLE_DEVICES hides some)" : "");
    return sr_fail(SR_EDEVICE, "cuda: %s; set device: cpu, or see nvidia-smi",
                   cudaGetErrorString(error));
}

sr_status gpu_count(int *devices) {
    cudaError_t e = cudaGetDeviceCount(devices);
    if (e == cudaSuccess && *devices > 0) return SR_OK;
    cudaGetLastError();
    *devices = 0;
    return no_device(e == cudaSuccess ? cudaErrorNoDevice : e);
}

/* Why a device cannot be used, in one sentence; "" if it can. */
static void problem_of(char *text, size_t size, const cudaDeviceProp *p) {
    const lt_functions *lt;
    text[0] = '\0';
    if (p->major < 8)
        snprintf(text, size,
                 "%.120s is sm_%d%d, but sm_80 (A100) or later is needed; set device: cpu", p->name,
                 p->major, p->minor);
    else if (lt_load(&lt) != SR_OK)
        snprintf(text, size, "%s", sr_message());
}

sr_status gpu_describe(sr_device_facts *facts, int number) {
    cudaDeviceProp p;
    int driver = 0, runtime = 0;
    size_t unused = 0, total = 0;
    *facts = sr_device_facts{};
    SR_TRY(cuda_check(cudaGetDeviceProperties(&p, number), "cannot query the device"));
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    snprintf(facts->model, sizeof facts->model, "%.127s", p.name);
    snprintf(facts->arch, sizeof facts->arch, "sm_%d%d", p.major, p.minor);
    version_text(facts->driver, sizeof facts->driver, driver);
    version_text(facts->runtime, sizeof facts->runtime, runtime);
    facts->memory = (int64_t)p.totalGlobalMem;
    facts->reserved = LT_WORKSPACE + RING_BYTES;
    problem_of(facts->problem, sizeof facts->problem, &p);
    if (facts->problem[0] != '\0') return SR_OK;
    cudaError_t e = cuda_select(number) == SR_OK ? cudaMemGetInfo(&unused, &total)
                                                 : cudaErrorDevicesUnavailable;
    if (e == cudaSuccess)
        facts->free = (int64_t)unused;
    else
        snprintf(facts->problem, sizeof facts->problem,
                 "%.100s cannot be opened: %.100s; see nvidia-smi", p.name, cudaGetErrorString(e));
    cudaGetLastError();
    return SR_OK;
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
    problem_of(problem, sizeof problem, &p);
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
