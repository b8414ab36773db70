/* tokenizer_run.c - text to ids through all parts of a tokenizer.json. */
#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/classes.h"
#include "core/tokenizer/parts.h"
#include "core/unicode/utf8.h"
#include "core/tokenizer/word_cache.h"

/* A piece whose place in the cache is on its way from memory. */
typedef struct ahead {
    uint64_t key[SR_CACHE_KEY / 8]; /* of pieces up to SR_CACHE_KEY */
    size_t first, last;
} ahead;

enum { AHEAD = 16 };

/* What one call needs, kept for the next. */
struct sr_text_scratch {
    ahead ahead[AHEAD];
    int ahead_count;
    sr_pre_work work;            /* work.text is what is being cut */
    sr_run fixed, normal, other; /* the text with U+FFFD for what is invalid; a part, normalized */
    sr_changes changes;
    sr_added_parts raw, inner;
    sr_parts parts;
    sr_model_room room;
    uint32_t *places; /* of each code point, in bytes */
    size_t place_room;
};

static void free_scratch(sr_text_scratch *s) {
    if (s == NULL) return;
    sr_pre_work_free(&s->work);
    sr_run_free(&s->fixed);
    sr_run_free(&s->normal);
    sr_run_free(&s->other);
    sr_free(s->changes.list);
    sr_free(s->raw.list);
    sr_free(s->inner.list);
    sr_free(s->parts.list);
    for (int i = 0; i < 2; i++) sr_free(s->room.memory[i]);
    sr_free(s->places);
    sr_free(s);
}

typedef struct job {
    sr_tokens *tokens;
    const sr_tokenizer *t;
    sr_text_scratch *s;
    bool spaced, aligned;
    size_t first; /* token of this call */
} job;

/* ---- tokens ---- */

static bool is_mark(const uint8_t *bytes, size_t left) {
    return left >= 3 && bytes[0] == 0xE2 && bytes[1] == 0x96 && bytes[2] == 0x81;
}

/* Whether the character at bytes[first, last) of a token is a space to the byte level.  Pieces of
 * the byte level are bytes; added tokens and other pieces are text. */
static bool is_space(const uint8_t *bytes, size_t first, size_t last, bool text) {
    int32_t cp;
    if (!text) return bytes[first] == ' ';
    sr_utf8_decode(&cp, bytes + first, last - first);
    return cp == 0x120 || (cp >= 0 && (sr_class_of(cp) & SR_CLASS_SPACE) != 0);
}

static bool continues(const uint8_t *bytes, size_t at, bool text) {
    return text && (bytes[at] & 0xC0) == 0x80;
}

/* Leaves spaces out of the position of a token, as the post-processor ByteLevel does. */
static void trim(const job *j, sr_text_span *span, bool first, const uint8_t *bytes, size_t size,
                 bool text) {
    uint32_t leading = 0, trailing = 0;
    for (size_t at = 0, next; at < size; at = next, leading++) {
        next = at + 1;
        while (next < size && continues(bytes, next, text)) next++;
        if (!is_space(bytes, at, next, text)) break;
    }
    for (size_t end = size, from; end > 0; end = from, trailing++) {
        from = end - 1;
        while (from > 0 && continues(bytes, from, text)) from--;
        if (!is_space(bytes, from, end, text)) break;
    }
    bool added = (first || span->char_first == 0) && (j->t->post.trim_prefix || j->spaced);
    if (leading == 1 && added) leading = 0; /* it may be the one that was added */
    uint32_t start = span->char_first + leading;
    span->char_first = start < span->char_last ? start : span->char_last;
    if (trailing == 0 || span->char_last < trailing) return;
    uint32_t last = span->char_last - trailing;
    span->char_last = last > span->char_first ? last : span->char_first;
}

/* Adds a token that is bytes [first, last) of a run. */
static void put(job *j, int32_t id, const sr_run *r, size_t first, size_t last, bool start,
                bool text) {
    sr_tokens *k = j->tokens;
    if (k->want_spans) {
        sr_text_span span = {0};
        if (r->size > 0) {
            span.char_first = r->from[first < r->size ? first : r->size - 1];
            span.char_last = last > first ? r->to[last - 1] : span.char_first;
        }
        bool spaces = j->t->kind->spaces && id == j->t->model->unknown;
        if (j->t->post.trim && !spaces)
            trim(j, &span, k->count == j->first, r->bytes + first, last - first, text);
        k->spans[k->count] = span;
    }
    if (k->want_starts)
        k->starts[k->count] =
            start || (!j->t->pre.bytes && is_mark(r->bytes + first, r->size - first));
    k->ids[k->count++] = id;
}

