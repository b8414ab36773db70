#include "core/tensor/rotary.h"

#include <math.h>

#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "core/tensor/scope.h"

enum { FEWEST_ROWS = 128 };

struct sr_rotary {
    struct sr_rotary *next;
    double theta;
    int64_t size;
    sr_tensor *table;
};

/* Rows of cosines, then sines, as elements of `dtype`. */
static void fill_rows(void *at, sr_dtype dtype, const float *frequency, int64_t rows,
                      int64_t half) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < half; j++) {
            float angle = (float)r * frequency[j];
            sr_element_store(at, dtype, 2 * half * r + j, (float)cos((double)angle));
            sr_element_store(at, dtype, 2 * half * r + half + j, (float)sin((double)angle));
        }
    }
}

static sr_status fill(sr_tensor *table, double theta) {
    int64_t rows = table->shape[0], size = table->shape[1], half = size / 2;
    size_t bytes = (size_t)(rows * size) * sr_dtype_size(table->dtype); /* it is allocated */
    float *frequency = NULL;
    char *host = NULL;
    SR_TRY(sr_new(&frequency, half));
    sr_status st = sr_new(&host, bytes);
    if (st == SR_OK) {
        for (int64_t j = 0; j < half; j++) {
            float exponent = (float)(2 * j) / (float)size;
            frequency[j] = 1.0f / (float)pow((double)(float)theta, (double)exponent);
        }
        fill_rows(host, table->dtype, frequency, rows, half);
        st = sr_device_upload(table->storage->device, sr_tensor_data(table), host, bytes);
    }
    sr_free(host);
    sr_free(frequency);
    return st;
}

/* A table that no scope owns. */
static sr_status make(sr_tensor **out, sr_device *device, double theta, int64_t size,
                      int64_t rows) {
    int64_t whole = FEWEST_ROWS;
    while (whole < rows) whole *= 2;
    sr_tensor *table = NULL;
    SR_TRY(sr_tensor_new(&table, device, device->real, 2, (int64_t[]){whole, size}));
    sr_storage_move(table->storage, device->outside);
    sr_status st = fill(table, theta);
    return SR_GIVE(out, table, st, sr_tensor_release);
}

/* The entry of theta and size; made on first use. */
static sr_status find(struct sr_rotary **out, sr_device *device, double theta, int64_t size) {
    struct sr_rotary *r = device->rotary;
    while (r != NULL && (r->theta != theta || r->size != size)) r = r->next;
    if (r == NULL) {
        SR_TRY(sr_new(&r, 1));
        *r = (struct sr_rotary){.next = device->rotary, .theta = theta, .size = size};
        device->rotary = r;
    }
    *out = r;
    return SR_OK;
}

sr_status sr_rotary_table(sr_tensor **out, sr_device *device, double theta, int64_t size,
                          int64_t rows) {
    struct sr_rotary *r;
    SR_TRY(find(&r, device, theta, size));
    if (r->table == NULL || r->table->shape[0] < rows) {
        sr_tensor *table;
        SR_TRY(make(&table, device, theta, size, rows));
        sr_tensor_release(r->table);
        r->table = table;
    }
    const sr_tensor *t = r->table;
    return sr_tensor_view(out, t, 2, (int64_t[]){rows, size}, t->stride, t->offset);
}

void sr_rotary_drop_all(sr_device *device) {
    while (device->rotary != NULL) {
        struct sr_rotary *r = device->rotary;
        device->rotary = r->next;
        sr_tensor_release(r->table);
        sr_free(r);
    }
}
