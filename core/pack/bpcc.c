/* bpcc.c - bin packing with cardinality constraints by equal shares.
 *
 * One pack after another: the longest remaining sequence, then for every further slot the longest
 * remaining sequence that fits an equal share of the space that is left.  The number of slots is
 * the limit, or what the remaining sequences need on average if that is fewer.  Equal packs are
 * made at once, so the cost does not depend on the number of sequences.
 */
#include "core/base/mem.h"
#include "core/pack/build.h"
#include "core/pack/solvers.h"
#include "core/pack/stock.h"

/* The slots of the next pack. */
static int32_t choose_slots(const sr_stock *s, int32_t max_seqs) {
    int64_t packs = s->tokens / s->capacity + (s->tokens % s->capacity != 0);
    int64_t slots = s->sequences / packs + (s->sequences % packs != 0);
    return slots < max_seqs ? (int32_t)slots : max_seqs;
}

/* Fills one pack from the stock; returns its number of sequences. */
static size_t fill_pack(sr_stock *s, int32_t max_seqs, sr_plan_part *parts) {
    int32_t space = s->capacity, slots = choose_slots(s, max_seqs);
    size_t n = 0;
    while (n < (size_t)max_seqs && space > 0) {
        int32_t left = slots - (int32_t)n;
        int32_t share = n == 0 || left < 1 ? space : space / left;
        int32_t l = sr_stock_below(s, share);
        if (l == 0) l = sr_stock_above(s, 1);
        if (l == 0 || l > space) break;
        sr_stock_take(s, l, 1);
        parts[n++] = (sr_plan_part){(uint16_t)l, 1};
        space -= l;
    }
    return n;
}

sr_status sr_solve_bpcc(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts) {
    sr_builder b;
    sr_stock s = {0};
    sr_plan_part *parts = NULL;
    int32_t max_seqs = opts->max_seqs > 0 ? opts->max_seqs : h->capacity;
    SR_TRY(sr_build_begin(&b, h, opts->max_seqs, "bpcc"));
    sr_status st;
    SR_GO(done, st, sr_new(&parts, h->capacity));
    SR_GO(done, st, sr_stock_new(&s, h->count, h->capacity));
    while (s.sequences > 0 && st == SR_OK) {
        size_t n = fill_pack(&s, max_seqs, parts);
        int64_t packs = 1 + sr_stock_repeat(&s, parts, &n, INT64_MAX);
        st = sr_build_add(&b, packs, parts, n);
    }
done:
    sr_stock_free(&s);
    sr_free(parts);
    if (st == SR_OK) return sr_build_end(out, &b);
    sr_build_drop(&b);
    return st;
}