/* ---- a piece through the cache ---- */

/* Caches the tokens of a piece, if they are few and lie side by side. */
static void keep(sr_word_cache *cache, const uint64_t key[SR_CACHE_KEY / 8], size_t size,
                 const sr_parts *p, uint64_t unknown) {
    if (p->count > SR_CACHE_IDS || p->unknown - unknown > UINT8_MAX) return;
    uint32_t at = 0;
    for (size_t i = 0; i < p->count; at = p->list[i++].last)
        if (p->list[i].first != at) return;
    if (at != size) return;
    sr_cached *e = sr_cache_add(cache, key, size);
    e->count = (uint8_t)p->count;
    e->unknown = (uint8_t)(p->unknown - unknown);
    for (size_t i = 0; i < p->count; i++) {
        e->ids[i] = p->list[i].id;
        e->ends[i] = (uint8_t)p->list[i].last;
    }
}

static sr_status put_cached(job *j, const sr_cached *e, const sr_run *r, size_t first) {
    sr_tokens *k = j->tokens;
    SR_TRY(sr_tokens_reserve(k, SR_CACHE_IDS));
    k->unknown += e->unknown;
    if (!k->want_spans && !k->want_starts) {
        memcpy(k->ids + k->count, e->ids, sizeof e->ids);
        k->count += e->count;
        return SR_OK;
    }
    for (size_t i = 0, at = first; i < e->count; at = first + e->ends[i++])
        put(j, e->ids[i], r, at, first + e->ends[i], i == 0, !j->t->pre.bytes);
    return SR_OK;
}

static sr_status put_piece(job *j, const sr_run *r, const ahead *a) {
    size_t size = a->last - a->first;
    if (size <= SR_CACHE_KEY) {
        const sr_cached *e = sr_cache_find(j->tokens->cache, a->key, size);
        if (e != NULL) return put_cached(j, e, r, a->first);
    }
    sr_parts *p = &j->s->parts;
    uint64_t unknown = p->unknown;
    SR_TRY(j->t->kind->encode(p, j->t->model, &j->s->room, r->bytes + a->first, size));
    j->tokens->unknown += p->unknown - unknown;
    SR_TRY(sr_tokens_reserve(j->tokens, p->count));
    for (size_t i = 0; i < p->count; i++)
        put(j, p->list[i].id, r, a->first + p->list[i].first, a->first + p->list[i].last, i == 0,
            !j->t->pre.bytes);
    if (size <= SR_CACHE_KEY) keep(j->tokens->cache, a->key, size, p, unknown);
    return SR_OK;
}

static sr_status put_pieces(job *j, const sr_run *r) {
    sr_text_scratch *s = j->s;
    for (int i = 0; i < s->ahead_count; i++) SR_TRY(put_piece(j, r, &s->ahead[i]));
    s->ahead_count = 0;
    return SR_OK;
}

/* Takes a piece in; it is put later, by put_pieces(). */
static sr_status add_piece(job *j, const sr_run *r, size_t first, size_t last) {
    sr_text_scratch *s = j->s;
    if (s->ahead_count == AHEAD) SR_TRY(put_pieces(j, r));
    ahead *a = &s->ahead[s->ahead_count++];
    a->first = first, a->last = last;
    if (last - first > SR_CACHE_KEY) return SR_OK;
    sr_cache_key(a->key, r->bytes + first, last - first, r->bytes + r->size + SR_RUN_AFTER);
    __builtin_prefetch(sr_cache_places(j->tokens->cache, a->key));
    return SR_OK;
}

/* A piece in parts: no token reaches over the start of a U+2581 after another character. */
static sr_status add_cut(job *j, const sr_run *r, size_t first, size_t last) {
    size_t done = first;
    for (size_t at = first + 1; at + 3 <= last; at++) {
        const uint8_t *found = memchr(r->bytes + at, 0xE2, last - at);
        if (found == NULL) break;
        at = (size_t)(found - r->bytes);
        if (!is_mark(found, last - at) || (at >= first + 3 && is_mark(found - 3, 3))) continue;
        SR_TRY(add_piece(j, r, done, at));
        done = at;
    }
    return add_piece(j, r, done, last);
}

/* ---- text between added tokens ---- */

