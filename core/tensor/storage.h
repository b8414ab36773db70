/* storage.h - creation and destruction of storages, and the free lists of structs.
 *
 * Internal to core/tensor; others use tensor.h.  Ops create and release tensors by the thousand, so
 * the structs of tensors, storages and nodes come from free lists of the device.
 */
#pragma once

#include <stddef.h>

#include "core/base/status.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

/* Free structs, linked through their first member. */
typedef struct sr_spares {
    void *tensors, *storages, *nodes;
    sr_tensor *dying; /* tensors released while another one was being freed */
    bool draining;
} sr_spares;

/* Pops a zeroed struct of `bytes` from `list`, or allocates one. */
sr_status sr_spare_take(void **out, void **list, size_t bytes);
void sr_spare_give(void **list, void *block);
void sr_spare_free_all(void **list);

sr_device *sr_device_retain(sr_device *device);
void sr_device_release(sr_device *device); /* frees the struct with the last one */

/* Creates a storage of `bytes` in `scope` with one reference. */
sr_status sr_storage_new(sr_storage **out, sr_scope *scope, size_t bytes);
sr_storage *sr_storage_retain(sr_storage *storage);
void sr_storage_release(sr_storage *storage); /* may be NULL */

/* Frees the memory; tensors of this storage are expired. */
void sr_storage_expire(sr_storage *storage);

SR_END_C
