#include "core/batch/fim.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/rng.h"

/* Special tokens that an order takes, and the shortest text that is cut. */
enum { SENTINELS = 3, SHORTEST = SENTINELS + 2 };

/* The parts of a text: ids in a buffer that holds all of them, one after the other. */
typedef struct parts {
    const int32_t *ids;
    int32_t prefix, middle, suffix; /* tokens of each */
} parts;

sr_status sr_fim_check(const sr_fim *f, const sr_tokenizer *t) {
    if (!(f->rate >= 0 && f->rate <= 1) || !(f->spm >= 0 && f->spm <= 1))
        return sr_fail(SR_EINVAL, "fim: rate is %g and spm is %g; both are fractions from 0 to 1",
                       f->rate, f->spm);
    if (f->rate == 0) return SR_OK;
    int32_t id[SENTINELS] = {f->prefix, f->suffix, f->middle};
    for (int i = 0; i < SENTINELS; i++) {
        if (id[i] < 0 || id[i] >= sr_tokenizer_size(t))
            return sr_fail(SR_EINVAL, "fim: id %d is not a token of the tokenizer, which has %d",
                           id[i], sr_tokenizer_size(t));
        if (id[i] == id[(i + 1) % SENTINELS])
            return sr_fail(SR_EINVAL,
                           "fim: prefix, suffix and middle must be three tokens, but "
                           "two of them are id %d",
                           id[i]);
    }
    return SR_OK;
}

/* Two places from 0 to n, in order. */
static void cut(int64_t *first, int64_t *second, sr_u32x4 r, int64_t n) {
    int64_t a = sr_below(r.w[2], (uint32_t)n + 1), b = sr_below(r.w[3], (uint32_t)n + 1);
    *first = a < b ? a : b;
    *second = a < b ? b : a;
}

static int32_t *put(int32_t *to, const int32_t *ids, int32_t n) {
    if (n > 0) memcpy(to, ids, (size_t)n * sizeof *ids);
    return to + n;
}

/* Writes the parts in their new order. */
static void arrange(int32_t *to, const parts *p, const sr_fim *f, bool spm) {
    const int32_t *middle = p->ids + p->prefix, *suffix = middle + p->middle;
    *to++ = f->prefix;
    if (!spm) to = put(to, p->ids, p->prefix);
    *to++ = f->suffix;
    to = put(to, suffix, p->suffix);
    *to++ = f->middle;
    if (spm) to = put(to, p->ids, p->prefix);
    put(to, middle, p->middle);
}

/* ---- between characters ---- */

/* The byte at which character `wanted` of a text begins; its size after the last one. */
static size_t byte_of(const char *text, size_t size, int64_t wanted) {
    size_t at = 0;
    for (int64_t count = -1; at < size; at++)
        if (((unsigned char)text[at] & 0xC0) != 0x80 && ++count == wanted) break;
    return at;
}

static int64_t characters_of(const char *text, size_t size) {
    int64_t count = 0;
    for (size_t i = 0; i < size; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* Tokenizes the three parts of a text; `end` has the token after each. */
static sr_status tokenize_parts(sr_tokens *tokens, int32_t *end, const sr_tokenizer *t,
                                const char *text, size_t size, sr_u32x4 r) {
    int64_t first, second;
    cut(&first, &second, r, characters_of(text, size));
    size_t at[] = {0, byte_of(text, size, first), byte_of(text, size, second), size};
    for (int i = 0; i < 3; i++) {
        SR_TRY(sr_tokenize(tokens, t, text + at[i], at[i + 1] - at[i]));
        end[i] = (int32_t)tokens->count;
    }
    return SR_OK;
}

/* Cut between characters, a text has at least as many tokens as before, apart from rare spellings:
 * then it is cut between tokens.  What is too much goes from its end. */
static sr_status cut_characters(parts *p, sr_tokens *tokens, const sr_tokenizer *t,
                                const int32_t *ids, int32_t len, sr_u32x4 r) {
    char *text = NULL;
    size_t size = 0;
    int32_t end[3], room = len - SENTINELS;
    SR_TRY(sr_detokenize(&text, &size, t, ids, (size_t)len, true));
    sr_status st = tokenize_parts(tokens, end, t, text, size, r);
    sr_free(text);
    if (st != SR_OK || end[2] < room) return st;
    for (int i = 0; i < 3; i++)
        if (end[i] > room) end[i] = room;
    *p = (parts){tokens->ids, end[0], end[1] - end[0], end[2] - end[1]};
    return SR_OK;
}

sr_status sr_fim_apply(const sr_fim *f, int32_t *ids, int32_t len, const sr_tokenizer *t,
                       uint64_t seed, uint32_t uid, uint32_t epoch, int32_t *scratch) {
    if (!(f->rate > 0) || len < SHORTEST) return SR_OK;
    sr_u32x4 r =
        sr_philox(sr_counter(0, 0, uid, SR_PURPOSE_FIM, 0, 0, epoch), seed, SR_ROUNDS_DATA);
    if (!(sr_unit(r.w[0]) < f->rate)) return SR_OK;
    int64_t first, second;
    cut(&first, &second, r, len - SENTINELS);
    parts p = {ids, (int32_t)first, (int32_t)(second - first), (int32_t)(len - SENTINELS - second)};
    sr_tokens tokens = {0};
    sr_status st = SR_OK;
    if (f->characters) st = cut_characters(&p, &tokens, t, ids, len, r);
    if (st == SR_OK) {
        arrange(scratch, &p, f, sr_unit(r.w[1]) < f->spm);
        memcpy(ids, scratch, (size_t)len * sizeof *ids);
    }
    sr_tokens_free(&tokens);
    return st;
}
