/* rotary.h - cosines and sines of rotary positions, in tables that a device keeps.
 *
 * Pair j of a head of D columns turns by position x theta^(-2 j / D).  All of it is f32, as in the
 * models that are published: the frequency, its product with the position, and cos and sin, which
 * are those of that product, rounded.  A table is kept for each theta and D until the device is
 * closed, and grows to the longest position that was asked for.
 */
#pragma once

#include "core/base/status.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

/* *out = the table of positions below `rows`, (rows, D) of the device's real dtype: D / 2 cosines,
 * then as many sines.  `size` is D, which is even.  SR_ENOMEM. */
sr_status sr_rotary_table(sr_tensor **out, sr_device *device, double theta, int64_t size,
                          int64_t rows);

void sr_rotary_drop_all(sr_device *device); /* when it is closed */

SR_END_C
