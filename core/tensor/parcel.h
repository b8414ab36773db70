/* parcel.h - several host arrays sent to a device by one upload, into one block of its memory.
 *
 * For core/tensor itself.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/scope.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

typedef struct sr_parcel_item {
    const void *host;
    sr_dtype dtype, stored; /* on the host, on the device */
    int64_t count;
    size_t at; /* bytes from the start of the block, a multiple of 64 */
} sr_parcel_item;

typedef struct sr_parcel {
    sr_parcel_item *piece; /* the caller's array, large enough for what is added */
    int count;
    size_t bytes;
} sr_parcel;

/* Adds an array, which must stay valid until the parcel is sent; returns its index. */
int sr_parcel_add(sr_parcel *parcel, const void *host, sr_dtype dtype, sr_dtype stored,
                  int64_t count);

/* *block = a new tensor in `scope` that holds all pieces.  SR_ENOMEM. */
sr_status sr_parcel_send(sr_tensor **block, sr_scope *scope, const sr_parcel *parcel);

/* A view of one piece: (count), or (count / columns, columns) when columns > 1. */
sr_status sr_parcel_view(sr_tensor **out, const sr_tensor *block, const sr_parcel_item *piece,
                         int columns);

SR_END_C