/* Bytes [first, last) of s->normal, which are all of it if `whole`. */
static sr_status put_text(job *j, size_t first, size_t last, bool whole) {
    sr_text_scratch *s = j->s;
    const sr_tokenizer *t = j->t;
    if (first == last) return SR_OK;
    if (t->pre.scan != NULL && !j->spaced) {
        for (size_t at = first, end; at < last; at = end) {
            end = t->pre.scan(s->normal.bytes, at, last);
            SR_TRY(add_piece(j, &s->normal, at, end));
        }
        return put_pieces(j, &s->normal);
    }
    sr_run_clear(&s->work.text, j->aligned);
    if (whole) {
        sr_run run = s->work.text;
        s->work.text = s->normal;
        s->normal = run;
    } else {
        SR_TRY(sr_run_copy(&s->work.text, &s->normal, first, last));
    }
    SR_TRY(sr_pretokenize(&s->work, &t->pre, j->spaced));
    for (size_t i = 0; i < s->work.pieces.count; i++) {
        const sr_piece *p = &s->work.pieces.list[i];
        SR_TRY(t->model->cuts ? add_cut(j, &s->work.text, p->first, p->last)
                              : add_piece(j, &s->work.text, p->first, p->last));
    }
    return put_pieces(j, &s->work.text);
}

static sr_status put_added(job *j, const sr_run *r, int32_t id, size_t first, size_t last) {
    SR_TRY(sr_tokens_reserve(j->tokens, 1));
    put(j, id, r, first, last, true, true);
    return SR_OK;
}

/* s->normal, not yet normalized. */
static sr_status put_segment(job *j) {
    sr_text_scratch *s = j->s;
    const sr_tokenizer *t = j->t;
    if (j->spaced && !t->pre.bytes && sr_normalizer_marks(&t->normalizer) &&
        !sr_pretokenizer_marks(&t->pre)) {
        uint32_t from = s->normal.aligned && s->normal.size > 0 ? s->normal.from[0] : 0;
        uint32_t to = s->normal.aligned && s->normal.size > 0 ? s->normal.to[0] : 0;
        sr_run_clear(&s->other, j->aligned);
        SR_TRY(sr_run_add(&s->other, " ", 1, from, to));
        SR_TRY(sr_run_copy(&s->other, &s->normal, 0, s->normal.size));
        sr_run run = s->other;
        s->other = s->normal;
        s->normal = run;
    }
    SR_TRY(sr_normalize(&s->normal, &s->other, &t->normalizer, &s->work.matcher, &s->changes));
    if (!t->added.any[1]) return put_text(j, 0, s->normal.size, true);
    SR_TRY(sr_added_split(&s->inner, &t->added, 1, t->literal, s->normal.bytes, s->normal.size));
    for (size_t i = 0; i < s->inner.count; i++) {
        const sr_added_part *p = &s->inner.list[i];
        bool whole = s->inner.count == 1;
        SR_TRY(p->id >= 0 ? put_added(j, &s->normal, p->id, p->first, p->last)
                          : put_text(j, p->first, p->last, whole));
    }
    return SR_OK;
}

/* ---- a text ---- */

/* A place in the text, in bytes and code points. */
typedef struct place {
    size_t byte;
    uint32_t chars;
} place;

/* Puts bytes [first, last) of the text into s->normal. */
static sr_status load(job *j, const uint8_t *text, size_t first, size_t last, place *at) {
    sr_run *r = &j->s->normal;
    sr_run_clear(r, j->aligned);
    SR_TRY(sr_run_reserve(r, last - first));
    memcpy(r->bytes, text + first, last - first);
    r->size = last - first;
    if (!j->aligned) return SR_OK;
    if (at->byte > first) *at = (place){0};
    for (; at->byte < first; at->byte++) at->chars += (text[at->byte] & 0xC0) != 0x80;
    for (size_t i = first; i < last; i++) {
        at->chars += (text[i] & 0xC0) != 0x80;
        r->from[i - first] = at->chars - 1;
        r->to[i - first] = at->chars;
    }
    at->byte = last;
    return SR_OK;
}

