#include "core/pack/certificate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/pack/lp/knapsack.h"

void sr_certificate_free(sr_certificate *c) {
    sr_free(c->weight);
    memset(c, 0, sizeof *c);
}

/* ---- making ---- */

/* S is below 2^62 and every pattern below 2^52, so that the knapsack in doubles is exact. */
static double choose_scale(const double *value, const sr_histogram *h) {
    double total = 1, scale = 1e10;
    for (int32_t l = 1; l <= h->capacity; l++) total += value[l] * (double)h->count[l];
    return total * scale > 0x1p62 ? 0x1p62 / total : scale;
}

static int64_t bound_of(int64_t total, int64_t heaviest) {
    return heaviest > 0 ? total / heaviest + (total % heaviest != 0) : 0;
}

sr_status sr_certificate_of(sr_certificate *out, const int64_t *weight, const sr_histogram *h,
                            int32_t max_seqs) {
    memset(out, 0, sizeof *out);
    out->capacity = h->capacity, out->max_seqs = max_seqs;
    SR_TRY(sr_new(&out->weight, h->capacity + 1));
    for (int32_t l = 1; l <= h->capacity; l++) {
        if (h->count[l] == 0) continue;
        out->weight[l] = weight[l];
        out->total += weight[l] * h->count[l];
    }
    sr_status st =
        sr_knapsack_heaviest(&out->heaviest, h->capacity, max_seqs, out->weight, h->count);
    out->bound = bound_of(out->total, out->heaviest);
    if (st != SR_OK) sr_certificate_free(out);
    return st;
}

sr_status sr_certificate_make(sr_certificate *out, const double *value, const sr_histogram *h,
                              int32_t max_seqs) {
    int64_t *weight;
    memset(out, 0, sizeof *out);
    SR_TRY(sr_new(&weight, h->capacity + 1));
    double scale = choose_scale(value, h);
    for (int32_t l = 1; l <= h->capacity; l++) weight[l] = (int64_t)floor(value[l] * scale + 0.5);
    sr_status st = sr_certificate_of(out, weight, h, max_seqs);
    sr_free(weight);
    return st;
}

/* ---- checking ---- */

/* Any number of items: f[s] from all shorter f. */
static void heaviest_any(int64_t *f, const sr_certificate *c, const sr_histogram *h) {
    for (int32_t s = 1; s <= c->capacity; s++) {
        f[s] = f[s - 1];
        for (int32_t l = 1; l <= s; l++)
            if (h->count[l] > 0 && f[s - l] + c->weight[l] > f[s]) f[s] = f[s - l] + c->weight[l];
    }
}

/* One item more than in `before`. */
static void heaviest_layer(int64_t *f, const int64_t *before, const sr_certificate *c,
                           const sr_histogram *h) {
    memcpy(f, before, ((size_t)c->capacity + 1) * sizeof *f);
    for (int32_t l = 1; l <= c->capacity; l++) {
        if (h->count[l] == 0 || c->weight[l] == 0) continue;
        for (int32_t s = l; s <= c->capacity; s++)
            if (before[s - l] + c->weight[l] > f[s]) f[s] = before[s - l] + c->weight[l];
    }
}

static sr_status heaviest_pattern(int64_t *out, const sr_certificate *c, const sr_histogram *h) {
    int64_t *before, *after;
    size_t spaces = (size_t)c->capacity + 1;
    SR_TRY(sr_new(&before, 2 * spaces));
    after = before + spaces;
    int64_t *memory = before;
    if (c->max_seqs == 0) heaviest_any(before, c, h);
    for (int32_t j = 0; j < c->max_seqs; j++) {
        heaviest_layer(after, before, c, h);
        bool same = memcmp(before, after, spaces * sizeof *after) == 0;
        int64_t *swap = before;
        before = after, after = swap;
        if (same) break;
    }
    *out = before[c->capacity];
    sr_free(memory);
    return SR_OK;
}

static sr_status sum_weights(int64_t *out, const sr_certificate *c, const sr_histogram *h) {
    int64_t total = 0, part;
    for (int32_t l = 1; l <= h->capacity; l++) {
        int64_t w = l <= c->capacity ? c->weight[l] : 0;
        if (__builtin_mul_overflow(w, h->count[l], &part) ||
            __builtin_add_overflow(total, part, &total))
            return sr_fail(SR_EDATA,
                           "pack: integer overflow in the total weight of the certificate");
    }
    *out = total;
    return SR_OK;
}

static sr_status refuse(const char *what, int64_t claimed, int64_t found) {
    return sr_fail(SR_EDATA, "pack: invalid proof: %s is %" PRId64 ", the certificate has %" PRId64,
                   what, found, claimed);
}

sr_status sr_certificate_check(const sr_certificate *c, const sr_histogram *h) {
    int64_t total = 0, heaviest = 0;
    if (h->capacity != c->capacity)
        return sr_fail(SR_EDATA, "pack: invalid proof: it is for packs of %d tokens, not %d",
                       c->capacity, h->capacity);
    for (int32_t l = 1; l <= c->capacity; l++)
        if (c->weight[l] > INT64_MAX / 4 / (SR_MAX_LENGTH + 1))
            return sr_fail(SR_EDATA, "pack: invalid proof: the weight of length %d is too large",
                           l);
    SR_TRY(sum_weights(&total, c, h));
    if (total != c->total) return refuse("the total weight", c->total, total);
    SR_TRY(heaviest_pattern(&heaviest, c, h));
    if (heaviest != c->heaviest) return refuse("the heaviest pattern", c->heaviest, heaviest);
    int64_t bound = bound_of(total, heaviest);
    if (bound != c->bound) return refuse("the bound", c->bound, bound);
    return SR_OK;
}
