#include "core/pack/histogram.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/draft.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/rng.h"

sr_status sr_histogram_new(sr_histogram *out, int64_t capacity) {
    memset(out, 0, sizeof *out);
    if (capacity < 1 || capacity > SR_MAX_LENGTH)
        return sr_fail(SR_EINVAL, "pack: capacity is %" PRId64 " tokens; must be 1 to %d", capacity,
                       SR_MAX_LENGTH);
    SR_TRY(sr_new(&out->count, capacity + 1));
    out->capacity = (int32_t)capacity;
    return SR_OK;
}

void sr_histogram_free(sr_histogram *h) {
    sr_free(h->count);
    memset(h, 0, sizeof *h);
}

/* Adds n sequences of a length that fits; checks all three sums before changing any. */
static sr_status add_fitting(sr_histogram *h, int64_t length, int64_t n) {
    int64_t sequences, slots;
    if (__builtin_add_overflow(h->sequences, n, &sequences) ||
        __builtin_mul_overflow(sequences, (int64_t)h->capacity, &slots))
        return sr_fail(SR_EDATA,
                       "pack: %" PRId64 " more sequences of %" PRId64
                       " tokens: overflow of sequences times %d; use fewer sequences",
                       n, length, h->capacity);
    h->count[length] += n;
    h->sequences = sequences;
    h->tokens += length * n;
    return SR_OK;
}

static sr_status add_split(sr_histogram *h, int64_t length, int64_t n) {
    int64_t whole = length / h->capacity, rest = length % h->capacity, pieces, total;
    if (__builtin_mul_overflow(whole, n, &pieces) || __builtin_add_overflow(pieces, n, &total))
        return sr_fail(SR_EDATA, "pack: integer overflow in the pieces of %" PRId64 " sequences",
                       n);
    sr_histogram before = *h;
    SR_TRY(add_fitting(h, h->capacity, pieces));
    sr_status st = rest > 0 ? add_fitting(h, rest, n) : SR_OK;
    if (st != SR_OK) { /* unchanged */
        *h = before;
        h->count[h->capacity] -= pieces;
    }
    return st;
}

sr_status sr_histogram_add(sr_histogram *h, int64_t length, int64_t n, sr_long_policy policy) {
    if (n == 0) return SR_OK;
    if (length < 1 || n < 0)
        return sr_fail(SR_EDATA,
                       "pack: %" PRId64 " sequences of %" PRId64
                       " tokens; a sequence must have at least 1 token",
                       n, length);
    if (length <= h->capacity) return add_fitting(h, length, n);
    if (policy == SR_LONG_ERROR)
        return sr_fail(SR_EDATA,
                       "pack: a sequence of %" PRId64 " tokens does not fit a pack of %d; raise "
                       "max_len, or set too_long to truncate or split",
                       length, h->capacity);
    int64_t cut = 0, lost = h->lost;
    if (policy == SR_LONG_TRUNCATE && (__builtin_mul_overflow(length - h->capacity, n, &cut) ||
                                       __builtin_add_overflow(lost, cut, &lost)))
        return sr_fail(SR_EDATA,
                       "pack: integer overflow in the tokens truncated from %" PRId64 " sequences",
                       n);
    SR_TRY(policy == SR_LONG_SPLIT ? add_split(h, length, n) : add_fitting(h, h->capacity, n));
    h->longer += n;
    h->lost = lost;
    return SR_OK;
}

static int64_t find_length(const sr_lengths *lengths, int64_t length) {
    for (int64_t i = 0; i < lengths->count; i++)
        if (sr_length_at(lengths, i) == length) return i;
    return -1;
}

/* Adds lengths; errors name the first such sequence, counted from 1. */
static sr_status add_counted(sr_histogram *h, const sr_lengths *lengths, int64_t length, int64_t n,
                             sr_long_policy policy) {
    sr_status st = sr_histogram_add(h, length, n, policy);
    if (st != SR_EDATA) return st;
    char why[512];
    snprintf(why, sizeof why, "%s", sr_message());
    return sr_fail(st, "%s (sequence %" PRId64 ")", why, find_length(lengths, length) + 1);
}

