/* plan_text.c - the text form of a plan.
 *
 *     seqrun plan 1
 *     solver lpfhp
 *     capacity 512
 *     max_seqs any
 *     longer 0                 sequences truncated or split beforehand
 *     lost 0                   tokens removed by truncation
 *     bound 8135727 l2
 *     milliseconds 0.061
 *     lengths 508              then one line each: length count
 *     patterns 670             then one line each: packs, parts as `length` or `lengthxcopies`
 *     checksum 32 hex digits   XXH3-128 of every byte before this line
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/draft.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/pack/plan.h"

/* ---- writing ---- */

typedef struct text {
    char *bytes;
    size_t size, room;
} text;

__attribute__((format(printf, 2, 3))) static sr_status put(text *t, const char *format, ...) {
    if (t->room - t->size < 128) {
        size_t room = t->room < 4096 ? 4096 : t->room * 2;
        SR_TRY(sr_grow(&t->bytes, room));
        t->room = room;
    }
    va_list args;
    va_start(args, format);
    t->size += (size_t)vsnprintf(t->bytes + t->size, t->room - t->size, format, args);
    va_end(args);
    return SR_OK;
}

static sr_status put_head(text *t, const sr_plan *p) {
    SR_TRY(put(t, "seqrun plan 1\nsolver %s\ncapacity %d\n", p->solver, p->capacity));
    SR_TRY(p->max_seqs > 0 ? put(t, "max_seqs %d\n", p->max_seqs) : put(t, "max_seqs any\n"));
    SR_TRY(
        put(t, "longer %" PRId64 "\nlost %" PRId64 "\n", p->histogram.longer, p->histogram.lost));
    SR_TRY(put(t, "bound %" PRId64 " %s\n", p->bound.packs, sr_bound_name(p->bound.kind)));
    return put(t, "milliseconds %.6g\n", p->milliseconds);
}

static sr_status put_lengths(text *t, const sr_histogram *h) {
    int32_t rows = 0;
    for (int32_t l = 1; l <= h->capacity; l++) rows += h->count[l] > 0;
    SR_TRY(put(t, "lengths %d\n", rows));
    for (int32_t l = 1; l <= h->capacity; l++)
        if (h->count[l] > 0) SR_TRY(put(t, "%d %" PRId64 "\n", l, h->count[l]));
    return SR_OK;
}

static sr_status put_patterns(text *t, const sr_plan *p) {
    SR_TRY(put(t, "patterns %zu\n", p->strategies));
    for (size_t i = 0; i < p->strategies; i++) {
        const sr_plan_pattern *q = &p->pattern[i];
        SR_TRY(put(t, "%" PRId64, q->count));
        for (uint32_t k = 0; k < q->parts; k++) {
            sr_plan_part part = p->part[q->first + k];
            SR_TRY(part.copies == 1 ? put(t, " %u", part.length)
                                    : put(t, " %ux%u", part.length, part.copies));
        }
        SR_TRY(put(t, "\n"));
    }
    return SR_OK;
}

static sr_status put_checksum(text *t) {
    XXH128_hash_t sum = XXH3_128bits(t->bytes, t->size);
    return put(t, "checksum %016" PRIx64 "%016" PRIx64 "\n", (uint64_t)sum.high64,
               (uint64_t)sum.low64);
}

sr_status sr_plan_print(char **out, size_t *size, const sr_plan *plan) {
    text t = {0};
    *out = NULL;
    sr_status st;
    SR_GO(fail, st, put_head(&t, plan));
    SR_GO(fail, st, put_lengths(&t, &plan->histogram));
    SR_GO(fail, st, put_patterns(&t, plan));
    SR_GO(fail, st, put_checksum(&t));
    *out = t.bytes;
    *size = t.size;
    return SR_OK;
fail:
    sr_free(t.bytes);
    return st;
}

sr_status sr_plan_save(const sr_plan *plan, const char *path) {
    char *bytes;
    size_t size;
    SR_TRY(sr_plan_print(&bytes, &size, plan));
    sr_status st = sr_file_replace(path, bytes, size);
    sr_free(bytes);
    return st;
}

/* ---- reading ---- */

typedef struct scan {
    const char *at, *end, *name;
    int64_t line;
} scan;

