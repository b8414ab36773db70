/* dtype.h - the element types of tensors. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/extern.h"
#include "core/base/rng.h" /* SR_HD */

SR_BEGIN_C

typedef enum sr_dtype {
    SR_F64,  /* storage and arithmetic of `ref` */
    SR_F32,  /* storage and arithmetic of `cpu`; master weights and optimizer state everywhere */
    SR_BF16, /* storage only: arithmetic is f32 */
    SR_I32,  /* token ids, rows, labels */
    SR_BOOL, /* one byte, 0 or 1: comparisons, masks */
    SR_DTYPE_COUNT
} sr_dtype;

size_t sr_dtype_size(sr_dtype dtype);      /* bytes per element */
const char *sr_dtype_name(sr_dtype dtype); /* "f64" "f32" "bf16" "i32" "bool" */
bool sr_dtype_parse(sr_dtype *out, const char *name);
bool sr_dtype_is_real(sr_dtype dtype); /* f64, f32, bf16 */

/* Loads an element on the host as a double, and stores it.  Conversion to i32 rounds towards zero
 * and clamps to the range, NaN gives 0; conversion to bool is `x != 0`. */
double sr_element_load(const void *data, sr_dtype dtype, int64_t i);
void sr_element_store(void *data, sr_dtype dtype, int64_t i, double x);

/* Converts `count` elements on the host between dtypes, by the same rules. */
void sr_dtype_convert(void *to, sr_dtype to_type, const void *from, sr_dtype from_type,
                      int64_t count);

typedef uint16_t sr_bf16;

SR_HD float sr_bf16_to_f32(sr_bf16 x) {
    uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, 4);
    return y;
}

/* Round to nearest, ties to even; a NaN stays a NaN. */
SR_HD sr_bf16 sr_bf16_from_f32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (sr_bf16)(bits >> 16 | 0x40u);
    return (sr_bf16)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

SR_END_C
