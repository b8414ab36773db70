#include "core/loader/order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

/* Arrays have room for the least power of two that holds what is in them. */
static int64_t room_for(int64_t count) {
    int64_t room = 1;
    while (room < count) room *= 2;
    return room;
}

#define MAKE_ROOM(array, count, more)                                                              \
    ((count) > 0 && room_for(count) >= (count) + (more)                                            \
         ? SR_OK                                                                                   \
         : sr_grow(&(array), room_for((count) + (more))))

sr_status sr_order_add(sr_order *o, const sr_pick *pick, int64_t n) {
    SR_TRY(MAKE_ROOM(o->pick, o->sequences, n));
    SR_TRY(MAKE_ROOM(o->group_end, o->groups, 1));
    if (n > 0) memcpy(o->pick + o->sequences, pick, (size_t)n * sizeof *pick);
    o->sequences += n;
    o->group_end[o->groups++] = o->sequences;
    return SR_OK;
}

sr_status sr_order_rows(sr_order *o, int64_t rows) {
    SR_TRY(MAKE_ROOM(o->rows, o->groups - 1, 1));
    o->rows[o->groups - 1] = rows;
    return SR_OK;
}

sr_status sr_order_keep(sr_order *o, sr_epoch *e) {
    SR_TRY(MAKE_ROOM(o->epoch, o->epochs, 1));
    o->epoch[o->epochs++] = sr_epoch_retain(e);
    return SR_OK;
}

void sr_order_count(const sr_order *o, sr_counters *drawn) {
    drawn->updates++;
    drawn->sequences += o->sequences;
    for (int64_t i = 0; i < o->sequences; i++) {
        const sr_pick *p = &o->pick[i];
        drawn->raw_tokens += sr_example_length(&p->examples->example[p->uid]);
        drawn->real_tokens += sr_pick_length(p);
    }
}

/* ---- orders of given uids ---- */

static int ascending(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static sr_status check_unique(const sr_given *g) {
    uint32_t *uid, again = 0;
    bool found = false;
    SR_TRY(sr_new(&uid, g->sequences));
    memcpy(uid, g->uid, (size_t)g->sequences * sizeof *uid);
    qsort(uid, (size_t)g->sequences, sizeof *uid, ascending);
    for (int64_t i = 1; i < g->sequences && !found; i++) {
        again = uid[i];
        found = again == uid[i - 1];
    }
    sr_free(uid);
    if (!found) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "order: duplicate uid %" PRIu32
                   " in one update; both would get the same masks and "
                   "dropout",
                   again);
}

sr_status sr_order_check(const sr_examples *x, const uint32_t *uid, int64_t n, int32_t max_len) {
    for (int64_t i = 0; i < n; i++)
        if (uid[i] >= x->count)
            return sr_fail(SR_EINVAL,
                           "order: uid %" PRIu32 " is out of range; there are %" PRId64
                           " examples, from 0",
                           uid[i], x->count);
    if (max_len != 0 && (max_len < x->least || max_len > x->opts.max_len))
        return sr_fail(SR_EINVAL, "order: max_len is %d; must be %d..%d", max_len, x->least,
                       x->opts.max_len);
    return SR_OK;
}

static sr_status check_given(const sr_given *g, const sr_examples *x) {
    if (g->sequences < 1 || g->groups < 1)
        return sr_fail(SR_EINVAL, "order: an update needs at least one sequence");
    for (int64_t k = 0; k < g->groups; k++)
        if (g->group_end[k] <= (k == 0 ? 0 : g->group_end[k - 1]))
            return sr_fail(SR_EINVAL, "order: group %" PRId64 " is empty", k + 1);
    SR_TRY(sr_order_check(x, g->uid, g->sequences, g->max_len));
    return check_unique(g);
}

static sr_status add_given(sr_order *o, sr_epoch *e, const sr_given *g) {
    sr_pick *pick;
    uint32_t update = (uint32_t)o->begin.drawn.updates;
    SR_TRY(sr_order_keep(o, e));
    SR_TRY(sr_new(&pick, g->sequences));
    for (int64_t i = 0; i < g->sequences; i++)
        pick[i] = (sr_pick){
            .examples = e->examples, .uid = g->uid[i], .epoch = update, .limit = g->max_len};
    sr_status st = SR_OK;
    for (int64_t k = 0, from = 0; st == SR_OK && k < g->groups; from = g->group_end[k++])
        st = sr_order_add(o, pick + from, g->group_end[k] - from);
    sr_free(pick);
    return st;
}

sr_status sr_order_given(sr_order *out, sr_epoch *e, const sr_given *g, const sr_cursor *begin) {
    *out = (sr_order){.begin = *begin, .end = *begin};
    SR_TRY(check_given(g, e->examples));
    sr_status st = add_given(out, e, g);
    if (st != SR_OK) {
        sr_order_free(out);
        return st;
    }
    sr_order_count(out, &out->end.drawn);
    return SR_OK;
}

void sr_order_free(sr_order *o) {
    for (int64_t i = 0; i < o->epochs; i++) sr_epoch_release(o->epoch[i]);
    sr_free(o->epoch);
    sr_free(o->rows);
    sr_free(o->group_end);
    sr_free(o->pick);
    *o = (sr_order){0};
}
