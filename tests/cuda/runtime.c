/* runtime.c - a CUDA runtime without a GPU, for tests: memory is the host's, copies are done by
 * queue.c, kernels are not run.  The objects of seqrun_cuda.so linked with it show what the host
 * code asks of CUDA and cuBLASLt (lt.c): products, uploads, errors. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"

/* SEQRUN_FAKE: what this machine lacks. */
static int lacks(const char *what) {
    const char *given = getenv("SEQRUN_FAKE");
    return given != NULL && strcmp(given, what) == 0;
}

/* ---- devices --------------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 2;
    if (lacks("driver")) return cudaErrorInsufficientDriver;
    if (lacks("new driver")) return cudaErrorInsufficientDriver;
    return lacks("gpu") ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = lacks("driver") ? 0 : lacks("new driver") ? 12040 : 13010;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = 13000;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "Fake GPU %d", device);
    p->major = lacks("new gpu") ? 7 : 9;
    p->multiProcessorCount = 4;
    p->sharedMemPerBlockOptin = (size_t)(lacks("shared memory") ? 99 : 227) << 10;
    p->totalGlobalMem = (size_t)1 << 30;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    if (device == 0 && lacks("free gpu")) return cudaErrorDevicesUnavailable;
    return device < 2 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
    *unused = *total = (size_t)1 << 30;
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                            : "an error";
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Zeroed, since kernels that are not run leave their outputs as they are. */
cudaError_t cudaMalloc(void **data, size_t bytes) {
    *data = bytes > (size_t)1 << 30 ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (*data == NULL) return cudaErrorMemoryAllocation;
    memset(*data, 0, bytes);
    return cudaSuccess;
}
cudaError_t cudaFree(void *data) {
    queue_finish_all();
    free(data);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned flags) {
    (void)flags;
    return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeHost(void *data) {
    return cudaFree(data);
}
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
    (void)flags;
    *device = host;
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    (void)kind;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

static cudaError_t put(cudaStream_t stream, work w) {
    queue_put(stream, w);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    (void)kind;
    return put(stream, (work){.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes});
}
cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
    return put(stream, (work){.kind = WORK_FILL,
                              .to = to,
                              .bytes = width,
                              .pitch = pitch,
                              .rows = height,
                              .value = value});
}

/* ---- streams and events ---------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    (void)flags;
    *stream = queue_new();
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    queue_free(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (lacks("memory rights")) return cudaErrorIllegalAddress;
    queue_finish(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    if (stream->first == NULL && !lacks("an end")) return cudaStreamSynchronize(stream);
    queue_finish(stream); /* by the next time */
    return cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    (void)flags;
    if (lacks("waits of streams")) return cudaSuccess;
    return put(stream, (work){.kind = WORK_WAIT, .event = event, .ticket = event->recorded});
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof **event);
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    queue_finish_all(); /* what waits for it, too */
    free(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return put(stream, (work){.kind = WORK_RECORD, .event = event, .ticket = ++event->recorded});
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (!lacks("waits of the host")) queue_finish_event(event);
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    if (event->done == event->recorded) return cudaEventSynchronize(event);
    queue_finish_event(event); /* by the next time */
    return cudaErrorNotReady;
}
/* ---- kernels --------------------------------------------------------------------------------- */

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
    (void)kernel, (void)attribute;
    return value > 99 << 10 && lacks("shared memory") ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
    static int launches;
    (void)kernel, (void)grid, (void)block, (void)arguments, (void)shared;
    put(stream, (work){.kind = WORK_KERNEL});
    launches++;
    return lacks("safe kernels") && launches == 4 ? cudaErrorIllegalAddress : cudaSuccess;
}

/* What nvcc's objects call when they are loaded, and in stubs that are never called. */
#define NOTHING(name)                                                                              \
    int name(void);                                                                                \
    int name(void) {                                                                               \
        return 0;                                                                                  \
    }
void **__cudaRegisterFatBinary(void *binary);
void **__cudaRegisterFatBinary(void *binary) {
    static void *handle;
    (void)binary;
    return &handle;
}
NOTHING(__cudaRegisterFatBinaryEnd)
NOTHING(__cudaUnregisterFatBinary)
NOTHING(__cudaRegisterFunction)
NOTHING(__cudaPopCallConfiguration)
NOTHING(__cudaLaunchKernel)
NOTHING(__cudaGetKernel)
