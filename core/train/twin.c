#include "core/train/twin.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/mem.h"

/* A flat tensor of the state, and which elements of the store it holds. */
typedef struct part {
    sr_tensor *live; /* borrowed; NULL: there is none */
    int64_t first;   /* the element of the store that its first element is */
    sr_range held;   /* elements of the store that are state */
} part;

struct sr_twin {
    sr_optim *optim;                /* borrowed: outlives this */
    sr_tensor *copy[SR_HELD_KINDS]; /* of the held elements; NULL where there is no part */
    int64_t steps, skipped, in_a_row, averaged, serial;
};

static part part_of(const sr_optim *o, sr_held what) {
    sr_params *p = o->params;
    sr_range all = {0, p->stored};
    switch (what) {
    case SR_HELD_GRADIENT:
        return (part){p->grad, 0, all};
    case SR_HELD_WEIGHTS: /* masters of other ranks may be stale, and without memory */
        return (part){p->value, 0, p->partial ? o->range : all};
    case SR_HELD_COPIES:
        return (part){p->bf16, 0, all};
    case SR_HELD_FIRST:
        return (part){o->m, o->range.first, o->range};
    case SR_HELD_SECOND:
        return (part){o->v, o->range.first, o->range};
    case SR_HELD_AVERAGE:
        return (part){o->average, o->range.first, o->range};
    }
    return (part){NULL, 0, {0, 0}};
}

/* A view of elements [first, first + n) of a flat tensor. */
static sr_status view_of(sr_tensor **out, const sr_tensor *flat, int64_t first, int64_t n) {
    return sr_tensor_view(out, flat, 1, &n, &(int64_t){1}, first);
}

/* The bytes of elements [first, first + n) of a flat tensor: where they are, or copied to `room`.
 */
