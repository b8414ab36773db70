/* safetensors_read.c - elements of a file, converted to the caller's dtype. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "core/store/safetensors.h"

enum { CHUNK = 1 << 16 }; /* elements converted at a time */

static double half_to_f64(uint16_t h) {
    int exponent = h >> 10 & 31;
    double mantissa = h & 1023, value;
    if (exponent == 31)
        value = mantissa != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp(mantissa, -24);
    else
        value = ldexp(mantissa + 1024, exponent - 25);
    return h >> 15 ? -value : value;
}

#define EACH(type, from, expr)                                                                     \
    for (size_t i = 0; i < n; i++) {                                                               \
        type x;                                                                                    \
        memcpy(&x, (const char *)(from) + i * sizeof x, sizeof x);                                 \
        expr;                                                                                      \
    }

static bool is_integer(sr_st_dtype dtype) {
    return dtype == SR_ST_I64 || dtype == SR_ST_I32 || dtype == SR_ST_U8 || dtype == SR_ST_BOOL;
}

static bool is_real(sr_st_dtype dtype) {
    return dtype == SR_ST_F64 || dtype == SR_ST_F32 || dtype == SR_ST_F16 || dtype == SR_ST_BF16;
}

static void to_integers(int64_t *out, const void *raw, sr_st_dtype dtype, size_t n) {
    if (dtype == SR_ST_I64) EACH(int64_t, raw, out[i] = x)
    if (dtype == SR_ST_I32) EACH(int32_t, raw, out[i] = x)
    if (dtype == SR_ST_U8 || dtype == SR_ST_BOOL) EACH(uint8_t, raw, out[i] = x)
}

static void to_doubles(double *out, const void *raw, sr_st_dtype dtype, size_t n) {
    if (dtype == SR_ST_F64) EACH(double, raw, out[i] = x)
    if (dtype == SR_ST_F32) EACH(float, raw, out[i] = x)
    if (dtype == SR_ST_F16) EACH(uint16_t, raw, out[i] = half_to_f64(x))
    if (dtype == SR_ST_BF16) EACH(uint16_t, raw, out[i] = sr_bf16_to_f32(x))
}

static void from_doubles(void *host, const double *x, sr_dtype dtype, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (dtype == SR_F64) ((double *)host)[i] = x[i];
        if (dtype == SR_F32) ((float *)host)[i] = (float)x[i];
        if (dtype == SR_BF16) ((sr_bf16 *)host)[i] = sr_bf16_from_f32((float)x[i]);
    }
}

static sr_status from_integers(void *host, const int64_t *x, sr_dtype dtype, size_t n,
                               const char *path, const sr_st_entry *e) {
    int64_t least = dtype == SR_BOOL || e->dtype == SR_ST_BOOL ? 0 : INT32_MIN;
    int64_t most = dtype == SR_BOOL || e->dtype == SR_ST_BOOL ? 1 : INT32_MAX;
    for (size_t i = 0; i < n; i++) {
        if (x[i] < least || x[i] > most)
            return sr_fail(SR_EDATA,
                           "%s: tensor '%s' contains %" PRId64 ", which is outside %" PRId64
                           "..%" PRId64,
                           path, e->name, x[i], least, most);
        if (dtype == SR_I32)
            ((int32_t *)host)[i] = (int32_t)x[i];
        else
            ((uint8_t *)host)[i] = (uint8_t)x[i];
    }
    return SR_OK;
}

/* n elements of the file's type to the caller's; `wide` has room for n numbers of 8 bytes. */
static sr_status convert(void *host, sr_dtype dtype, const void *raw, const sr_st_entry *e,
                         size_t n, void *wide, const char *path) {
    if (is_real(e->dtype) && sr_dtype_is_real(dtype)) {
        to_doubles(wide, raw, e->dtype, n);
        from_doubles(host, wide, dtype, n);
        return SR_OK;
    }
    to_integers(wide, raw, e->dtype, n);
    if (!sr_dtype_is_real(dtype)) return from_integers(host, wide, dtype, n, path, e);
    int64_t *whole = wide;
    double *real = wide;
    for (size_t i = 0; i < n; i++) {
        int64_t x;
        memcpy(&x, &whole[i], sizeof x);
        real[i] = (double)x;
    }
    from_doubles(host, real, dtype, n);
    return SR_OK;
}

/* File and host have the same bytes; those of bools are checked. */
static bool is_same(sr_st_dtype from, sr_dtype to) {
    return to != SR_BOOL && from == sr_st_dtype_of(to);
}

static sr_status check_conversion(const sr_safetensors *st, const sr_st_entry *e, sr_dtype dtype) {
    bool fits = is_integer(e->dtype) || (is_real(e->dtype) && sr_dtype_is_real(dtype));
    if (fits) return SR_OK;
    return sr_fail(SR_EDATA, "%s: tensor '%s' has dtype %s, which cannot be converted to %s",
                   st->path, e->name, sr_st_dtype_name(e->dtype), sr_dtype_name(dtype));
}

/* The first `count` elements, converted. */
static sr_status read_elements(const sr_safetensors *st, const sr_st_entry *e, void *host,
                               sr_dtype dtype, uint64_t count) {
    uint64_t at = st->data_at + e->begin;
    if (is_same(e->dtype, dtype))
        return sr_file_pread(st->fd, host, (size_t)count * sr_dtype_size(dtype), at, st->path);
    size_t size = sr_st_dtype_size(e->dtype), room = count < CHUNK ? (size_t)count : CHUNK;
    if (room == 0) return SR_OK;
    char *scratch; /* values as in the file, then as 8-byte numbers */
    SR_TRY(sr_new(&scratch, room * 16));
    sr_status status = SR_OK;
    for (uint64_t done = 0; status == SR_OK && done < count;) {
        size_t n = count - done < room ? (size_t)(count - done) : room;
        status = sr_file_pread(st->fd, scratch, n * size, at + done * size, st->path);
        if (status == SR_OK)
            status = convert((char *)host + done * sr_dtype_size(dtype), dtype, scratch, e, n,
                             scratch + room * 8, st->path);
        done += n;
    }
    sr_free(scratch);
    return status;
}

sr_status sr_safetensors_read_tensor(const sr_safetensors *st, const sr_st_entry *e, sr_tensor *t,
                                     int64_t count) {
    SR_TRY(sr_tensor_check("read", t));
    SR_TRY(check_conversion(st, e, t->dtype));
    if (!sr_tensor_is_contiguous(t) || count < 0 || count > sr_tensor_elements(t) ||
        (uint64_t)count > e->count)
        return sr_fail(SR_EINVAL,
                       "%s: cannot read %" PRId64 " elements of tensor '%s', which has %" PRIu64
                       ", "
                       "into %" PRId64 "; the destination must be contiguous and large enough",
                       st->path, count, e->name, e->count, sr_tensor_elements(t));
    size_t bytes = (size_t)count * sr_dtype_size(t->dtype); /* less than t, which is in memory */
    void *host;
    SR_TRY(sr_alloc(&host, bytes, 1));
    sr_status status = read_elements(st, e, host, t->dtype, (uint64_t)count);
    if (status == SR_OK && bytes > 0) {
        sr_device *device = t->storage->device;
        t->storage->version++;
        status = sr_device_upload(device, sr_tensor_data(t), host, bytes);
    }
    sr_free(host);
    return status;
}
