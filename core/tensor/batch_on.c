#include "core/tensor/batch_on.h"

#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "core/tensor/layout_on.h"

enum { OF_BATCH = 4, OF_TARGET = 4 }; /* pieces at most */

static void pack_target(sr_parcel *p, const sr_target *t, sr_dtype real) {
    int64_t rows = t->count * sr_rows_each(t->reads);
    bool whole = t->type == SR_LABEL_I32;
    sr_parcel_add(p, t->rows, SR_I32, SR_I32, rows);
    sr_parcel_add(p, t->places, SR_I32, SR_I32, rows);
    sr_parcel_add(p, t->labels, whole ? SR_I32 : SR_F32, whole ? SR_I32 : real,
                  t->count * t->columns);
    sr_parcel_add(p, t->weights, SR_F32, real, t->count);
}

/* The pieces in the order in which unpack() takes them. */
static void pack(sr_parcel *p, const sr_batch *b, const sr_device *device) {
    sr_parcel_add(p, b->ids, SR_I32, SR_I32, b->slots);
    sr_parcel_add(p, b->types, SR_I32, SR_I32, b->slots);
    if (b->original_ids != NULL) sr_parcel_add(p, b->original_ids, SR_I32, SR_I32, b->slots);
    if (b->last != NULL) sr_parcel_add(p, b->last_rows, SR_I32, SR_I32, b->last->rows);
    for (int k = 0; k < b->targets; k++) pack_target(p, &b->target[k], device->real);
    if (device->backend->host) return;
    sr_layout_add_pieces(p, b->layout);
    if (b->last != NULL) sr_layout_add_pieces(p, b->last);
}

static sr_status unpack_target(sr_target_on *on, const sr_tensor *block,
                               const sr_parcel_item *piece, const sr_target *t) {
    int each = sr_rows_each(t->reads);
    SR_TRY(sr_parcel_view(&on->rows, block, &piece[0], each));
    SR_TRY(sr_parcel_view(&on->places, block, &piece[1], each));
    SR_TRY(sr_parcel_view(&on->labels, block, &piece[2], t->columns));
    return sr_parcel_view(&on->weights, block, &piece[3], 1);
}

static sr_status unpack(sr_batch_on *on, const sr_parcel *p, const sr_batch *b) {
    const sr_parcel_item *piece = p->piece;
    sr_layout_on *unused;
    SR_TRY(sr_parcel_view(&on->ids, on->block, piece++, 1));
    SR_TRY(sr_parcel_view(&on->types, on->block, piece++, 1));
    if (b->original_ids != NULL) SR_TRY(sr_parcel_view(&on->original_ids, on->block, piece++, 1));
    if (b->last != NULL) SR_TRY(sr_parcel_view(&on->last_rows, on->block, piece++, 1));
    for (int k = 0; k < b->targets; k++, piece += OF_TARGET)
        SR_TRY(unpack_target(&on->target[k], on->block, piece, &b->target[k]));
    int first = (int)(piece - p->piece);
    if (first == p->count) return SR_OK;
    SR_TRY(sr_layout_hang(&unused, b->layout, on->block, p, first));
    if (b->last == NULL) return SR_OK;
    return sr_layout_hang(&unused, b->last, on->block, p, first + SR_LAYOUT_PIECES);
}

static sr_status send(sr_batch_on *on, sr_device *device, const sr_batch *b) {
    sr_parcel parcel = {0};
    SR_TRY(sr_new(&on->target, b->targets));
    on->targets = b->targets;
    SR_TRY(sr_new(&parcel.piece, OF_BATCH + OF_TARGET * b->targets + 2 * SR_LAYOUT_PIECES));
    pack(&parcel, b, device);
    sr_status st = sr_parcel_send(&on->block, device->scope, &parcel);
    if (st == SR_OK) st = unpack(on, &parcel, b);
    sr_free(parcel.piece);
    return st;
}

sr_status sr_batch_upload(sr_batch_on **out, sr_device *device, const sr_batch *batch) {
    sr_batch_on *on;
    *out = NULL;
    SR_TRY(sr_new(&on, 1));
    sr_status st = send(on, device, batch);
    return SR_GIVE(out, on, st, sr_batch_on_free);
}

void sr_batch_on_free(sr_batch_on *on) {
    if (on == NULL) return;
    for (int k = 0; k < on->targets; k++) {
        sr_tensor_release(on->target[k].rows);
        sr_tensor_release(on->target[k].places);
        sr_tensor_release(on->target[k].labels);
        sr_tensor_release(on->target[k].weights);
    }
    sr_tensor_release(on->ids);
    sr_tensor_release(on->types);
    sr_tensor_release(on->original_ids);
    sr_tensor_release(on->last_rows);
    sr_tensor_release(on->block);
    sr_free(on->target);
    sr_free(on);
}
