/* facts_cuda.cu - the GPUs of this machine, and why one cannot be used. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/gpu_cuda.h"
#include "kernels/cuda/gpu_ops.h"
#include "kernels/cuda/lt_cuda.h"
#include "kernels/cuda/ring_cuda.h"

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

void cuda_problem(char *text, size_t size, const cudaDeviceProp *p) {
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
    cuda_problem(facts->problem, sizeof facts->problem, &p);
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
