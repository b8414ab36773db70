#include "core/batch/mask.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/rng.h"

/* The layer field distinguishes the draws: which tokens are masked, their replacements, and which
 * concepts are masked. */
enum { DRAW_WHO, DRAW_WHAT, DRAW_CONCEPTS };

/* What a token is to the concepts that are masked. */
enum { IN_NONE, FIRST_OF_ONE, IN_ONE };

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
    m->frame[0] = m->frame[1] = -1;
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
    if (m->concepts.table != NULL && m->continues == NULL && !m->by_place)
        return sr_fail(SR_EINVAL,
                       "mask: concepts end where words do, and neither the ids nor the data set "
                       "tell which tokens continue a word; prepare it again from text");
    SR_TRY(sr_concept_masks_check(&m->concepts, m->vocabulary));
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

/* A sequence, which of its tokens continue a word, and its key. */
typedef struct words {
    sr_wording of;
    const sr_masker *m;
    uint32_t uid, epoch;
    uint8_t *roles; /* (len) NULL: no concepts */
} words;

/* Most frames have two ids: those are compared without a loop. */
static bool maskable(const sr_masker *m, int32_t id) {
    bool may = id != m->frame[0] && id != m->frame[1];
    for (int32_t i = 2; i < m->frame_count; i++) may &= m->frame[i] != id;
    return may;
}

static bool is_free(const words *w, int32_t i) {
    return maskable(w->m, w->of.ids[i]) && (w->roles == NULL || w->roles[i] == IN_NONE);
}

/* The starts of the words that may be masked, in order; a word is one token unless whole_word. */
static int32_t find_words(int32_t *start, const words *w) {
    const sr_masker *m = w->m;
    int32_t count = 0;
    bool whole = m->whole_word, open = false; /* can the next token continue a word? */
    for (int32_t i = 0; i < w->of.len; i++) {
        bool may = is_free(w, i);
        start[count] = i;
        count += may && !(whole && open && sr_goes_on(&w->of, i));
        open = may;
    }
    return count;
}

static int32_t word_end(int32_t start, const words *w) {
    int32_t end = start + 1;
    while (w->m->whole_word && end < w->of.len && sr_goes_on(&w->of, end) && is_free(w, end)) end++;
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

/* Takes a random one of start[j .. found - 1] and moves start[j] into its place: a partial
 * Fisher-Yates shuffle. */
static int32_t take(int32_t *start, int32_t j, int32_t found, const words *w, uint32_t what) {
    uint32_t word = draw(w->m, (uint32_t)j, w->uid, what, w->epoch).w[0];
    int32_t pick = j + (int32_t)sr_below(word, (uint32_t)(found - j)), first = start[pick];
    start[pick] = start[j];
    return first;
}

/* Adds the positions of words in random order while they fit into `limit`. */
static int32_t choose_words(int32_t *positions, int32_t count, int32_t limit, int32_t *start,
                            const words *w) {
    int32_t found = find_words(start, w);
    for (int32_t j = 0; j < found && count < limit; j++) {
        int32_t first = take(start, j, found, w, DRAW_WHO), end = word_end(first, w);
        if (count + end - first > limit) continue;
        for (int32_t i = first; i < end; i++) positions[count++] = i;
    }
    return count;
}

/* The same for concepts, as the roles of their tokens. */
static int32_t choose_concepts(int32_t *positions, int32_t limit, int32_t stage, int32_t *start,
                               const words *w) {
    const sr_concepts *table = w->m->concepts.table;
    int32_t found = 0, count = 0, len;
    memset(w->roles, IN_NONE, (size_t)w->of.len);
    for (int32_t i = 0, step; i < w->of.len; i += step) {
        len = sr_concepts_at(NULL, table, &w->of, i, stage);
        step = len > 0 ? len : 1;
        if (len > 0) start[found++] = i;
    }
    for (int32_t j = 0; j < found && count < limit; j++) {
        int32_t first = take(start, j, found, w, DRAW_CONCEPTS);
        len = sr_concepts_at(NULL, table, &w->of, first, stage);
        if (count + len > limit) continue;
        memset(w->roles + first, IN_ONE, (size_t)len);
        w->roles[first] = FIRST_OF_ONE;
        for (int32_t i = first; i < first + len; i++) positions[count++] = i;
    }
    return count;
}

/* Replaces the masked tokens: one in a concept as its first one is, so that they are masked,
 * replaced or kept together. */
static void replace(const int32_t *positions, int32_t *labels, int32_t count, int32_t *ids,
                    const words *w) {
    int32_t first = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t at = positions[i];
        labels[i] = ids[at];
        if (w->roles == NULL || w->roles[at] != IN_ONE) first = at;
        sr_u32x4 what = draw(w->m, (uint32_t)first, w->uid, DRAW_WHAT, w->epoch);
        if (what.w[0] < MASK_BELOW)
            ids[at] = w->m->mask_id;
        else if (what.w[0] < RANDOM_BELOW)
            ids[at] = ordinary_id(w->m, draw(w->m, (uint32_t)at, w->uid, DRAW_WHAT, w->epoch).w[1]);
    }
}

void sr_mask_draw_concepts(int32_t *positions, int32_t *labels, int32_t *count, int32_t *ids,
                           int32_t len, const uint8_t *goes_on, uint32_t uid, uint32_t epoch,
                           const sr_masker *m, int32_t stage, int32_t *scratch, uint8_t *roles) {
    words w = {{ids, goes_on, m->continues, len}, m, uid, epoch, roles};
    int32_t limit = sr_mask_limit(m, len), n = 0;
    if (roles != NULL) {
        int32_t most = (int32_t)floor(m->concepts.share * limit + 0.5);
        n = choose_concepts(positions, most, stage, scratch, &w);
    }
    *count = choose_words(positions, n, limit, scratch, &w);
    sort_positions(positions, *count, len, scratch);
    replace(positions, labels, *count, ids, &w);
}

void sr_mask_draw(int32_t *positions, int32_t *labels, int32_t *count, int32_t *ids, int32_t len,
                  const uint8_t *goes_on, uint32_t uid, uint32_t epoch, const sr_masker *m,
                  int32_t *scratch) {
    sr_mask_draw_concepts(positions, labels, count, ids, len, goes_on, uid, epoch, m, 0, scratch,
                          NULL);
}
