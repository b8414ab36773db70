/* runtime.c - a CUDA runtime without a GPU, for tests: memory is the host's, copies are done at
 * once, kernels are not run.  The objects of seqrun_cuda.so linked with it show what the host code
 * asks of CUDA and cuBLASLt (lt.c): products, uploads, graphs, errors. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int recording;         /* a graph, */
static cudaStream_t recorded; /* of this stream */
static struct cudaGraph_st { int unused; } *graph = (struct cudaGraph_st *)&recording;

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
    snprintf(p->name, sizeof p->name, "Fake GPU %d", lacks("different GPUs") ? 0 : device);
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

/* Zeroed, since kernels that are not run leave their outputs as they are; but for the workspace of
 * products, 32 MiB, nothing large where memory for trials is missing. */
cudaError_t cudaMalloc(void **data, size_t bytes) {
    size_t most = lacks("room for trials") ? ((size_t)32 << 20) + 64 : (size_t)1 << 30;
    *data = bytes > most ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (*data == NULL) return cudaErrorMemoryAllocation;
    memset(*data, 0, bytes);
    return cudaSuccess;
}
cudaError_t cudaFree(void *data) {
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
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    (void)stream;
    return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
    (void)stream;
    for (size_t row = 0; row < height; row++) memset((char *)to + row * pitch, value, width);
    return cudaSuccess;
}

/* ---- streams, events, graphs ----------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    (void)flags;
    *stream = malloc(1);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    free(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (lacks("memory rights")) return cudaErrorIllegalAddress;
    return recording && stream == recorded ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    (void)stream, (void)event, (void)flags;
    return cudaSuccess;
}
/* Time is counted in launches of kernels. */
static int launches;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof launches);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    (void)stream;
    memcpy(event, &launches, sizeof launches);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    (void)event;
    return lacks("safe trials") ? cudaErrorIllegalAddress : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t stop) {
    int from, to;
    memcpy(&from, start, sizeof from);
    memcpy(&to, stop, sizeof to);
    if (lacks("safe passes") && to > from) return cudaErrorIllegalAddress;
    *ms = 1.0f + (float)(lacks("slow kernels") ? 0 : to - from);
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    (void)mode;
    recording = 1;
    recorded = stream;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    (void)stream;
    recording = 0;
    *out = (cudaGraph_t)graph;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t from,
                                 unsigned long long flags) {
    (void)flags;
    *ready = (cudaGraphExec_t)from;
    return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t ready, cudaGraph_t from,
                                cudaGraphExecUpdateResultInfo *info) {
    (void)ready, (void)from, (void)info;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
    (void)ready;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t done) {
    (void)done;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream) {
    (void)ready, (void)stream;
    return cudaSuccess;
}

/* ---- kernels --------------------------------------------------------------------------------- */

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
    (void)kernel, (void)attribute;
    return value > 99 << 10 && lacks("shared memory") ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
    (void)kernel, (void)grid, (void)block, (void)arguments, (void)shared, (void)stream;
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
