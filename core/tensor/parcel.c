#include "core/tensor/parcel.h"

#include "core/base/mem.h"
#include "core/tensor/device.h"

enum { ALIGN = 64 };

int sr_parcel_add(sr_parcel *parcel, const void *host, sr_dtype dtype, sr_dtype stored,
                  int64_t count) {
    size_t bytes = (size_t)count * sr_dtype_size(stored);
    parcel->piece[parcel->count] = (sr_parcel_item){
        .host = host, .dtype = dtype, .stored = stored, .count = count, .at = parcel->bytes};
    parcel->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return parcel->count++;
}

/* The device's staging memory, at least `bytes`. */
static sr_status reserve(void **out, sr_device *device, size_t bytes) {
    if (device->staging_bytes < bytes) {
        void *grown;
        SR_TRY(sr_alloc_aligned(&grown, bytes));
        sr_free_aligned(device->staging);
        device->staging = grown;
        device->staging_bytes = bytes;
    }
    *out = device->staging;
    return SR_OK;
}

sr_status sr_parcel_send(sr_tensor **block, sr_scope *scope, const sr_parcel *parcel) {
    void *staging;
    sr_device *device = scope->device;
    int64_t words = (int64_t)(parcel->bytes / sizeof(int32_t));
    *block = NULL;
    SR_TRY(reserve(&staging, device, parcel->bytes));
    for (int i = 0; i < parcel->count; i++) {
        const sr_parcel_item *p = &parcel->piece[i];
        if (p->count > 0)
            sr_dtype_convert((char *)staging + p->at, p->stored, p->host, p->dtype, p->count);
    }
    SR_TRY(sr_tensor_new_in(block, scope, SR_I32, 1, &words));
    if (words == 0) return SR_OK;
    sr_status st = sr_device_upload(device, sr_tensor_data(*block), staging, parcel->bytes);
    if (st != SR_OK) {
        sr_tensor_release(*block);
        *block = NULL;
    }
    return st;
}

sr_status sr_parcel_view(sr_tensor **out, const sr_tensor *block, const sr_parcel_item *piece,
                         int columns) {
    int64_t n = columns > 1 ? piece->count / columns : piece->count;
    int64_t shape[] = {n, columns}, stride[] = {columns > 1 ? columns : 1, 1};
    sr_tensor as = *block; /* the same bytes as elements of the piece's dtype */
    as.dtype = piece->stored;
    int64_t first = (int64_t)(piece->at / sr_dtype_size(piece->stored));
    return sr_tensor_view(out, &as, columns > 1 ? 2 : 1, shape, stride, first);
}