static sr_status bytes_of(const void **out, void *room, const sr_tensor *flat, int64_t first,
                          int64_t n) {
    size_t size = sr_dtype_size(flat->dtype);
    const char *from = (const char *)sr_tensor_data(flat) + (size_t)first * size;
    sr_device *device = flat->storage->device;
    *out = from;
    if (device->backend->host) return SR_OK;
    *out = room;
    return sr_device_download(device, room, from, (size_t)n * size);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- hashes ---------------------------------------------------------------------------------- */

static int64_t chunks_of(const sr_param *p) {
    return (p->stored + SR_CHUNK - 1) / SR_CHUNK;
}

int64_t sr_hash_before(const sr_params *params, int64_t param) {
    int64_t n = 0;
    for (int64_t i = 0; i < param; i++) n += chunks_of(&params->list[i]);
    return n;
}

int64_t sr_hash_count(const sr_params *params) {
    return sr_hash_before(params, params->count);
}

/* Hashes of the chunks of a parameter that lie in `range`. */
static sr_status hash_param(uint64_t *out, int64_t *count, const part *from, const sr_param *p,
                            sr_range range, bool state, void *room) {
    for (int64_t at = 0; at < p->stored; at += SR_CHUNK) {
        int64_t first = p->offset + at, n = smaller(p->stored - at, SR_CHUNK);
        if (first < range.first || first >= range.last) continue;
        const void *bytes;
        SR_TRY(bytes_of(&bytes, room, from->live, first - from->first, n));
        out[(*count)++] =
            state ? XXH3_64bits(bytes, (size_t)n * sr_dtype_size(from->live->dtype)) : 0;
    }
    return SR_OK;
}

sr_status sr_hash_state(uint64_t *out, int64_t *count, const sr_optim *o, sr_held what,
                        sr_range range) {
    const part from = part_of(o, what);
    *count = 0;
    if (from.live == NULL) return SR_OK;
    if (what == SR_HELD_GRADIENT) SR_TRY(sr_params_settle_grad(o->params, range));
    range.first = range.first > from.held.first ? range.first : from.held.first;
    range.last = smaller(range.last, from.held.last);
    SR_TRY(sr_device_wait(o->params->device));
    double *room;
    SR_TRY(sr_new(&room, SR_CHUNK));
    sr_status st = SR_OK;
    for (int64_t i = 0; i < o->params->count && st == SR_OK; i++) {
        bool state = what != SR_HELD_SECOND || o->segments[i].rows == 0;
        st = hash_param(out, count, &from, &o->params->list[i], range, state, room);
    }
    sr_free(room);
    return st;
}

/* ---- the twin -------------------------------------------------------------------------------- */

static sr_status make_copies(sr_twin *t) {
    for (int what = SR_HELD_WEIGHTS; what < SR_HELD_KINDS; what++) {
        part from = part_of(t->optim, (sr_held)what);
        int64_t n = from.held.last - from.held.first;
        if (from.live == NULL || n == 0) continue;
        SR_TRY(sr_params_store(&t->copy[what], t->optim->params->device, from.live->dtype, n));
    }
    return SR_OK;
}

sr_status sr_twin_new(sr_twin **out, sr_optim *optim) {
    *out = NULL;
    sr_twin *t;
    SR_TRY(sr_new(&t, 1));
    t->optim = optim;
    sr_status st = make_copies(t);
    return SR_GIVE(out, t, st, sr_twin_free);
}

void sr_twin_free(sr_twin *t) {
    if (t == NULL) return;
    for (int what = 0; what < SR_HELD_KINDS; what++) sr_tensor_release(t->copy[what]);
    sr_free(t);
}

/* Copies elements [at, at + n) of one flat tensor to those from `to_at` of another. */
static sr_status copy_block(sr_tensor *to, int64_t to_at, const sr_tensor *from, int64_t at,
                            int64_t n) {
    sr_device *device = to->storage->device;
    sr_tensor *a = NULL, *b = NULL;
    sr_tensor_wrote(to);
    sr_status st = view_of(&a, to, to_at, n);
    if (st == SR_OK) st = view_of(&b, from, at, n);
    if (st == SR_OK) st = device->backend->copy(a, b);
    sr_tensor_release(a);
    sr_tensor_release(b);
    return st;
}

sr_status sr_twin_take(sr_twin *t) {
    const sr_optim *o = t->optim;
    for (int what = 0; what < SR_HELD_KINDS; what++) {
        part from = part_of(o, (sr_held)what);
        int64_t n = from.held.last - from.held.first;
        if (t->copy[what] == NULL) continue;
        SR_TRY(copy_block(t->copy[what], 0, from.live, from.held.first - from.first, n));
    }
    t->steps = o->steps;
    t->skipped = o->skipped;
    t->in_a_row = o->in_a_row;
    t->averaged = o->averaged;
    t->serial = o->serial;
    return sr_device_wait(o->params->device);
}

/* Exchanges a part with its copy, by way of `room`. */
static sr_status swap_part(const part *p, sr_tensor *copy, sr_tensor *room) {
    int64_t size = sr_tensor_elements(room), n = p->held.last - p->held.first;
    int64_t from = p->held.first - p->first;
    for (int64_t at = 0; at < n; at += size) {
        int64_t block = smaller(n - at, size);
        SR_TRY(copy_block(room, 0, copy, at, block));
        SR_TRY(copy_block(copy, at, p->live, from + at, block));
        SR_TRY(copy_block(p->live, from + at, room, 0, block));
    }
    return SR_OK;
}

/* The device has the count of steps too. */
static sr_status swap_counts(sr_twin *t) {
    sr_optim *o = t->optim;
    const sr_twin live = {.steps = o->steps,
                          .skipped = o->skipped,
                          .in_a_row = o->in_a_row,
                          .averaged = o->averaged,
                          .serial = o->serial};
    o->serial = t->serial;
    SR_TRY(sr_optim_set_counts(o, t->steps, t->skipped, t->in_a_row, t->averaged));
    t->steps = live.steps;
    t->skipped = live.skipped;
    t->in_a_row = live.in_a_row;
    t->averaged = live.averaged;
    t->serial = live.serial;
    return SR_OK;
}

enum { ROOM = 1 << 18 }; /* elements: stay in the cache */

sr_status sr_twin_swap(sr_twin *t) {
    sr_optim *o = t->optim;
    sr_status st = SR_OK;
    for (int what = 0; what < SR_HELD_KINDS && st == SR_OK; what++) {
        if (t->copy[what] == NULL) continue;
        part p = part_of(o, (sr_held)what);
        sr_tensor *room = NULL;
        st = sr_params_store(&room, o->params->device, p.live->dtype, ROOM);
        if (st == SR_OK) st = swap_part(&p, t->copy[what], room);
        sr_tensor_release(room);
    }
    SR_TRY(st);
    SR_TRY(swap_counts(t));
    SR_TRY(sr_params_after_step(o->params));
    return sr_device_wait(o->params->device);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* The parameter with this element of the store; padding after it belongs to it. */
static int64_t param_at(const sr_params *params, int64_t element) {
    int64_t i = params->count - 1;
    while (i > 0 && params->list[i].offset > element) i--;
    return i;
}

static void note_difference(sr_twin_difference *d, const sr_twin *t, sr_held what,
                            int64_t element) {
    const sr_params *params = t->optim->params;
    int64_t i = param_at(params, element);
    if (what == SR_HELD_SECOND && t->optim->segments[i].rows > 0) return;
    if (d->elements++ > 0) return;
    d->what = what;
    d->param = i;
    d->element = element - params->list[i].offset;
}

static sr_status compare_part(sr_twin_difference *d, sr_twin *t, sr_held what, void *room) {
    part p = part_of(t->optim, what);
    size_t size = sr_dtype_size(p.live->dtype);
    int64_t n = p.held.last - p.held.first;
    for (int64_t at = 0; at < n; at += SR_CHUNK) {
        int64_t block = smaller(n - at, SR_CHUNK);
        const void *a, *b;
        SR_TRY(bytes_of(&a, room, p.live, p.held.first - p.first + at, block));
        SR_TRY(bytes_of(&b, (double *)room + SR_CHUNK, t->copy[what], at, block));
        if (memcmp(a, b, (size_t)block * size) == 0) continue;
        for (int64_t i = 0; i < block; i++)
            if (memcmp((const char *)a + (size_t)i * size, (const char *)b + (size_t)i * size,
                       size) != 0)
                note_difference(d, t, what, p.held.first + at + i);
    }
    return SR_OK;
}

sr_status sr_twin_compare(sr_twin_difference *out, sr_twin *t) {
    *out = (sr_twin_difference){SR_HELD_GRADIENT, -1, 0, 0};
    SR_TRY(sr_device_wait(t->optim->params->device));
    double *room;
    SR_TRY(sr_new(&room, 2 * SR_CHUNK));
    sr_status st = SR_OK;
    for (int what = 0; what < SR_HELD_KINDS && st == SR_OK; what++)
        if (t->copy[what] != NULL) st = compare_part(out, t, (sr_held)what, room);
    sr_free(room);
    return st;
}