static sr_status put_all(job *j, const uint8_t *text, size_t size) {
    sr_text_scratch *s = j->s;
    const sr_tokenizer *t = j->t;
    place at = {0};
    SR_TRY(sr_added_split(&s->raw, &t->added, 0, t->literal, text, size));
    for (size_t i = 0; i < s->raw.count; i++) {
        const sr_added_part p = s->raw.list[i];
        if (p.id >= 0 && !j->tokens->want_spans) {
            static const sr_run nowhere;
            SR_TRY(put_added(j, &nowhere, p.id, 0, 0));
            continue;
        }
        SR_TRY(load(j, text, p.first, p.last, &at));
        SR_TRY(p.id >= 0 ? put_added(j, &s->normal, p.id, 0, p.last - p.first) : put_segment(j));
    }
    return SR_OK;
}

/* The text with U+FFFD for every invalid sequence. */
static sr_status fix(job *j, const uint8_t **text, size_t *size) {
    sr_run *r = &j->s->fixed;
    sr_run_clear(r, false);
    SR_TRY(sr_run_reserve(r, 3 * *size));
    for (size_t at = 0; at < *size;) {
        int32_t cp;
        at += (size_t)sr_utf8_decode(&cp, *text + at, *size - at);
        r->size += (size_t)sr_utf8_encode(r->bytes + r->size, cp >= 0 ? cp : SR_UTF8_REPLACEMENT);
    }
    *text = r->bytes;
    *size = r->size;
    return SR_OK;
}

/* Gives the spans of this call their bytes in the text as it was given. */
static sr_status place_bytes(job *j, const uint8_t *text, size_t size) {
    sr_text_scratch *s = j->s;
    if (size + 1 > s->place_room) {
        SR_TRY(sr_grow(&s->places, size + size / 2 + 64));
        s->place_room = size + size / 2 + 64;
    }
    uint32_t chars = 0;
    for (size_t at = 0; at < size; chars++) {
        int32_t cp;
        s->places[chars] = (uint32_t)at;
        at += (size_t)sr_utf8_decode(&cp, text + at, size - at);
    }
    s->places[chars] = (uint32_t)size;
    for (size_t i = j->first; i < j->tokens->count; i++) {
        sr_text_span *span = &j->tokens->spans[i];
        span->byte_first = s->places[span->char_first];
        span->byte_last = s->places[span->char_last];
    }
    return SR_OK;
}

static sr_status run(job *j, const uint8_t *bytes, size_t size) {
    const uint8_t *text = bytes;
    size_t length = size, invalid = sr_utf8_invalid(bytes, size, NULL);
    if (invalid > 0) SR_TRY(fix(j, &text, &length));
    SR_TRY(put_all(j, text, length));
    if (j->tokens->want_spans) SR_TRY(place_bytes(j, bytes, size));
    j->tokens->invalid += invalid;
    return SR_OK;
}

static sr_status run_all(sr_tokens *tokens, const sr_tokenizer *t, const void *bytes, size_t size,
                         bool spaced) {
    if (size >= (size_t)1 << 30)
        return sr_fail(SR_EINVAL, "tokenize: a text of %zu bytes; the maximum is 2^30 - 1", size);
    SR_TRY(sr_tokens_prepare_cache(tokens, t->serial, size));
    if (tokens->scratch == NULL) SR_TRY(sr_new(&tokens->scratch, 1));
    job j = {
        .tokens = tokens, .t = t, .s = tokens->scratch, .spaced = spaced, .first = tokens->count};
    j.aligned = tokens->want_spans || t->pre.needs_places;
    j.s->ahead_count = 0; /* a call that failed may have left some */
    if (size == 0) return SR_OK;
    sr_status st = run(&j, bytes, size);
    if (st != SR_OK) tokens->count = j.first;
    return st;
}

/* ---- the entry points ---- */

void sr_tokens_free(sr_tokens *tokens) {
    sr_free(tokens->ids);
    sr_free(tokens->spans);
    sr_free(tokens->starts);
    sr_word_cache_free(tokens->cache);
    free_scratch(tokens->scratch);
    *tokens = (sr_tokens){0};
}

sr_status sr_tokenize(sr_tokens *tokens, const sr_tokenizer *t, const void *bytes, size_t size) {
    if (t->fast != NULL) return sr_wordpiece_tokenize(tokens, t->fast, bytes, size);
    return run_all(tokens, t, bytes, size, false);
}

sr_status sr_tokenize_word(sr_tokens *tokens, const sr_tokenizer *t, const void *bytes,
                           size_t size) {
    if (t->fast != NULL) return sr_wordpiece_tokenize(tokens, t->fast, bytes, size);
    return run_all(tokens, t, bytes, size, true);
}

bool sr_tokenizer_splits(const sr_tokenizer *t) {
    return t->fast != NULL;
}