/* Two sets of counters, so that equal neighbours do not wait for each other's store. */
static void add_u16(int64_t *counted, int64_t *other, const uint16_t *at, int64_t count) {
    int64_t i = 0;
    for (; i + 1 < count; i += 2) counted[at[i]]++, other[at[i + 1]]++;
    if (i < count) counted[at[i]]++;
}

static sr_status count_u16(sr_histogram *h, const sr_lengths *lengths, sr_long_policy policy) {
    int64_t *counted;
    const int64_t room = SR_MAX_LENGTH + 1;
    SR_TRY(sr_new(&counted, 2 * room));
    add_u16(counted, counted + room, lengths->data, lengths->count);
    sr_status st = SR_OK;
    for (int64_t l = 0; l < room && st == SR_OK; l++)
        if (counted[l] + counted[room + l] > 0)
            st = add_counted(h, lengths, l, counted[l] + counted[room + l], policy);
    sr_free(counted);
    return st;
}

static sr_status count_u32(sr_histogram *h, const sr_lengths *lengths, sr_long_policy policy) {
    const uint32_t *at = lengths->data;
    for (int64_t i = 0; i < lengths->count; i++) {
        int64_t length = at[i];
        SR_TRY(add_counted(h, lengths, length, 1, policy));
    }
    return SR_OK;
}

sr_status sr_histogram_count(sr_histogram *out, const sr_lengths *lengths, int64_t capacity,
                             sr_long_policy policy) {
    SR_TRY(sr_histogram_new(out, capacity));
    sr_status st =
        lengths->width == 2 ? count_u16(out, lengths, policy) : count_u32(out, lengths, policy);
    if (st != SR_OK) sr_histogram_free(out);
    return st;
}

sr_status sr_histogram_copy(sr_histogram *out, const sr_histogram *h) {
    SR_TRY(sr_histogram_new(out, h->capacity));
    memcpy(out->count, h->count, ((size_t)h->capacity + 1) * sizeof *h->count);
    out->sequences = h->sequences;
    out->tokens = h->tokens;
    out->longer = h->longer;
    out->lost = h->lost;
    return SR_OK;
}

sr_status sr_histogram_fit(sr_histogram *out, const sr_histogram *h, int64_t capacity,
                           sr_long_policy policy) {
    SR_TRY(sr_histogram_new(out, capacity));
    sr_status st = SR_OK;
    for (int64_t l = 1; l <= h->capacity && st == SR_OK; l++)
        st = sr_histogram_add(out, l, h->count[l], policy);
    if (st != SR_OK) sr_histogram_free(out);
    out->longer += h->longer;
    out->lost += h->lost;
    return st;
}

/* Parses the next line as a count and advances *at past it. */
static sr_status parse_line(int64_t *out, const char **at, const char *end, const char *name,
                            int64_t line) {
    const char *p = *at, *from = p;
    int64_t n = 0;
    bool fits = true;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        fits = fits && !__builtin_mul_overflow(n, (int64_t)10, &n) &&
               !__builtin_add_overflow(n, (int64_t)(*p - '0'), &n);
    bool digits = p > from;
    if (p < end && *p == '\r') p++;
    if (!digits || (p < end && *p != '\n'))
        return sr_fail(SR_EDATA,
                       "%s:%" PRId64 ": not a count; line %" PRId64
                       " of a .hist file is the number of sequences of %" PRId64 " tokens",
                       name, line, line, line);
    if (!fits) return sr_fail(SR_EDATA, "%s:%" PRId64 ": a count above 2^63 - 1", name, line);
    *out = n;
    *at = p < end ? p + 1 : p;
    return SR_OK;
}

static int64_t count_lines(const char *bytes, size_t size) {
    int64_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += bytes[i] == '\n';
    return lines + (size > 0 && bytes[size - 1] != '\n');
}

static sr_status parse_lines(sr_histogram *h, const char *at, const char *end, const char *name,
                             sr_long_policy policy) {
    for (int64_t line = 1; at < end; line++) {
        int64_t n = 0;
        SR_TRY(parse_line(&n, &at, end, name, line));
        sr_status st = sr_histogram_add(h, line, n, policy);
        if (st == SR_OK) continue;
        char why[512];
        snprintf(why, sizeof why, "%s", sr_message());
        return sr_fail(st, "%s:%" PRId64 ": %s", name, line, why);
    }
    return SR_OK;
}

