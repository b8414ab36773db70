#include "core/loader/sampler.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/permute.h"

enum { BLOCK = 512, WORDS = BLOCK / 64, CHUNK = 4096 };

/* Variants of the order of sequences, which is 0. */
enum { UNLOCKING = 1, DRAWS = 2 };

struct sr_sampler {
    sr_epoch *e; /* retained */
    const sr_examples *x;
    sr_sampler_metric metric[SR_SAMPLER_METRICS];
    int64_t prefix[SR_SAMPLER_METRICS];
    int metrics;
    uint8_t *have;      /* (examples) metrics that have unlocked it */
    uint64_t *bits;     /* (blocks x WORDS) unlocked examples */
    uint32_t *before;   /* (blocks + 1) unlocked examples of earlier blocks */
    int64_t *of_length; /* (max_len + 1) unlocked examples of each length */
    int64_t blocks, unlocked;
};

/* ---- unlocked examples ---- */

static void flip(sr_sampler *s, uint32_t uid, int more) {
    s->bits[uid / 64] ^= (uint64_t)1 << uid % 64;
    s->before[uid / BLOCK + 1] += (uint32_t)more; /* of the block; summed by count_before() */
    s->of_length[sr_example_length(&s->x->example[uid])] += more;
    s->unlocked += more;
}

static void change(sr_sampler *s, uint32_t uid, int more) {
    if (more > 0 && ++s->have[uid] == s->metrics) flip(s, uid, 1);
    if (more < 0 && s->have[uid]-- == s->metrics) flip(s, uid, -1);
}

/* From totals of earlier blocks to counts of blocks, and back. */
static void count_blocks(sr_sampler *s) {
    for (int64_t b = s->blocks; b > 0; b--) s->before[b] -= s->before[b - 1];
}

static void count_before(sr_sampler *s) {
    for (int64_t b = 1; b <= s->blocks; b++) s->before[b] += s->before[b - 1];
}

static void lock_all(sr_sampler *s) {
    memset(s->have, 0, (size_t)s->x->count);
    memset(s->bits, 0, (size_t)s->blocks * WORDS * sizeof *s->bits);
    memset(s->before, 0, ((size_t)s->blocks + 1) * sizeof *s->before);
    memset(s->of_length, 0, ((size_t)s->x->opts.max_len + 1) * sizeof *s->of_length);
    memset(s->prefix, 0, sizeof s->prefix);
    s->unlocked = 0;
}

/* Uids first .. first + n - 1 of a metric's order, or of a random one. */
static sr_status read_order(uint32_t *uid, const sr_sampler *s, int m, int64_t first, int64_t n) {
    const sr_metric *metric = s->metric[m].metric;
    if (metric != NULL) return sr_metric_order(uid, metric, first, n);
    sr_domain all = sr_domain_of((uint32_t)s->x->count);
    for (int64_t i = 0; i < n; i++)
        uid[i] = sr_permute(&all, (uint32_t)(first + i), s->x->opts.seed, SR_PURPOSE_SEQUENCE_ORDER,
                            UNLOCKING, 0);
    return SR_OK;
}

/* Changes the examples from one prefix of a metric to another. */
static sr_status move_prefix(sr_sampler *s, int m, int64_t to) {
    int64_t from = s->prefix[m], low = from < to ? from : to, high = from < to ? to : from;
    uint32_t uid[CHUNK];
    for (int64_t at = low, n; at < high; at += n) {
        n = high - at < CHUNK ? high - at : CHUNK;
        int64_t first = s->metric[m].reverse ? s->x->count - at - n : at;
        SR_TRY(read_order(uid, s, m, first, n));
        for (int64_t i = 0; i < n; i++) change(s, uid[i], to > from ? 1 : -1);
    }
    s->prefix[m] = to;
    return SR_OK;
}

sr_status sr_sampler_unlock(sr_sampler *s, const int64_t *prefix) {
    for (int m = 0; m < s->metrics; m++)
        if (prefix[m] < 0 || prefix[m] > s->x->count)
            return sr_fail(SR_EINVAL, "sampler: metric %d unlocks %" PRId64 " examples of %" PRId64,
                           m + 1, prefix[m], s->x->count);
    if (s->metrics == 0) return SR_OK;
    sr_status st = SR_OK;
    count_blocks(s);
    for (int m = 0; st == SR_OK && m < s->metrics; m++) st = move_prefix(s, m, prefix[m]);
    if (st != SR_OK) lock_all(s);
    count_before(s);
    return st;
}

/* ---- draws ---- */

/* The place of the i-th set bit of a block. */
static uint32_t select_bit(const uint64_t *words, uint32_t i) {
    uint32_t w = 0, here;
    while ((here = (uint32_t)__builtin_popcountll(words[w])) <= i) {
        i -= here;
        w++;
    }
    uint64_t word = words[w];
    for (; i > 0; i--) word &= word - 1;
    return w * 64 + (uint32_t)__builtin_ctzll(word);
}

