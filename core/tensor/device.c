#include "core/tensor/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "core/tensor/pool.h"
#include "core/tensor/rotary.h"
#include "core/tensor/scope.h"
#include "core/tensor/storage.h"
#include "core/tensor/weight.h"

sr_device *sr_device_retain(sr_device *device) {
    device->refs++;
    return device;
}

void sr_device_release(sr_device *device) {
    if (device == NULL || --device->refs > 0) return;
    if (device->spares != NULL) {
        sr_spare_free_all(&device->spares->tensors);
        sr_spare_free_all(&device->spares->storages);
        sr_spare_free_all(&device->spares->nodes);
    }
    sr_free(device->spares);
    sr_free(device->outside);
    sr_classes_free(device->classes);
    sr_free(device);
}

static sr_status furnish(sr_device *device) {
    SR_TRY(sr_classes_new(&device->classes));
    SR_TRY(sr_new(&device->spares, 1));
    SR_TRY(sr_new(&device->outside, 1));
    device->outside->device = device;
    device->scope = device->outside;
    return device->backend->open != NULL ? device->backend->open(device) : SR_OK;
}

bool sr_device_parse(char backend[16], int *number, const char *name) {
    size_t length = strcspn(name, ":");
    const char *digits = name + length + (name[length] == ':');
    size_t count = strspn(digits, "0123456789");
    if (length == 0 || length > 11 || count > 3 || digits[count] != '\0') return false;
    if (name[length] == ':' && count == 0) return false;
    memcpy(backend, name, length);
    backend[length] = '\0';
    *number = atoi(digits);
    return true;
}

static void set_name(sr_device *device) {
    const char *name = device->backend->name;
    if (device->number == 0)
        snprintf(device->name, sizeof device->name, "%.15s", name);
    else
        snprintf(device->name, sizeof device->name, "%.11s:%u", name,
                 (unsigned)device->number % 1000);
}

sr_status sr_device_open(sr_device **out, const sr_backend *backend, int number,
                         sr_threads *threads) {
    *out = NULL;
    sr_device *device = NULL;
    SR_TRY(sr_new(&device, 1));
    device->backend = backend;
    device->number = number;
    set_name(device);
    device->real = backend->real;
    device->threads = threads;
    device->refs = 1;
    sr_status st = furnish(device);
    return SR_GIVE(out, device, st, sr_device_release);
}

void sr_device_close(sr_device *device) {
    if (device == NULL || device->closed) return;
    while (device->scope != device->outside) sr_scope_close(device->scope);
    sr_weight_drop_all(device);
    sr_rotary_drop_all(device);
    while (device->outside->first != NULL) sr_storage_expire(device->outside->first);
    sr_device_trim(device);
    sr_free_aligned(device->staging);
    device->staging = NULL;
    if (device->backend->close != NULL) device->backend->close(device);
    device->closed = true;
    sr_device_release(device);
}

sr_status sr_device_wait(sr_device *device) {
    device->waits++;
    return device->backend->wait != NULL ? device->backend->wait(device) : SR_OK;
}

sr_status sr_device_upload(sr_device *device, void *to, const void *host, size_t bytes) {
    device->uploads++;
    return device->backend->upload(device, to, host, bytes);
}

sr_status sr_device_download(sr_device *device, void *host, const void *from, size_t bytes) {
    device->waits++;
    return device->backend->download(device, host, from, bytes);
}

sr_status sr_backend_lacks(const sr_device *device, const char *op) {
    return sr_fail(SR_EDEVICE, "%s is not implemented for %s; move the tensors to another device",
                   op, device->name);
}