static sr_status bad(const scan *s, const char *what) {
    return sr_fail(SR_EDATA, "%s:%" PRId64 ": %s", s->name, s->line, what);
}

static bool next_is(scan *s, char c) {
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    return true;
}

static sr_status scan_newline(scan *s) {
    if (!next_is(s, '\n')) return bad(s, "expected the end of the line");
    s->line++;
    return SR_OK;
}

static sr_status scan_word(scan *s, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0) {
        char why[96];
        snprintf(why, sizeof why, "expected '%s'", word);
        return bad(s, why);
    }
    s->at += n;
    return SR_OK;
}

/* Parses an integer, least <= *out <= most. */
static sr_status scan_int(scan *s, int64_t *out, int64_t least, int64_t most) {
    const char *from = s->at;
    int64_t n = 0;
    bool fits = true;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        fits = fits && !__builtin_mul_overflow(n, (int64_t)10, &n) &&
               !__builtin_add_overflow(n, (int64_t)(*s->at - '0'), &n);
    if (s->at == from) return bad(s, "not an integer");
    if (!fits || n < least || n > most) {
        char why[96];
        snprintf(why, sizeof why, "number outside %" PRId64 "..%" PRId64, least, most);
        return bad(s, why);
    }
    *out = n;
    return SR_OK;
}

/* Parses letters, digits and _-+. up to a space or the end of the line. */
static sr_status scan_name(scan *s, char *out, size_t room) {
    size_t n = 0;
    for (; s->at < s->end && *s->at != ' ' && *s->at != '\n'; s->at++) {
        if (n + 1 >= room || (unsigned char)*s->at <= ' ' || (unsigned char)*s->at >= 127)
            return bad(s, "not a name");
        out[n++] = *s->at;
    }
    out[n] = '\0';
    return n > 0 ? SR_OK : bad(s, "a name is missing");
}

static sr_status scan_bound(scan *s, sr_bound *out) {
    char kind[16];
    SR_TRY(scan_word(s, "bound "));
    SR_TRY(scan_int(s, &out->packs, 0, INT64_MAX));
    SR_TRY(scan_word(s, " "));
    SR_TRY(scan_name(s, kind, sizeof kind));
    for (int k = SR_BOUND_TOKENS; k <= SR_BOUND_LP; k++)
        if (strcmp(kind, sr_bound_name((sr_bound_kind)k)) == 0) {
            out->kind = (sr_bound_kind)k;
            return scan_newline(s);
        }
    return bad(s, "unknown kind of bound; expected tokens, count, l2 or lp");
}

static sr_status scan_milliseconds(scan *s, double *out) {
    char digits[32], *end;
    SR_TRY(scan_word(s, "milliseconds "));
    SR_TRY(scan_name(s, digits, sizeof digits));
    *out = strtod(digits, &end);
    if (*end != '\0' || !(*out >= 0 && *out < 1e15)) return bad(s, "not a time in milliseconds");
    return scan_newline(s);
}

static sr_status scan_field(scan *s, const char *word, int64_t *out, int64_t least, int64_t most) {
    SR_TRY(scan_word(s, word));
    SR_TRY(scan_int(s, out, least, most));
    return scan_newline(s);
}

static sr_status scan_head(scan *s, sr_plan *p) {
    int64_t capacity, max_seqs = 0, longer, lost;
    if (scan_word(s, "seqrun plan ") != SR_OK) return bad(s, "not a seqrun plan");
    if (scan_word(s, "1\n") != SR_OK) return bad(s, "unsupported version; expected version 1");
    s->line++;
    SR_TRY(scan_word(s, "solver "));
    SR_TRY(scan_name(s, p->solver, sizeof p->solver));
    SR_TRY(scan_newline(s));
    SR_TRY(scan_field(s, "capacity ", &capacity, 1, SR_MAX_LENGTH));
    SR_TRY(scan_word(s, "max_seqs "));
    if (scan_word(s, "any") != SR_OK) SR_TRY(scan_int(s, &max_seqs, 1, INT32_MAX));
    SR_TRY(scan_newline(s));
    SR_TRY(scan_field(s, "longer ", &longer, 0, INT64_MAX));
    SR_TRY(scan_field(s, "lost ", &lost, 0, INT64_MAX));
    SR_TRY(scan_bound(s, &p->bound));
    SR_TRY(scan_milliseconds(s, &p->milliseconds));
    p->capacity = (int32_t)capacity;
    p->max_seqs = (int32_t)max_seqs;
    SR_TRY(sr_histogram_new(&p->histogram, capacity));
    p->histogram.longer = longer;
    p->histogram.lost = lost;
    return SR_OK;
}

