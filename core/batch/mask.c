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

static void add_frame(sr_masker *m, const sr_frame_part *part) {
    for (int32_t i = 0; i < part->count; i++) {
        bool known = false;
        for (int32_t k = 0; k < m->frame_count; k++) known |= m->frame[k] == part->ids[i];
        if (!known) m->frame[m->frame_count++] = part->ids[i];
    }
}

static void add_frames(sr_masker *m, const sr_dataset *d) {
    m->frame_count = 0;
    for (int pair = 0; pair < 2; pair++) {
        const sr_frame *f = sr_dataset_frame(d, pair);
        add_frame(m, &f->lead);
        add_frame(m, &f->middle);
        add_frame(m, &f->tail);
    }
}

static sr_status find_continuations(sr_masker *m, const sr_tokenizer *t) {
    SR_TRY(sr_new(&m->continues, m->vocabulary));
    for (int32_t id = 0; id < m->vocabulary; id++) {
        size_t n;
        const char *token = sr_tokenizer_token(t, id, &n);
        m->continues[id] = token != NULL && n > 2 && token[0] == '#' && token[1] == '#';
    }
    return SR_OK;
}

/* The special ids, and those without a token. */
static sr_status find_specials(sr_masker *m, const sr_tokenizer *t) {
    m->special_count = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) SR_TRY(sr_new(&m->specials, m->special_count));
        int32_t count = 0;
        for (int32_t id = 0; id < m->vocabulary; id++) {
            size_t n;
            bool never = sr_tokenizer_is_special(t, id) || sr_tokenizer_token(t, id, &n) == NULL;
            if (never && pass == 1) m->specials[count] = id;
            count += never;
        }
        m->special_count = count;
    }
    return SR_OK;
}

sr_status sr_masker_open(sr_masker *m, const sr_dataset *d) {
    const sr_tokenizer *t = d->tokenizer;
    m->vocabulary = sr_tokenizer_size(t);
    m->mask_id = sr_tokenizer_special(t, SR_TOKEN_MASK);
    add_frames(m, d);
    m->by_place = d->word_starts != NULL;
    if (!m->by_place && !sr_carried_starts(t)) SR_TRY(find_continuations(m, t));
    return find_specials(m, t);
}

void sr_masker_close(sr_masker *m) {
    sr_free(m->continues);
    sr_free(m->specials);
    m->continues = NULL;
    m->specials = NULL;
}

static sr_status check_specials(const sr_masker *m) {
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
        return sr_fail(SR_EINVAL,
                       m->mask_id < 0
                           ? "mask: the tokenizer has no token to mask with (id %d of %d)"
                           : "mask: [MASK] is %d, outside the vocabulary of %d",
                       m->mask_id, m->vocabulary);
    if (m->whole_word && m->continues == NULL && !m->by_place)
        return sr_fail(SR_EINVAL,
                       "mask: whole_word needs to know which tokens continue a word, which neither "
                       "the ids nor the data set tell; prepare it again from text, or set "
                       "whole_word: false");
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

static bool maskable(const sr_masker *m, int32_t id) {
    for (int32_t i = 0; i < m->frame_count; i++)
        if (m->frame[i] == id) return false;
    return true;
}

/* A sequence, and what tells which of its tokens continue a word. */
typedef struct words {
    const int32_t *ids;
    const uint8_t *goes_on;
    int32_t len;
    const sr_masker *m;
} words;

static bool continues(const words *w, int32_t i) {
    if (!w->m->whole_word) return false;
    return w->goes_on != NULL ? w->goes_on[i] : w->m->continues[w->ids[i]];
}

/* The starts of the words that may be masked, in order; a word is one token unless whole_word. */
static int32_t find_words(int32_t *start, const words *w) {
    int32_t count = 0;
    bool open = false; /* can the next token continue a word? */
    for (int32_t i = 0; i < w->len; i++) {
        bool may = maskable(w->m, w->ids[i]);
        if (may && !(open && continues(w, i))) start[count++] = i;
        open = may;
    }
    return count;
}

static int32_t word_end(int32_t start, const words *w) {
    int32_t end = start + 1;
    while (end < w->len && continues(w, end) && maskable(w->m, w->ids[end])) end++;
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
static int32_t choose(int32_t *positions, int32_t limit, int32_t *start, int32_t words_found,
                      const words *w, uint32_t uid, uint32_t epoch) {
    int32_t count = 0;
    for (int32_t j = 0; j < words_found && count < limit; j++) {
        uint32_t left = (uint32_t)(words_found - j), word;
        word = draw(w->m, (uint32_t)j, uid, DRAW_WHO, epoch).w[0];
        int32_t pick = j + (int32_t)sr_below(word, left);
        int32_t first = start[pick], end = word_end(first, w);
        start[pick] = start[j];
        if (count + end - first > limit) continue;
        for (int32_t i = first; i < end; i++) positions[count++] = i;
    }
    sort_positions(positions, count, w->len, start);
    return count;
}

void sr_mask_draw(int32_t *positions, int32_t *labels, int32_t *count, int32_t *ids, int32_t len,
                  const uint8_t *goes_on, uint32_t uid, uint32_t epoch, const sr_masker *m,
                  int32_t *scratch) {
    words w = {ids, goes_on, len, m};
    int32_t found = find_words(scratch, &w);
    *count = choose(positions, sr_mask_limit(m, len), scratch, found, &w, uid, epoch);
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
