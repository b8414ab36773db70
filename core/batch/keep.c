#include "core/batch/keep.h"

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

/* Marks the kept rows of sequence s. */
static void keep_sequence(uint8_t *keep, uint64_t *keys, const sr_layout *l, int32_t s,
                          const sr_keep_opts *o) {
    int32_t len = l->len[s], wanted = (int32_t)lround(o->fraction * len);
    if (o->first) keep[0] = 1;
    if (o->last) keep[len - 1] = 1;
    for (int32_t i = 0; i < len; i++) keep[i] = keep[i] != 0;
    int32_t free_rows = draw(keys, keep, l, s, o->layer);
    int32_t more = (wanted > 0 ? wanted : 1) - (len - free_rows);
    if (more <= 0) return;
    select_lowest(keys, free_rows, more);
    for (int32_t i = 0; i < more; i++) keep[(uint32_t)keys[i]] = 1;
}

static void clear_slack(uint8_t *keep, const sr_layout *l) {
    for (int64_t t = 0; t < l->rows; t++)
        if (l->owner[t] < 0) keep[t] = 0;
}

sr_status sr_keep_draw(uint8_t *keep, const sr_layout *l, const sr_keep_opts *o) {
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
