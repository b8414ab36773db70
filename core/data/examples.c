#include "core/data/examples.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/pairs.h"

enum { CHUNK = 1024 }; /* documents of a task */

typedef struct build {
    const sr_dataset *d;
    const sr_examples_opts *opts;
    sr_drawn *chunk;
    int64_t units;
} build;

static sr_status draw_chunk(void *context, int64_t i, int worker) {
    (void)worker;
    build *b = context;
    int64_t first = i * CHUNK, last = first + CHUNK < b->units ? first + CHUNK : b->units;
    for (int64_t k = first; k < last; k++) SR_TRY(sr_examples_draw(&b->chunk[i], b->d, b->opts, k));
    return SR_OK;
}

/* Concatenates the chunks into one list, and frees them. */
static sr_status join(sr_examples *t, sr_drawn *chunk, int64_t chunks) {
    size_t count = 0;
    for (int64_t i = 0; i < chunks; i++) {
        count += chunk[i].count;
        t->tokens += chunk[i].tokens;
        t->random_next += chunk[i].random_next;
        t->cut += chunk[i].cut;
        t->lost += chunk[i].lost;
    }
    if (count >= UINT32_MAX)
        return sr_fail(SR_EDATA, "data: %zu examples are too many; the maximum is 2^32 - 2", count);
    t->count = (int64_t)count;
    SR_TRY(sr_new(&t->example, count));
    sr_example *to = t->example;
    for (int64_t i = 0; i < chunks; i++) {
        if (chunk[i].count > 0) memcpy(to, chunk[i].example, chunk[i].count * sizeof *to);
        to += chunk[i].count;
        sr_free(chunk[i].example);
        chunk[i].example = NULL;
    }
    return SR_OK;
}

static sr_status draw_examples(sr_examples *t, const sr_dataset *d, const sr_examples_opts *opts,
                               sr_threads *threads) {
    build b = {.d = d, .opts = opts, .units = d->part[opts->part].count};
    int64_t chunks = (b.units + CHUNK - 1) / CHUNK;
    SR_TRY(sr_new(&b.chunk, chunks));
    sr_status st = sr_threads_run(threads, draw_chunk, &b, chunks);
    if (st == SR_OK) st = join(t, b.chunk, chunks);
    for (int64_t i = 0; i < chunks; i++) sr_free(b.chunk[i].example);
    sr_free(b.chunk);
    return st;
}

/* ---- fixed examples ---- */

static sr_status too_long(const sr_dataset *d, uint32_t unit, int64_t tokens, int32_t max_len,
                          bool pair) {
    return sr_fail(SR_EDATA,
                   "%s: example %u has %" PRId64 " tokens including special ones, more than "
                   "max_len %d; raise max_len, or set too_long: %s",
                   sr_shard_path(d->shard), unit, tokens, max_len,
                   pair ? "truncate" : "truncate or split");
}

/* Of a fixed example, as Hugging Face's `longest_first`: if both are long, each keeps half, and the
 * longer one, or B, the odd token; else the longer one keeps what the other leaves. */
static int64_t kept_of_fixed_b(int64_t a, int64_t b, int64_t most) {
    int64_t half = most / 2;
    if (b <= half && b <= a) return b;
    if (a <= half && a <= b) return most - a;
    return a > b ? half : most - half;
}

/* Both long: B keeps half, A the odd token more; else the longer one what the other leaves. */
static int64_t kept_of_b(int64_t a, int64_t b, int64_t most) {
    int64_t half = most / 2;
    return b <= half ? b : a < most - half ? most - a : half;
}

/* Adds a fixed example, by the policy. */
static sr_status give(sr_drawn *out, const sr_dataset *d, const sr_examples_opts *opts,
                      uint32_t unit) {
    uint64_t at = d->unit_token[unit];
    int64_t a = d->a_tokens[unit], b = (int64_t)(d->unit_token[unit + 1] - at) - a;
    int32_t specials = sr_frame_size(sr_dataset_frame(d, b));
    int64_t most = opts->max_len - specials, over = a + b - most;
    uint64_t b_at = at + (uint64_t)a;
    if (over <= 0) return sr_drawn_add(out, d, at, a, b_at, b, 0);
    if (opts->too_long == SR_TOO_LONG_ERROR || (opts->too_long == SR_TOO_LONG_SPLIT && b > 0))
        return too_long(d, unit, a + b + specials, opts->max_len, b > 0);
    if (opts->too_long == SR_TOO_LONG_SPLIT) {
        for (; a > 0; a -= most, at += (uint64_t)most)
            SR_TRY(sr_drawn_add(out, d, at, a < most ? a : most, 0, 0, 0));
        return SR_OK;
    }
    int64_t keep_b = kept_of_fixed_b(a, b, most);
    out->lost += over;
    return sr_drawn_add(out, d, at, most - keep_b, b_at, keep_b, SR_EXAMPLE_CUT);
}