/* Unlocked example number i. */
static uint32_t example_at(const sr_sampler *s, uint32_t i) {
    if (s->metrics == 0) return i;
    int64_t low = 0, high = s->blocks;
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (s->before[mid] <= i)
            low = mid;
        else
            high = mid;
    }
    return (uint32_t)(low * BLOCK) + select_bit(s->bits + low * WORDS, i - s->before[low]);
}

int64_t sr_sampler_run(const sr_sampler *s, int64_t update, int64_t n) {
    int64_t all = n > 0 ? s->unlocked / n : 0;
    return all > 0 ? all - update % all : 0;
}

void sr_sampler_draw(uint32_t *uid, const sr_sampler *s, int64_t update, int64_t n,
                     int64_t updates) {
    int64_t all = s->unlocked / n, first = update % all * n;
    uint32_t count = (uint32_t)s->unlocked, pass = (uint32_t)(update / all);
    uint32_t variant = DRAWS + (count ^ count >> 24) % (0x1000000 - DRAWS);
    sr_domain domain = sr_domain_of(count);
    for (int64_t i = 0; i < n * updates; i++) {
        uint32_t at = sr_permute(&domain, (uint32_t)(first + i), s->x->opts.seed,
                                 SR_PURPOSE_SEQUENCE_ORDER, variant, pass);
        uid[i] = example_at(s, at);
    }
}

/* ---- figures ---- */

int64_t sr_sampler_examples(const sr_sampler *s) {
    return s->x->count;
}

int64_t sr_sampler_unlocked(const sr_sampler *s) {
    return s->unlocked;
}

static int64_t tokens_of(int64_t len, int64_t limit, bool pieces) {
    if (limit == 0 || len <= limit) return len;
    if (!pieces) return limit;
    int64_t body = limit - 2; /* and [CLS], [SEP] */
    return len - 2 + 2 * ((len - 2 + body - 1) / body);
}

int64_t sr_sampler_tokens(const sr_sampler *s, int32_t limit, bool pieces) {
    int64_t tokens = 0;
    for (int64_t len = 0; len <= s->x->opts.max_len; len++)
        tokens += s->of_length[len] * tokens_of(len, limit, pieces);
    return tokens;
}

/* ---- new ---- */

static sr_status allocate(sr_sampler *s) {
    s->blocks = (s->x->count + BLOCK - 1) / BLOCK;
    SR_TRY(sr_new(&s->of_length, (int64_t)s->x->opts.max_len + 1));
    if (s->metrics == 0) return SR_OK;
    SR_TRY(sr_new(&s->have, s->x->count));
    SR_TRY(sr_new(&s->bits, s->blocks * WORDS));
    return sr_new(&s->before, s->blocks + 1);
}

static void unlock_all(sr_sampler *s) {
    s->unlocked = s->x->count;
    for (int64_t i = 0; i < s->unlocked; i++) s->of_length[sr_example_length(&s->x->example[i])]++;
}

static sr_status check(const sr_examples *x, const sr_sampler_metric *metric, int metrics) {
    if (metrics < 0 || metrics > SR_SAMPLER_METRICS)
        return sr_fail(SR_EINVAL, "sampler: %d metrics; the maximum is %d", metrics,
                       SR_SAMPLER_METRICS);
    for (int m = 0; m < metrics; m++)
        if (metric[m].metric != NULL &&
            (metric[m].metric->count != x->count || metric[m].metric->accumulated))
            return sr_fail(SR_EINVAL,
                           "sampler: metric '%s' has %" PRId64 " values, but there are %" PRId64
                           " examples; a sampler needs one value for each",
                           sr_metric_name(metric[m].metric), metric[m].metric->count, x->count);
    return SR_OK;
}

sr_status sr_sampler_new(sr_sampler **out, sr_epoch *e, const sr_sampler_metric *metric,
                         int metrics) {
    *out = NULL;
    SR_TRY(check(e->examples, metric, metrics));
    sr_sampler *s;
    SR_TRY(sr_new(&s, 1));
    s->e = sr_epoch_retain(e);
    s->x = e->examples;
    s->metrics = metrics;
    if (metrics > 0) memcpy(s->metric, metric, (size_t)metrics * sizeof *metric);
    sr_status st = allocate(s);
    if (st != SR_OK) {
        sr_sampler_free(s);
        return st;
    }
    if (metrics == 0) unlock_all(s);
    *out = s;
    return SR_OK;
}

void sr_sampler_free(sr_sampler *s) {
    if (s == NULL) return;
    sr_epoch_release(s->e);
    sr_free(s->have);
    sr_free(s->bits);
    sr_free(s->before);
    sr_free(s->of_length);
    sr_free(s);
}