static sr_status scan_lengths(scan *s, sr_histogram *h) {
    int64_t rows, length, before = 0, n;
    SR_TRY(scan_field(s, "lengths ", &rows, 0, h->capacity));
    for (; rows > 0; rows--) {
        SR_TRY(scan_int(s, &length, before + 1, h->capacity));
        SR_TRY(scan_word(s, " "));
        SR_TRY(scan_int(s, &n, 1, INT64_MAX));
        if (sr_histogram_add(h, length, n, SR_LONG_ERROR) != SR_OK)
            return bad(s, "integer overflow in the sequences");
        SR_TRY(scan_newline(s));
        before = length;
    }
    return SR_OK;
}

static sr_status scan_parts(scan *s, sr_plan *p, sr_plan_pattern *q, size_t *room) {
    for (int64_t length, copies; next_is(s, ' '); q->parts++) {
        copies = 1;
        SR_TRY(scan_int(s, &length, 1, p->capacity));
        if (next_is(s, 'x')) SR_TRY(scan_int(s, &copies, 2, SR_MAX_LENGTH));
        if (p->parts == *room) {
            SR_TRY(sr_grow(&p->part, *room * 2));
            *room *= 2;
        }
        p->part[p->parts++] = (sr_plan_part){(uint16_t)length, (uint16_t)copies};
    }
    return scan_newline(s);
}

static sr_status scan_patterns(scan *s, sr_plan *p) {
    int64_t rows;
    size_t room = 256;
    /* a pattern takes at least 4 bytes, so the size of the file bounds allocations */
    SR_TRY(scan_field(s, "patterns ", &rows, 0, (s->end - s->at) / 4));
    SR_TRY(sr_new(&p->pattern, rows));
    SR_TRY(sr_new(&p->part, room));
    for (; (int64_t)p->strategies < rows; p->strategies++) {
        sr_plan_pattern *q = &p->pattern[p->strategies];
        SR_TRY(scan_int(s, &q->count, 1, INT64_MAX));
        q->first = (uint32_t)p->parts;
        SR_TRY(scan_parts(s, p, q, &room));
    }
    return SR_OK;
}

static sr_status scan_checksum(scan *s, const char *bytes) {
    char line[64];
    XXH128_hash_t sum = XXH3_128bits(bytes, (size_t)(s->at - bytes));
    snprintf(line, sizeof line, "checksum %016" PRIx64 "%016" PRIx64 "\n", (uint64_t)sum.high64,
             (uint64_t)sum.low64);
    if (scan_word(s, line) != SR_OK)
        return bad(s, "the checksum does not match; the file was modified or truncated");
    return s->at == s->end ? SR_OK : bad(s, "data after the checksum");
}

static sr_status scan_plan(sr_plan *p, const char *bytes, size_t size, const char *name) {
    scan s = {bytes, bytes + size, name, 1};
    SR_TRY(scan_head(&s, p));
    SR_TRY(scan_lengths(&s, &p->histogram));
    SR_TRY(scan_patterns(&s, p));
    SR_TRY(scan_checksum(&s, bytes));
    sr_plan_sum(p);
    sr_status st = sr_plan_check(p);
    if (st != SR_EDATA) return st;
    char why[512];
    snprintf(why, sizeof why, "%s", sr_message());
    return sr_fail(SR_EDATA, "%s: invalid plan: %s", name, why);
}

sr_status sr_plan_parse(sr_plan **out, const void *bytes, size_t size, const char *name) {
    sr_plan *p;
    *out = NULL;
    SR_TRY(sr_new(&p, 1));
    sr_status st = scan_plan(p, bytes, size, name);
    return SR_GIVE(out, p, st, sr_plan_free);
}

sr_status sr_plan_load(sr_plan **out, const char *path) {
    void *bytes;
    size_t size;
    *out = NULL;
    SR_TRY(sr_file_read(&bytes, &size, path, (size_t)4 << 30));
    sr_status st = sr_plan_parse(out, bytes, size, path);
    sr_free(bytes);
    return st;
}
