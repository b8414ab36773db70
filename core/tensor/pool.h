/* pool.h - blocks of device memory by size class.
 *
 * Freed blocks are kept in the list of their class and reused: after its first step a training loop
 * allocates nothing from the backend.  When the backend is out of memory, all free blocks are
 * returned to it once and the request is repeated.
 */
#pragma once

#include <stddef.h>

#include "core/base/status.h"
#include "core/tensor/device.h"

SR_BEGIN_C

typedef struct sr_classes sr_classes;

sr_status sr_classes_new(sr_classes **out);
void sr_classes_free(sr_classes *classes); /* after sr_device_trim(); may be NULL */

/* *data = a block of at least `bytes`, 64-byte aligned, uninitialised.  SR_ENOMEM. */
sr_status sr_device_take(sr_device *device, void **data, size_t bytes);

/* Frees a block that was allocated with the same `bytes`. */
void sr_device_give(sr_device *device, void *data, size_t bytes);

SR_END_C
