#include "core/data/pairs.h"

#include "core/base/mem.h"
#include "core/base/rng.h"

/* The random words of one document: word i is word i % 4 of counter i / 4. */
typedef struct draws {
    sr_u32x4 words;
    uint64_t seed;
    uint32_t uid, epoch, next; /* next: index of the next word */
} draws;

static uint32_t draw(draws *r) {
    uint32_t i = r->next++;
    if (i % 4 == 0) {
        uint32_t call = i / 4;
        sr_u32x4 c =
            sr_counter(call & 0xFFFF, call >> 16, r->uid, SR_PURPOSE_PAIRS, 0, 0, r->epoch);
        r->words = sr_philox(c, r->seed, SR_ROUNDS_DATA);
    }
    return r->words.w[i % 4];
}

/* The number of heads among n fair coins. */
static int64_t heads(draws *r, int64_t n) {
    int64_t sum = 0;
    for (; n >= 32; n -= 32) sum += __builtin_popcount(draw(r));
    if (n > 0) sum += __builtin_popcount(draw(r) >> (32 - n));
    return sum;
}

sr_status sr_drawn_add(sr_drawn *out, const sr_dataset *d, uint64_t a, int64_t a_tokens, uint64_t b,
                       int64_t b_tokens, int flags) {
    if (out->count == out->room) {
        size_t room = out->room * 2 + 64;
        SR_TRY(sr_grow(&out->example, room));
        out->room = room;
    }
    const sr_frame *f = sr_dataset_frame(d, b_tokens);
    sr_example *e = &out->example[out->count++];
    *e = (sr_example){.a_low = (uint32_t)a,
                      .a_high = (uint8_t)(a >> 32),
                      .b_low = (uint32_t)b,
                      .b_high = (uint8_t)(b >> 32),
                      .a_tokens = (uint16_t)a_tokens,
                      .b_tokens = (uint16_t)b_tokens,
                      .flags = (unsigned)flags,
                      .lead = (unsigned)f->lead.count,
                      .middle = (unsigned)f->middle.count,
                      .tail = (unsigned)f->tail.count};
    out->tokens += sr_example_length(e);
    out->random_next += (flags & SR_EXAMPLE_RANDOM) != 0;
    out->cut += (flags & SR_EXAMPLE_CUT) != 0;
    return SR_OK;
}

/* A run of sentences and the tokens it spans. */
typedef struct span {
    uint64_t begin;
    int64_t tokens;
} span;

/* Token by token, the longer segment (B on ties) loses one from its front or end by a fair coin,
 * until both fit.  The number each loses follows from the lengths; the number of these at the front
 * is binomial. */
static void truncate_pair(span *a, span *b, int64_t most, draws *r) {
    int64_t drop = a->tokens + b->tokens - most, from_a = 0, from_b = 0;
    if (drop <= 0) return;
    int64_t ahead = a->tokens - b->tokens;
    if (ahead > 0)
        from_a = ahead < drop ? ahead : drop;
    else
        from_b = -ahead < drop ? -ahead : drop;
    drop -= from_a + from_b;
    from_b += (drop + 1) / 2;
    from_a += drop / 2;
    a->begin += (uint64_t)heads(r, from_a);
    b->begin += (uint64_t)heads(r, from_b);
    a->tokens -= from_a;
    b->tokens -= from_b;
}

/* Sentences of another document of the part and source, from a random position, until they have
 * `want` tokens.  If there is one document only, it is used itself. */
static span random_next(const sr_dataset *d, const sr_portion *part, int64_t index, int64_t want,
                        draws *r) {
    const int64_t *begin = part->source + sr_dataset_source(d, d->unit_token[part->unit[index]]);
    int64_t other = index, count = begin[1] - begin[0];
    if (count > 1) {
        other = begin[0] + sr_below(draw(r), (uint32_t)(count - 1));
        other += other >= index;
    }
    uint32_t unit = part->unit[other];
    uint64_t first = d->unit_sentence[unit], last = d->unit_sentence[unit + 1];
    uint64_t start = first + sr_below(draw(r), (uint32_t)(last - first));
    span s = {.begin = sr_dataset_sentence(d, start)};
    do s.tokens += d->sentence_tokens[start++];
    while (start < last && s.tokens < want);
    return s;
}

