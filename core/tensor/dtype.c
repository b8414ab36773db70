#include "core/tensor/dtype.h"

static const struct {
    const char *name;
    size_t size;
} types[SR_DTYPE_COUNT] = {
    [SR_F64] = {"f64", 8}, [SR_F32] = {"f32", 4},   [SR_BF16] = {"bf16", 2},
    [SR_I32] = {"i32", 4}, [SR_BOOL] = {"bool", 1},
};

size_t sr_dtype_size(sr_dtype dtype) {
    return types[dtype].size;
}

const char *sr_dtype_name(sr_dtype dtype) {
    return types[dtype].name;
}

bool sr_dtype_parse(sr_dtype *out, const char *name) {
    for (int i = 0; i < SR_DTYPE_COUNT; i++) {
        if (strcmp(types[i].name, name) != 0) continue;
        *out = (sr_dtype)i;
        return true;
    }
    return false;
}

bool sr_dtype_is_real(sr_dtype dtype) {
    return dtype == SR_F64 || dtype == SR_F32 || dtype == SR_BF16;
}

/* Rounds towards zero and clamps to the range; NaN gives 0. */
static int32_t to_i32(double x) {
    if (!(x == x)) return 0;
    if (x >= 2147483647.0) return INT32_MAX;
    if (x <= -2147483648.0) return INT32_MIN;
    return (int32_t)x;
}

double sr_element_load(const void *data, sr_dtype dtype, int64_t i) {
    switch (dtype) {
    case SR_F64:
        return ((const double *)data)[i];
    case SR_F32:
        return ((const float *)data)[i];
    case SR_BF16:
        return sr_bf16_to_f32(((const sr_bf16 *)data)[i]);
    case SR_I32:
        return ((const int32_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

void sr_element_store(void *data, sr_dtype dtype, int64_t i, double x) {
    switch (dtype) {
    case SR_F64:
        ((double *)data)[i] = x;
        break;
    case SR_F32:
        ((float *)data)[i] = (float)x;
        break;
    case SR_BF16:
        ((sr_bf16 *)data)[i] = sr_bf16_from_f32((float)x);
        break;
    case SR_I32:
        ((int32_t *)data)[i] = to_i32(x);
        break;
    default:
        ((uint8_t *)data)[i] = x != 0;
    }
}

void sr_dtype_convert(void *to, sr_dtype to_type, const void *from, sr_dtype from_type,
                      int64_t count) {
    if (to_type == from_type) {
        memcpy(to, from, (size_t)count * sr_dtype_size(to_type));
        return;
    }
    for (int64_t i = 0; i < count; i++)
        sr_element_store(to, to_type, i, sr_element_load(from, from_type, i));
}
