#include "core/batch/size.h"

#include "core/base/system.h"

/* A row: ids, types, owner, position, and 16 bytes of each target on a sixth of them.  A sequence:
 * five numbers of the layout, its targets, and its place in the order and among the packs. */
static const double ROW_BYTES = 20, SEQUENCE_BYTES = 150;

/* Rows of one batch; see sr_batch_make(). */
static const double MOST_ROWS = (double)(INT32_MAX / 8);

static const double GIB = 1024.0 * 1024 * 1024;

typedef struct size {
    double sequences, packs, rows; /* of an update */
} size;

static size size_of(const sr_feed *f, const sr_epoch *e, double packs) {
    const sr_loader_opts *o = &f->opts;
    double factor = sr_plan_factor(e->plan), all = (double)e->count * (double)o->epochs;
    size s = {.sequences = o->by == SR_BY_PACKS ? packs * factor : (double)o->sequences};
    if (o->epochs > 0 && s.sequences > all) s.sequences = all;
    s.packs = s.sequences / factor;
    s.rows = (o->arrange == SR_PADDED ? s.sequences : s.packs) * o->examples.max_len;
    return s;
}

static sr_status check_batch(const sr_loader_opts *o, const size *s) {
    double most = o->arrange == SR_PADDED ? s->sequences : s->packs;
    double packs = o->micro > 0 && (double)o->micro < most ? (double)o->micro : most;
    double rows = packs * o->examples.max_len;
    if (o->arrange == SR_SINGLE || rows <= MOST_ROWS) return SR_OK;
    return sr_fail(SR_ENOMEM,
                   "loader: a micro-batch of %.0f %s of %d tokens has %.3g rows, more than %.3g; "
                   "lower micro_packs (batch.micro_packs)",
                   packs, o->arrange == SR_PADDED ? "rows" : "packs", o->examples.max_len, rows,
                   MOST_ROWS);
}

sr_status sr_feed_check_size(const sr_feed *f, const sr_epoch *e, double packs) {
    const sr_loader_opts *o = &f->opts;
    if (o->by == SR_BY_ORDER) return SR_OK;
    size s = size_of(f, e, packs);
    double one = s.rows * ROW_BYTES + s.sequences * SEQUENCE_BYTES;
    int kept = (o->threads > 0 ? o->prefetch : 0) + 1; /* and the one that is trained on */
    double memory = (double)sr_memory_total();
    if (memory > 0 && one * kept > memory)
        return sr_fail(SR_ENOMEM,
                       "loader: an update of %.0f sequences needs about %.1f GiB (%.1f GiB with "
                       "prefetch %d), but this machine has %.1f GiB; lower sequences "
                       "(batch.sequences)%s",
                       s.sequences, one / GIB, one * kept / GIB, o->prefetch, memory / GIB,
                       one < memory ? " or prefetch (data.prefetch)" : "");
    return check_batch(o, &s);
}
