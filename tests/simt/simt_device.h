/* simt_device.h - the simt device of a test program, and its tensors as the host sees them. */
#pragma once

#include "core/tensor/plugin.h"
#include "kernels/cuda/gpu.h"
#include "kernels/simt/arena.h"
#include "tests/support/check.h"

OWNER(sr_tensor, sr_tensor_release)

static sr_device *device;
static const sr_backend *backend;

static inline gpu *g() {
    return (gpu *)device->state;
}

/* The elements of a tensor, for the test to read and write. */
template <class T> static T *data_of(const sr_tensor *t) {
    return (T *)simt::arena_inside(sr_tensor_data(t));
}

static sr_status keep_backend(const sr_backend *added) {
    backend = added;
    return sr_device_open(&device, backend, 0, nullptr);
}

static inline void open_device() {
    sr_host host = {};
    host.abi = SR_ABI;
    host.add_backend = keep_backend;
    CHECK_OK(sr_plugin_init(&host, SR_ABI));
}
