#include "core/batch/token_drop.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/rng.h"

/* The draw of each position that is not forced, ties broken by position; returns how many. */
static int32_t draw(uint64_t *keys, const uint8_t *keep, const sr_layout *l, int32_t s,
                    uint32_t layer) {
    int32_t n = 0;
    sr_u32x4 words = {{0}};
    for (int32_t i = 0; i < l->len[s]; i++) {
        if (i % 4 == 0) {
            uint32_t call = (uint32_t)i / 4;
            sr_u32x4 c = sr_counter(call, call >> 16, l->uid[s], SR_PURPOSE_TOKEN_DROP, layer, 0,
                                    l->epoch[s]);
            words = sr_philox(c, l->seed, SR_ROUNDS_DATA);
        }
        if (keep[i] == 0) keys[n++] = (uint64_t)words.w[i % 4] << 32 | (uint32_t)i;
    }
    return n;
}

/* Moves the k lowest of n distinct keys to the front. */
static void select_lowest(uint64_t *key, int32_t n, int32_t k) {
    int32_t from = 0, upto = n - 1;
    while (from < upto) {
        uint64_t pivot = key[from + (upto - from) / 2];
        int32_t i = from, j = upto;
        while (i <= j) {
            while (key[i] < pivot) i++;
            while (key[j] > pivot) j--;
            if (i > j) break;
            uint64_t swap = key[i];
            key[i++] = key[j];
            key[j--] = swap;
        }
        if (k <= j)
            upto = j;
        else if (k >= i)
            from = i;
        else
            return;
    }
}

/* Marks the positions of the k lowest of n distinct keys: by their first byte, and where that does
 * not decide, by selection. */
static void keep_lowest(uint8_t *keep, uint64_t *key, int32_t n, int32_t k) {
    int32_t count[256] = {0}, below = 0, rest = 0;
    uint64_t edge = 0;
    for (int32_t i = 0; i < n; i++) count[key[i] >> 56]++;
    while (below + count[edge] < k) below += count[edge++];
    for (int32_t i = 0; i < n; i++) {
        uint64_t here = key[i] >> 56;
        keep[(uint32_t)key[i]] = here < edge;
        key[rest] = key[i];
        rest += here == edge;
    }
    select_lowest(key, rest, k - below);
    for (int32_t i = 0; i < k - below; i++) keep[(uint32_t)key[i]] = 1;
}

/* Marks the kept rows of sequence s. */
static void keep_sequence(uint8_t *keep, uint64_t *keys, const sr_layout *l, int32_t s,
                          const sr_token_drop_opts *o) {
    int32_t len = l->len[s], wanted = (int32_t)lround(o->fraction * len);
    if (o->first) keep[0] = 1;
    if (o->last) keep[len - 1] = 1;
    for (int32_t i = 0; i < len; i++) keep[i] = keep[i] != 0;
    int32_t free_rows = draw(keys, keep, l, s, o->layer);
    int32_t more = (wanted > 0 ? wanted : 1) - (len - free_rows);
    if (more <= 0) return;
    keep_lowest(keep, keys, free_rows, more);
}

static void clear_slack(uint8_t *keep, const sr_layout *l) {
    for (int64_t t = 0; t < l->rows; t++)
        if (l->owner[t] < 0) keep[t] = 0;
}

sr_status sr_token_drop_mark(uint8_t *keep, const sr_layout *l, const sr_token_drop_opts *o) {
    if (!(o->fraction > 0 && o->fraction <= 1))
        return sr_fail(SR_EINVAL,
                       "token dropping: the fraction of kept tokens is %g; choose one in (0, 1]",
                       o->fraction);
    if (o->layer > 0xFFF)
        return sr_fail(SR_EINVAL, "token dropping: layer %" PRIu32 "; choose one below 4096",
                       o->layer);
    uint64_t *keys = NULL;
    SR_TRY(sr_new(&keys, (int64_t)l->longest + 1));
    for (int32_t s = 0; s < l->sequences; s++) keep_sequence(keep + l->start[s], keys, l, s, o);
    clear_slack(keep, l);
    sr_free(keys);
    return SR_OK;
}

/* The marked rows, in order. */
static void list_rows(int32_t *rows, const uint8_t *keep, int64_t count) {
    int64_t at = 0;
    for (int64_t t = 0; t < count; t++)
        if (keep[t] != 0) rows[at++] = (int32_t)t;
}

/* The rows of every layer but the first; `keep` is scratch. */
static sr_status draw_others(int32_t *rows, int64_t step, uint8_t *keep, const sr_layout *l,
                             const uint8_t *forced, sr_token_drop_opts o, uint32_t layers) {
    for (uint32_t k = 1; k < layers; k++) {
        o.layer++;
        memset(keep, 0, (size_t)l->rows);
        if (forced != NULL) memcpy(keep, forced, (size_t)l->rows);
        SR_TRY(sr_token_drop_mark(keep, l, &o));
        list_rows(rows + k * step, keep, l->rows);
    }
    return SR_OK;
}

/* sr_layout_shorten() with T rounded up. */
static sr_status shorten(sr_layout **out, int32_t **rows, const sr_layout *whole,
                         const uint8_t *keep, int64_t unit) {
    SR_TRY(sr_layout_shorten(out, rows, whole, keep));
    sr_layout *l = *out;
    int64_t padded = (l->rows + unit - 1) / unit * unit;
    if (padded == l->rows) return SR_OK;
    sr_status st =
        sr_layout_new(out, l->sequences, NULL, l->len, l->uid, l->epoch, padded, l->seed);
    sr_layout_release(l);
    return st;
}

sr_status sr_token_drop_layers(sr_layout **out, int32_t **rows, const sr_layout *layout,
                               const uint8_t *forced, const sr_token_drop_opts *opts,
                               uint32_t layers, int64_t unit) {
    sr_layout *shorter = NULL;
    uint8_t *keep = NULL;
    int32_t *all = NULL;
    sr_status st;
    *out = NULL;
    *rows = NULL;
    SR_GO(done, st, sr_new(&keep, layout->rows + 1));
    if (forced != NULL) memcpy(keep, forced, (size_t)layout->rows);
    SR_GO(done, st, sr_token_drop_mark(keep, layout, opts));
    SR_GO(done, st, shorten(&shorter, &all, layout, keep, unit));
    SR_GO(done, st, sr_grow(&all, layers * shorter->tokens + 1));
    SR_GO(done, st, draw_others(all, shorter->tokens, keep, layout, forced, *opts, layers));
done:
    sr_free(keep);
    if (st != SR_OK) {
        sr_layout_release(shorter);
        sr_free(all);
        return st;
    }
    *out = shorter;
    *rows = all;
    return SR_OK;
}
