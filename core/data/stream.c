#include "core/data/stream.h"

#include "core/base/mem.h"

/* ---- parts ---- */

static uint64_t unit_first(const sr_stream *s, int64_t i) {
    return s->d->unit_token[s->d->part[s->opts.part].unit[i]];
}

static uint64_t unit_end(const sr_stream *s, int64_t i) {
    return s->d->unit_token[s->d->part[s->opts.part].unit[i] + 1];
}

/* The end of the part that begins with unit `first`. */
static int64_t part_end(const sr_stream *s, int64_t first) {
    int64_t units = s->d->part[s->opts.part].count, end = first + 1;
    uint64_t from = unit_first(s, first);
    while (end < units && unit_end(s, end) - from <= SR_STREAM_TOKENS) end++;
    return end;
}

static sr_status divide(sr_stream *s) {
    int64_t units = s->d->part[s->opts.part].count, parts = 0;
    for (int64_t i = 0; i < units; i = part_end(s, i)) parts++;
    SR_TRY(sr_new(&s->end, parts));
    for (int64_t i = 0; i < units;) s->end[s->parts++] = i = part_end(s, i);
    return SR_OK;
}

sr_status sr_stream_open(sr_stream *s, const sr_dataset *d, const sr_examples_opts *opts) {
    *s = (sr_stream){.d = d, .opts = *opts};
    SR_TRY(sr_examples_check(d, opts));
    return divide(s);
}

void sr_stream_close(sr_stream *s) {
    sr_free(s->end);
    *s = (sr_stream){0};
}

/* ---- reading ---- */

static sr_status read_ids(int32_t **ids, size_t *room, const sr_dataset *d, uint64_t first,
                          uint64_t count) {
    if (count > *room) {
        SR_TRY(sr_grow(ids, count));
        *room = count;
    }
    return sr_dataset_ids(d, *ids, first, count);
}

sr_status sr_stream_read(sr_stream_part *w, const sr_stream *s, int64_t part) {
    int64_t first = part == 0 ? 0 : s->end[part - 1], end = s->end[part];
    w->drawn.count = 0;
    for (int64_t i = first; i < end; i++) SR_TRY(sr_examples_draw(&w->drawn, s->d, &s->opts, i));
    w->count = 0;
    w->end = unit_end(s, end - 1);
    return SR_OK;
}

static bool holds(const sr_stream_part *w, uint64_t first, int32_t count) {
    return first >= w->first && first - w->first + (uint64_t)count <= w->count;
}

/* Makes the window hold tokens first .. first + count - 1, and what follows them. */
static sr_status hold(sr_stream_part *w, const sr_stream *s, uint64_t first, int32_t count) {
    if (holds(w, first, count)) return SR_OK;
    uint64_t n = w->end - first < SR_STREAM_TOKENS ? w->end - first : SR_STREAM_TOKENS;
    w->count = 0;
    SR_TRY(read_ids(&w->ids, &w->room, s->d, first, n));
    w->first = first;
    w->count = n;
    return SR_OK;
}

sr_status sr_stream_tokens(sr_segments *out, sr_stream_part *w, const sr_stream *s, size_t i) {
    const sr_example *e = &w->drawn.example[i];
    uint64_t b = sr_example_b(e);
    SR_TRY(hold(w, s, sr_example_a(e), e->a_tokens));
    *out = (sr_segments){.a = w->ids + (sr_example_a(e) - w->first),
                         .a_count = e->a_tokens,
                         .b = w->ids,
                         .b_count = e->b_tokens};
    if (e->b_tokens == 0) return SR_OK;
    if (holds(w, b, e->b_tokens)) {
        out->b = w->ids + (b - w->first);
        return SR_OK;
    }
    SR_TRY(read_ids(&w->b, &w->b_room, s->d, b, e->b_tokens));
    out->b = w->b;
    return SR_OK;
}

void sr_stream_part_close(sr_stream_part *w) {
    sr_free(w->drawn.example);
    sr_free(w->ids);
    sr_free(w->b);
    *w = (sr_stream_part){0};
}

/* ---- counting ---- */

typedef struct counter {
    sr_stream_part window;
    uint64_t *count;
    int64_t sequences, tokens;
} counter;

typedef struct counting {
    const sr_stream *s;
    counter *of; /* (workers) */
} counting;

static void add_ids(uint64_t *count, const int32_t *ids, int32_t n) {
    for (int32_t i = 0; i < n; i++) count[ids[i]]++;
}

static void add_part(uint64_t *count, const sr_frame_part *part, int64_t times) {
    for (int32_t i = 0; i < part->count; i++) count[part->ids[i]] += (uint64_t)times;
}

static void add_frames(counter *to, const sr_frame *f, int64_t times) {
    add_part(to->count, &f->lead, times);
    add_part(to->count, &f->middle, times);
    add_part(to->count, &f->tail, times);
    to->tokens += times * sr_frame_size(f);
}

static sr_status count_part(void *context, int64_t part, int worker) {
    const counting *c = context;
    counter *to = &c->of[worker];
    if (sr_stop_requested()) return sr_fail(SR_ESTOP, "stopped while counting tokens");
    SR_TRY(sr_stream_read(&to->window, c->s, part));
    int64_t n = (int64_t)to->window.drawn.count, pairs = 0;
    for (int64_t i = 0; i < n; i++) {
        sr_segments t;
        SR_TRY(sr_stream_tokens(&t, &to->window, c->s, (size_t)i));
        add_ids(to->count, t.a, t.a_count);
        add_ids(to->count, t.b, t.b_count);
        pairs += t.b_count > 0;
        to->tokens += t.a_count + t.b_count;
    }
    add_frames(to, sr_dataset_frame(c->s->d, 1), pairs);
    add_frames(to, sr_dataset_frame(c->s->d, 0), n - pairs);
    to->sequences += n;
    return SR_OK;
}

static sr_status count_all(counting *c, sr_threads *threads, int workers) {
    int64_t size = sr_tokenizer_size(c->s->d->tokenizer);
    for (int i = 0; i < workers; i++) SR_TRY(sr_new(&c->of[i].count, size));
    return sr_threads_run(threads, count_part, c, c->s->parts);
}

sr_status sr_stream_counts(uint64_t *count, int64_t *sequences, int64_t *tokens, const sr_stream *s,
                           sr_threads *threads) {
    int workers = threads != NULL ? sr_threads_count(threads) : 1;
    int32_t size = sr_tokenizer_size(s->d->tokenizer);
    counting c = {.s = s};
    *sequences = *tokens = 0;
    SR_TRY(sr_new(&c.of, workers));
    sr_status st = count_all(&c, threads, workers);
    for (int i = 0; i < workers; i++) {
        for (int32_t id = 0; st == SR_OK && id < size; id++) count[id] += c.of[i].count[id];
        *sequences += c.of[i].sequences;
        *tokens += c.of[i].tokens;
        sr_stream_part_close(&c.of[i].window);
        sr_free(c.of[i].count);
    }
    sr_free(c.of);
    return st;
}