sr_status sr_histogram_parse(sr_histogram *out, const void *bytes, size_t size, const char *name,
                             int64_t capacity, sr_long_policy policy) {
    memset(out, 0, sizeof *out);
    int64_t lines = count_lines(bytes, size);
    if (lines == 0) return sr_fail(SR_EDATA, "%s: no lines; expected one count per line", name);
    if (lines > SR_MAX_LENGTH)
        return sr_fail(SR_EDATA, "%s:%d: too many lines; the maximum length is %d", name,
                       SR_MAX_LENGTH + 1, SR_MAX_LENGTH);
    SR_TRY(sr_histogram_new(out, capacity > 0 ? capacity : lines));
    sr_status st = parse_lines(out, bytes, (const char *)bytes + size, name, policy);
    if (st != SR_OK) sr_histogram_free(out);
    return st;
}

sr_status sr_histogram_load(sr_histogram *out, const char *path, int64_t capacity,
                            sr_long_policy policy) {
    void *bytes;
    size_t size;
    memset(out, 0, sizeof *out);
    SR_TRY(sr_file_read(&bytes, &size, path, (size_t)SR_MAX_LENGTH * 24));
    sr_status st = sr_histogram_parse(out, bytes, size, path, capacity, policy);
    sr_free(bytes);
    return st;
}

sr_status sr_histogram_save(const sr_histogram *h, const char *path) {
    char *text;
    SR_TRY(sr_new(&text, (size_t)h->capacity * 21 + 1));
    size_t at = 0;
    for (int32_t l = 1; l <= h->capacity; l++)
        at += (size_t)sprintf(text + at, "%" PRId64 "\n", h->count[l]);
    sr_status st = sr_file_replace(path, text, at);
    sr_free(text);
    return st;
}

sr_status sr_lengths_split(sr_split_piece **out, int64_t *count, const sr_lengths *lengths,
                           int64_t capacity) {
    *out = NULL;
    sr_histogram h;
    SR_TRY(sr_histogram_count(&h, lengths, capacity, SR_LONG_SPLIT));
    int64_t pieces = h.sequences, at = 0;
    sr_histogram_free(&h);
    if (pieces > UINT32_MAX)
        return sr_fail(SR_EDATA, "pack: %" PRId64 " pieces; the maximum is 2^32 - 1", pieces);
    SR_TRY(sr_new(out, pieces));
    for (int64_t uid = 0; uid < lengths->count; uid++) {
        uint32_t length = sr_length_at(lengths, uid);
        for (uint64_t start = 0; start < length; start += (uint64_t)capacity) {
            uint32_t left = length - (uint32_t)start;
            uint16_t take = (uint16_t)(left < capacity ? left : capacity);
            (*out)[at++] = (sr_split_piece){(uint32_t)uid, (uint32_t)start, take};
        }
    }
    *count = at;
    return SR_OK;
}

sr_status sr_histogram_shuffled(uint16_t **out, const sr_histogram *h, uint64_t seed) {
    *out = NULL;
    if (h->sequences >= UINT32_MAX)
        return sr_fail(SR_EDATA,
                       "pack: a stream holds fewer than 2^32 sequences, not %" PRId64
                       "; use a solver that works on counts, such as optimal",
                       h->sequences);
    SR_TRY(sr_new(out, h->sequences));
    uint16_t *length = *out;
    uint32_t n = 0;
    for (int32_t l = 1; l <= h->capacity; l++)
        for (int64_t i = 0; i < h->count[l]; i++) length[n++] = (uint16_t)l;
    sr_u32x4 draw = {{0}};
    for (uint32_t i = n; i > 1; i--) { /* four draws per call */
        if (i % 4 == 3 || i == n)
            draw = sr_philox(sr_counter(0, 0, i / 4, SR_PURPOSE_PACK_ORDER, 0, 1, 0), seed,
                             SR_ROUNDS_DATA);
        uint32_t j = sr_below(draw.w[i % 4], i);
        uint16_t swap = length[i - 1];
        length[i - 1] = length[j], length[j] = swap;
    }
    return SR_OK;
}
