/* host_cuda.cu - what all host code for a GPU stands on: the device of the thread, errors as
 * statuses, waits.
 */
#include "kernels/cuda/host_cuda.h"

#include <sched.h>
#include <stdio.h>

#include "core/base/system.h"

sr_status cuda_select(int number) {
    static thread_local int now = -1;
    if (now == number) return SR_OK;
    SR_TRY(cuda_check(cudaSetDevice(number), "cannot select the device"));
    now = number;
    return SR_OK;
}

/* ---- errors ---------------------------------------------------------------------------------- */

bool cuda_is_late(cudaError_t error) {
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
    if (cuda_is_late(error))
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
