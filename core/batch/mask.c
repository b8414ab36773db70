#include "core/batch/mask.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/rng.h"

/* The layer field distinguishes the two draws: which tokens are masked, and their replacements. */
enum { DRAW_WHO, DRAW_WHAT };

static const uint32_t MASK_BELOW = 3435973837u;   /* 0.8 x 2^32 */
static const uint32_t RANDOM_BELOW = 3865470566u; /* 0.9 x 2^32 */

static sr_u32x4 draw(const sr_masker *m, uint32_t row, uint32_t uid, uint32_t what,
                     uint32_t epoch) {
    return sr_philox(sr_counter(row, row >> 16, uid, SR_PURPOSE_MASK, what, 0, epoch), m->seed,
                     SR_ROUNDS_DATA);
}

sr_status sr_masker_for(sr_masker *m, uint8_t **continues, const sr_vocab *v) {
    int32_t size = sr_vocab_size(v);
    SR_TRY(sr_new(continues, size));
    for (int32_t id = 0; id < size; id++) {
        size_t n;
        const char *token = sr_vocab_token(v, id, &n);
        (*continues)[id] = n > 2 && token[0] == '#' && token[1] == '#';
    }
    m->continues = *continues;
    m->vocabulary = size;
    m->mask_id = sr_vocab_special(v, SR_TOKEN_MASK);
    m->cls_id = sr_vocab_special(v, SR_TOKEN_CLS);
    m->sep_id = sr_vocab_special(v, SR_TOKEN_SEP);
    m->special_count = 0;
    for (int32_t s = 0; s < SR_TOKEN_SPECIALS; s++) { /* insertion in ascending order */
        int32_t id = sr_vocab_special(v, (sr_special)s), at = m->special_count++;
        for (; at > 0 && m->specials[at - 1] > id; at--) m->specials[at] = m->specials[at - 1];
        m->specials[at] = id;
    }
    return SR_OK;
}

static sr_status check_specials(const sr_masker *m) {
    if (m->special_count < 0 || m->special_count > SR_MAX_SPECIALS)
        return sr_fail(SR_EINVAL, "mask: %d special ids; the maximum is %d", m->special_count,
                       SR_MAX_SPECIALS);
    for (int32_t i = 0; i < m->special_count; i++) {
        if (m->specials[i] < 0 || m->specials[i] >= m->vocabulary ||
            (i > 0 && m->specials[i] <= m->specials[i - 1]))
            return sr_fail(SR_EINVAL, "mask: special ids must be ascending and below %d",
                           m->vocabulary);
    }
    if (m->vocabulary <= m->special_count)
        return sr_fail(SR_EINVAL, "mask: a vocabulary of %d has only %d special tokens",
                       m->vocabulary, m->special_count);
    return SR_OK;
}

sr_status sr_masker_check(const sr_masker *m) {
    if (!(m->prob > 0 && m->prob <= 1))
        return sr_fail(SR_EINVAL, "mask: probability is %g; must be in (0, 1], usually 0.15",
                       m->prob);
    if (m->max_predictions < 1)
        return sr_fail(SR_EINVAL, "mask: max_predictions is %d; must be >= 1", m->max_predictions);
    if (m->mask_id < 0 || m->mask_id >= m->vocabulary)
        return sr_fail(SR_EINVAL, "mask: [MASK] is %d, outside the vocabulary of %d", m->mask_id,
                       m->vocabulary);
    if (m->whole_word && m->continues == NULL)
        return sr_fail(SR_EINVAL,
                       "mask: whole_word needs `continues`, the tokens that continue a word");
    return check_specials(m);
}

int32_t sr_mask_limit(const sr_masker *m, int32_t len) {
    double wanted = floor(m->prob * len + 0.5);
    return wanted < 1 ? 1 : wanted > m->max_predictions ? m->max_predictions : (int32_t)wanted;
}

/* Uniform over the vocabulary without special tokens. */
static int32_t ordinary_id(const sr_masker *m, uint32_t word) {
    int32_t id = (int32_t)sr_below(word, (uint32_t)(m->vocabulary - m->special_count));
    for (int32_t i = 0; i < m->special_count && m->specials[i] <= id; i++) id++;
    return id;
}

/* The starts of the words that may be masked, in order; a word is one token unless whole_word. */
static int32_t find_words(int32_t *start, const int32_t *ids, int32_t len, const sr_masker *m) {
    int32_t words = 0;
    bool open = false; /* can the next token continue a word? */
    for (int32_t i = 0; i < len; i++) {
        bool maskable = ids[i] != m->cls_id && ids[i] != m->sep_id;
        bool inside = maskable && open && m->whole_word && m->continues[ids[i]];
        if (maskable && !inside) start[words++] = i;
        open = maskable;
    }
    return words;
}

static int32_t word_end(int32_t start, const int32_t *ids, int32_t len, const sr_masker *m) {
    int32_t end = start + 1;
    while (m->whole_word && end < len && ids[end] != m->cls_id && ids[end] != m->sep_id &&
           m->continues[ids[end]])
        end++;
    return end;
}

/* Sorts distinct positions as bits of `scratch` (len). */
static void sort_positions(int32_t *positions, int32_t count, int32_t len, int32_t *scratch) {
    uint32_t *bits = (uint32_t *)scratch;
    int32_t words = (len + 31) / 32, n = 0;
    memset(bits, 0, (size_t)words * sizeof *bits);
    for (int32_t i = 0; i < count; i++) bits[positions[i] / 32] |= 1u << positions[i] % 32;
    for (int32_t w = 0; w < words; w++)
        for (uint32_t left = bits[w]; left != 0; left &= left - 1)
            positions[n++] = w * 32 + __builtin_ctz(left);
}

/* Selects words in random order (partial Fisher-Yates) while they fit into `limit`. */
static int32_t choose(int32_t *positions, int32_t limit, int32_t *start, int32_t words,
                      const int32_t *ids, int32_t len, uint32_t uid, uint32_t epoch,
                      const sr_masker *m) {
    int32_t count = 0;
    for (int32_t j = 0; j < words && count < limit; j++) {
        uint32_t left = (uint32_t)(words - j);
        int32_t pick = j + (int32_t)sr_below(draw(m, (uint32_t)j, uid, DRAW_WHO, epoch).w[0], left);
        int32_t first = start[pick], end = word_end(first, ids, len, m);
        start[pick] = start[j];
        if (count + end - first > limit) continue;
        for (int32_t i = first; i < end; i++) positions[count++] = i;
    }
    sort_positions(positions, count, len, start);
    return count;
}

void sr_mask_draw(int32_t *positions, int32_t *labels, int32_t *count, int32_t *ids, int32_t len,
                  uint32_t uid, uint32_t epoch, const sr_masker *m, int32_t *scratch) {
    int32_t words = find_words(scratch, ids, len, m);
    *count = choose(positions, sr_mask_limit(m, len), scratch, words, ids, len, uid, epoch, m);
    for (int32_t i = 0; i < *count; i++) {
        int32_t at = positions[i];
        labels[i] = ids[at];
        sr_u32x4 what = draw(m, (uint32_t)at, uid, DRAW_WHAT, epoch);
        if (what.w[0] < MASK_BELOW)
            ids[at] = m->mask_id;
        else if (what.w[0] < RANDOM_BELOW)
            ids[at] = ordinary_id(m, what.w[1]);
    }
}