static int64_t tokens_of(const sr_dataset *d, uint64_t first, uint64_t last) {
    int64_t sum = 0;
    for (; first < last; first++) sum += d->sentence_tokens[first];
    return sum;
}

/* A target length without special tokens. */
static int64_t draw_target(draws *r, int64_t most, double short_seq_prob) {
    if (sr_unit(draw(r)) >= (float)short_seq_prob) return most;
    return 2 + sr_below(draw(r), (uint32_t)(most - 1));
}

bool sr_pairs_redraw(const sr_dataset *d, const sr_examples_opts *opts, uint32_t unit) {
    uint64_t tokens = d->unit_token[unit + 1] - d->unit_token[unit];
    return !opts->by_document && opts->short_seq_prob > 0 &&
           tokens > (uint64_t)opts->max_len * SR_EXAMPLES_LONG;
}

static draws start_draws(const sr_examples_opts *opts, uint32_t unit) {
    return (draws){.seed = opts->seed, .epoch = opts->epoch, .uid = unit};
}

sr_status sr_pairs_draw(sr_drawn *out, const sr_dataset *d, const sr_examples_opts *opts,
                        int64_t index) {
    const sr_portion *part = &d->part[opts->part];
    uint32_t unit = part->unit[index];
    draws r = start_draws(opts, unit);
    int64_t most = opts->max_len - sr_frame_size(sr_dataset_frame(d, 1)),
            target = draw_target(&r, most, opts->short_seq_prob);
    bool redraw = sr_pairs_redraw(d, opts, unit);
    uint64_t at = d->unit_sentence[unit], last = d->unit_sentence[unit + 1];
    uint64_t token = d->unit_token[unit];
    while (at < last) {
        uint64_t end = at;
        int64_t gathered = 0;
        while (end < last && gathered < target) gathered += d->sentence_tokens[end++];
        uint32_t sentences = (uint32_t)(end - at);
        uint64_t a_end = sentences > 1 ? at + 1 + sr_below(draw(&r), sentences - 1) : end;
        bool random = sentences == 1 || draw(&r) >> 31;
        span a = {token, tokens_of(d, at, a_end)}, b;
        if (random) {
            b = random_next(d, part, index, target - a.tokens, &r);
            end = a_end; /* the rest, replaced as B, is used again */
        } else {
            b = (span){token + (uint64_t)a.tokens, gathered - a.tokens};
        }
        token += (uint64_t)(random ? a.tokens : gathered);
        at = end;
        int64_t over = a.tokens + b.tokens - most;
        truncate_pair(&a, &b, most, &r);
        int flags = (random ? SR_EXAMPLE_RANDOM : 0) | (over > 0 ? SR_EXAMPLE_CUT : 0);
        if (over > 0) out->lost += over;
        SR_TRY(sr_drawn_add(out, d, a.begin, a.tokens, b.begin, b.tokens, flags));
        if (redraw) target = draw_target(&r, most, opts->short_seq_prob);
    }
    return SR_OK;
}

sr_status sr_singles_draw(sr_drawn *out, const sr_dataset *d, const sr_examples_opts *opts,
                          int64_t index) {
    uint32_t unit = d->part[opts->part].unit[index];
    draws r = start_draws(opts, unit);
    int64_t most = opts->max_len - sr_frame_size(sr_dataset_frame(d, 0));
    int64_t target = draw_target(&r, most, opts->short_seq_prob), gathered = 0;
    bool redraw = sr_pairs_redraw(d, opts, unit);
    uint64_t token = d->unit_token[unit];
    for (uint64_t i = d->unit_sentence[unit]; i < d->unit_sentence[unit + 1]; i++) {
        int64_t n = d->sentence_tokens[i];
        if (gathered > 0 && gathered + n > target) {
            SR_TRY(sr_drawn_add(out, d, token, gathered, 0, 0, 0));
            token += (uint64_t)gathered;
            gathered = 0;
            if (redraw) target = draw_target(&r, most, opts->short_seq_prob);
        }
        for (gathered += n; gathered > target;) { /* one overlong sentence */
            SR_TRY(sr_drawn_add(out, d, token, target, 0, 0, 0));
            token += (uint64_t)target;
            gathered -= target;
            if (redraw) target = draw_target(&r, most, opts->short_seq_prob);
        }
    }
    return gathered > 0 ? sr_drawn_add(out, d, token, gathered, 0, 0, 0) : SR_OK;
}