static sr_status give_all(sr_drawn *out, sr_examples *t, const sr_dataset *d,
                          const sr_examples_opts *opts) {
    const sr_portion *part = &d->part[opts->part];
    size_t room = 0;
    for (int64_t i = 0; i < part->count; i++) {
        size_t before = out->count;
        uint32_t unit = part->unit[i];
        SR_TRY(give(out, d, opts, unit));
        t->split += out->count - before > 1;
        if (out->count > room) {
            room = out->room > out->count ? out->room : out->count;
            SR_TRY(sr_grow(&t->unit, room));
        }
        for (size_t k = before; k < out->count; k++) t->unit[k] = unit;
    }
    return SR_OK;
}

static sr_status give_examples(sr_examples *t, const sr_dataset *d, const sr_examples_opts *opts) {
    sr_drawn all = {0};
    sr_status st = give_all(&all, t, d, opts);
    if (st == SR_OK) st = join(t, &all, 1);
    sr_free(all.example);
    return st;
}

sr_status sr_examples_draw(sr_drawn *out, const sr_dataset *d, const sr_examples_opts *opts,
                           int64_t index) {
    if (d->kind == SR_DATA_EXAMPLES) return give(out, d, opts, d->part[opts->part].unit[index]);
    return opts->nsp ? sr_pairs_draw(out, d, opts, index) : sr_singles_draw(out, d, opts, index);
}

/* ---- building ---- */

int32_t sr_examples_least(const sr_dataset *d) {
    int32_t pair = sr_frame_size(sr_dataset_frame(d, 1)) + 2,
            single = sr_frame_size(sr_dataset_frame(d, 0)) + 1;
    int32_t least = pair > single ? pair : single;
    return least > SR_EXAMPLES_LEAST ? least : SR_EXAMPLES_LEAST;
}

sr_status sr_examples_check(const sr_dataset *d, const sr_examples_opts *opts) {
    int32_t least = sr_examples_least(d);
    if (opts->max_len < least || opts->max_len > SR_EXAMPLES_MOST)
        return sr_fail(SR_EINVAL, "data: max_len is %d; must be %d..%d", opts->max_len, least,
                       SR_EXAMPLES_MOST);
    if (!(opts->short_seq_prob >= 0 && opts->short_seq_prob <= 1))
        return sr_fail(SR_EINVAL, "data: short_seq_prob is %g; must be a probability, 0..1",
                       opts->short_seq_prob);
    if (opts->nsp && d->kind == SR_DATA_EXAMPLES)
        return sr_fail(SR_EINVAL,
                       "data: %s has fixed examples, not sentences to pair; set nsp: false",
                       sr_shard_path(d->shard));
    if (d->tokens >= (int64_t)1 << 40)
        return sr_fail(SR_EDATA,
                       "%s: %" PRId64 " tokens are too many; split the data set into several",
                       sr_shard_path(d->shard), d->tokens);
    if (d->part[opts->part].count == 0)
        return sr_fail(SR_EDATA, "%s: the part '%s' is empty; hold out %s", sr_shard_path(d->shard),
                       sr_data_part_name(opts->part),
                       opts->part == SR_PART_HELD ? "more, or nothing (held: 0)" : "less");
    return SR_OK;
}

sr_status sr_examples_build(sr_examples **out, const sr_dataset *d, const sr_examples_opts *opts,
                            sr_threads *threads) {
    *out = NULL;
    SR_TRY(sr_examples_check(d, opts));
    sr_examples *t;
    SR_TRY(sr_new(&t, 1));
    t->opts = *opts;
    t->nsp = opts->nsp;
    t->least = sr_examples_least(d);
    sr_status st =
        d->kind == SR_DATA_TEXT ? draw_examples(t, d, opts, threads) : give_examples(t, d, opts);
    if (st != SR_OK) {
        sr_examples_free(t);
        return st;
    }
    *out = t;
    return SR_OK;
}

