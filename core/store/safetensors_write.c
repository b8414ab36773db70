/* safetensors_write.c - named arrays to bytes that depend on nothing else. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "core/store/safetensors.h"

enum { PIECE = 1 << 20 };

/* ---- the header ------------------------------------------------------------------------------ */

typedef struct text {
    char *bytes;
    size_t size, room;
} text;

static sr_status put(text *t, const char *bytes, size_t size) {
    if (t->size + size > t->room) {
        size_t room = (t->size + size) * 2 + 256;
        SR_TRY(sr_grow(&t->bytes, room));
        t->room = room;
    }
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    return SR_OK;
}

static sr_status put_text(text *t, const char *s) {
    return put(t, s, strlen(s));
}

static sr_status put_number(text *t, uint64_t n) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, n);
    return put_text(t, digits);
}

/* A JSON string, escaped as little as the format allows. */
static sr_status put_string(text *t, const char *s) {
    SR_TRY(put_text(t, "\""));
    for (; *s != '\0'; s++) {
        char escape[8] = {'\\', *s, '\0'};
        if ((unsigned char)*s < 0x20) snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*s);
        bool plain = (unsigned char)*s >= 0x20 && *s != '"' && *s != '\\';
        SR_TRY(plain ? put(t, s, 1) : put_text(t, escape));
    }
    return put_text(t, "\"");
}

static sr_st_dtype item_dtype(const sr_st_item *item) {
    return item->tensor != NULL ? sr_st_dtype_of(item->tensor->dtype) : item->dtype;
}

static int item_ndim(const sr_st_item *item) {
    return item->tensor != NULL ? item->tensor->ndim : item->ndim;
}

static const int64_t *item_shape(const sr_st_item *item) {
    return item->tensor != NULL ? item->tensor->shape : item->shape;
}

/* Bytes of one item; the sizes have been checked. */
static uint64_t item_bytes(const sr_st_item *item) {
    uint64_t n = sr_st_dtype_size(item_dtype(item));
    for (int i = 0; i < item_ndim(item); i++) n *= (uint64_t)item_shape(item)[i];
    return n;
}

static sr_status put_entry(text *t, const sr_st_item *item, uint64_t begin) {
    SR_TRY(put_string(t, item->name));
    SR_TRY(put_text(t, ":{\"dtype\":\""));
    SR_TRY(put_text(t, sr_st_dtype_name(item_dtype(item))));
    SR_TRY(put_text(t, "\",\"shape\":["));
    for (int i = 0; i < item_ndim(item); i++) {
        if (i > 0) SR_TRY(put_text(t, ","));
        SR_TRY(put_number(t, (uint64_t)item_shape(item)[i]));
    }
    SR_TRY(put_text(t, "],\"data_offsets\":["));
    SR_TRY(put_number(t, begin));
    SR_TRY(put_text(t, ","));
    SR_TRY(put_number(t, begin + item_bytes(item)));
    return put_text(t, "]}");
}

static sr_status put_metadata(text *t, const sr_st_pair *pairs, int64_t count) {
    SR_TRY(put_text(t, "\"__metadata__\":{"));
    for (int64_t i = 0; i < count; i++) {
        if (i > 0) SR_TRY(put_text(t, ","));
        SR_TRY(put_string(t, pairs[i].key));
        SR_TRY(put_text(t, ":"));
        SR_TRY(put_string(t, pairs[i].value));
    }
    return put_text(t, "}");
}

