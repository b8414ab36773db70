/* pool.h - blocks of device memory by size class.
 *
 * A block that is given back is kept in the list of its class and handed out again: after the first
 * step a training loop asks the backend for nothing.  When the backend has no memory left, all free
 * blocks are returned to it once and the request is tried again.
 */
#ifndef SR_TENSOR_POOL_H
#define SR_TENSOR_POOL_H

#include <stddef.h>

#include "core/base/status.h"
#include "core/tensor/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_classes sr_classes;

sr_status sr_classes_new(sr_classes **out);
void sr_classes_free(sr_classes *classes); /* after sr_device_trim(); NULL is allowed */

/* The size of the smallest class that holds `bytes`; 0 when no class does (2^50 bytes and more). */
size_t sr_class_bytes(size_t bytes);

/* *data = a block of at least `bytes`, 64-byte aligned, contents not set.  SR_ENOMEM. */
sr_status sr_device_take(sr_device *device, void **data, size_t bytes);

/* Gives back a block taken with the same `bytes`. */
void sr_device_give(sr_device *device, void *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