void sr_examples_free(sr_examples *t) {
    if (t == NULL) return;
    sr_free(t->example);
    sr_free(t->unit);
    sr_free(t);
}

/* ---- using ---- */

sr_example sr_example_cut(const sr_example *e, int32_t limit) {
    sr_example cut = *e;
    if (limit == 0 || sr_example_length(e) <= limit) return cut;
    int64_t most = limit - sr_example_specials(e);
    cut.b_tokens = (uint16_t)kept_of_b(e->a_tokens, e->b_tokens, most);
    cut.a_tokens = (uint16_t)(most - cut.b_tokens);
    cut.flags |= SR_EXAMPLE_CUT;
    return cut;
}

static void mark_span(uint64_t *bits, uint64_t first, uint64_t count) {
    while (count > 0) {
        uint64_t at = first & 63, n = 64 - at < count ? 64 - at : count;
        bits[first >> 6] |= (n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1) << at;
        first += n;
        count -= n;
    }
}

sr_status sr_examples_distinct(int64_t *out, const sr_examples *t, const sr_dataset *d) {
    uint64_t *bits, words = (uint64_t)d->tokens / 64 + 1;
    SR_TRY(sr_new(&bits, words));
    for (int64_t i = 0; i < t->count; i++) {
        const sr_example *e = &t->example[i];
        mark_span(bits, sr_example_a(e), e->a_tokens);
        mark_span(bits, sr_example_b(e), e->b_tokens);
    }
    *out = 0;
    for (uint64_t i = 0; i < words; i++) *out += __builtin_popcountll(bits[i]);
    sr_free(bits);
    return SR_OK;
}

int32_t sr_example_pieces(const sr_example *e, int32_t limit) {
    int32_t body = limit - sr_example_specials(e), pieces = (e->a_tokens + body - 1) / body;
    return limit == 0 || pieces < 1 ? 1 : pieces;
}

sr_example sr_example_piece(const sr_example *e, int32_t limit, int32_t piece) {
    sr_example cut = *e;
    int32_t body = limit - sr_example_specials(e), before = (piece - 1) * body;
    int32_t left = e->a_tokens - before;
    if (sr_example_pieces(e, limit) == 1) return cut;
    uint64_t a = sr_example_a(e) + (uint64_t)before;
    cut.a_low = (uint32_t)a;
    cut.a_high = (uint8_t)(a >> 32);
    cut.a_tokens = (uint16_t)(left < body ? left : body);
    cut.flags |= SR_EXAMPLE_CUT;
    return cut;
}

int32_t sr_example_place(const sr_example *e, uint64_t token) {
    uint64_t a = sr_example_a(e), b = sr_example_b(e);
    if (token >= a && token - a < e->a_tokens) return (int32_t)(token - a) + sr_example_a_at(e);
    if (token >= b && token - b < e->b_tokens) return (int32_t)(token - b) + sr_example_b_at(e);
    return -1;
}

/* Writes special tokens from position `at` on, and returns the position after them. */
static int32_t put_part(const sr_frame_part *part, int32_t *ids, int32_t *types, int32_t at) {
    for (int32_t i = 0; i < part->count; i++, at++) {
        ids[at] = part->ids[i];
        types[at] = part->types[i];
    }
    return at;
}

static int32_t put_types(int32_t *types, int32_t at, int32_t count, int32_t type) {
    for (int32_t i = 0; i < count; i++) types[at + i] = type;
    return at + count;
}

sr_status sr_example_sequence(const sr_example *e, const sr_dataset *d, int32_t *ids,
                              int32_t *types) {
    const sr_frame *f = sr_dataset_frame(d, e->b_tokens);
    int32_t at = put_part(&f->lead, ids, types, 0);
    SR_TRY(sr_dataset_ids(d, ids + at, sr_example_a(e), e->a_tokens));
    at = put_types(types, at, e->a_tokens, f->types[0]);
    at = put_part(&f->middle, ids, types, at);
    if (e->b_tokens > 0) SR_TRY(sr_dataset_ids(d, ids + at, sr_example_b(e), e->b_tokens));
    at = put_types(types, at, e->b_tokens, f->types[1]);
    put_part(&f->tail, ids, types, at);
    return SR_OK;
}