/* The length, the JSON and spaces up to a multiple of 8. */
static sr_status put_header(text *t, sr_st_plan *plan, const sr_st_pair *metadata, int64_t pairs) {
    uint64_t at = 0;
    SR_TRY(put(t, "\0\0\0\0\0\0\0\0", 8));
    SR_TRY(put_text(t, "{"));
    if (pairs > 0) SR_TRY(put_metadata(t, metadata, pairs));
    for (int64_t i = 0; i < plan->count; i++) {
        const sr_st_item *item = &plan->items[plan->order[i]];
        if (i > 0 || pairs > 0) SR_TRY(put_text(t, ","));
        SR_TRY(put_entry(t, item, at));
        at += item_bytes(item);
    }
    SR_TRY(put_text(t, "}"));
    while (t->size % 8 != 0) SR_TRY(put_text(t, " "));
    uint64_t length = t->size - 8;
    memcpy(t->bytes, &length, sizeof length); /* little-endian hosts only */
    plan->total_bytes = t->size + at;
    return SR_OK;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static sr_status check_item(const sr_st_item *item) {
    if (item->name == NULL || item->name[0] == '\0' || strlen(item->name) > SR_ST_MAX_NAME)
        return sr_fail(SR_EINVAL, "safetensors: a name is empty or longer than %d bytes",
                       SR_ST_MAX_NAME);
    if (item->tensor != NULL) {
        SR_TRY(sr_tensor_check("safetensors", item->tensor));
        if (!sr_tensor_is_contiguous(item->tensor))
            return sr_fail(SR_EINVAL, "safetensors: '%s' is not contiguous; use :contiguous()",
                           item->name);
    }
    uint64_t n = sr_st_dtype_size(item_dtype(item));
    for (int i = 0; i < item_ndim(item); i++)
        if (item_shape(item)[i] < 0 ||
            __builtin_mul_overflow(n, (uint64_t)item_shape(item)[i], &n) || n > INT64_MAX / 4)
            return sr_fail(SR_EINVAL, "safetensors: '%s' has an invalid shape", item->name);
    return SR_OK;
}

/* Wider types first, then names: every tensor starts aligned. */
static int by_file_order(const void *a, const void *b, void *items) {
    const sr_st_item *x = (const sr_st_item *)items + *(const int64_t *)a;
    const sr_st_item *y = (const sr_st_item *)items + *(const int64_t *)b;
    if (item_dtype(x) != item_dtype(y)) return item_dtype(x) > item_dtype(y) ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_item_name(const void *a, const void *b, void *items) {
    return strcmp(((const sr_st_item *)items)[*(const int64_t *)a].name,
                  ((const sr_st_item *)items)[*(const int64_t *)b].name);
}

static sr_status sort_items(sr_st_plan *plan) {
    size_t n = (size_t)plan->count;
    SR_TRY(sr_new(&plan->order, n));
    for (int64_t i = 0; i < plan->count; i++) plan->order[i] = i;
    if (n < 2) return SR_OK;
    qsort_r(plan->order, n, sizeof *plan->order, by_item_name, (void *)plan->items);
    for (size_t i = 1; i < n; i++)
        if (by_item_name(&plan->order[i - 1], &plan->order[i], (void *)plan->items) == 0)
            return sr_fail(SR_EINVAL, "safetensors: duplicate name '%s'",
                           plan->items[plan->order[i]].name);
    qsort_r(plan->order, n, sizeof *plan->order, by_file_order, (void *)plan->items);
    return SR_OK;
}

static sr_status build(sr_st_plan *plan, const sr_st_pair *metadata, int64_t pairs) {
    text header = {0};
    for (int64_t i = 0; i < plan->count; i++) SR_TRY(check_item(&plan->items[i]));
    SR_TRY(sort_items(plan));
    sr_status st = put_header(&header, plan, metadata, pairs);
    plan->header = header.bytes;
    plan->header_bytes = header.size;
    return st;
}

sr_status sr_st_plan_new(sr_st_plan **out, const sr_st_item *items, int64_t count,
                         const sr_st_pair *metadata, int64_t metadata_count) {
    *out = NULL;
    sr_st_plan *plan;
    SR_TRY(sr_new(&plan, 1));
    plan->items = items;
    plan->count = count;
    sr_status st = build(plan, metadata, metadata_count);
    return SR_GIVE(out, plan, st, sr_st_plan_free);
}

void sr_st_plan_free(sr_st_plan *plan) {
    if (plan == NULL) return;
    sr_free(plan->header);
    sr_free(plan->order);
    sr_free(plan);
}

/* ---- the bytes ------------------------------------------------------------------------------- */

static sr_status write_item(const sr_st_item *item, void *piece, sr_st_sink sink, void *context) {
    uint64_t bytes = item_bytes(item);
    for (uint64_t at = 0; at < bytes;) {
        size_t n = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        const void *from = (const char *)item->data + at;
        if (item->tensor != NULL) {
            sr_device *device = item->tensor->storage->device;
            SR_TRY(sr_device_download(device, piece, (char *)sr_tensor_data(item->tensor) + at, n));
            from = piece;
        }
        SR_TRY(sink(context, from, n));
        at += n;
    }
    return SR_OK;
}

sr_status sr_st_plan_write(const sr_st_plan *plan, sr_st_sink sink, void *context) {
    void *piece;
    SR_TRY(sr_alloc(&piece, PIECE, 1));
    sr_status st = SR_OK;
    for (size_t at = 0; st == SR_OK && at < plan->header_bytes; at += PIECE) {
        size_t left = plan->header_bytes - at;
        st = sink(context, plan->header + at, left < PIECE ? left : PIECE);
    }
    for (int64_t i = 0; st == SR_OK && i < plan->count; i++)
        st = write_item(&plan->items[plan->order[i]], piece, sink, context);
    sr_free(piece);
    return st;
}
