#include "core/tokenizer/train.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tokenizer/merges.h"
#include "core/unicode/utf8.h"

typedef struct trainer {
    const sr_vocab_train_opts *opts;
    sr_merger m;
    sr_vocab_train_counts counts;
} trainer;

/* ---- the alphabet ---- */

/* Indexed by code point, so that a text with all characters of Unicode takes no longer. */
typedef struct alphabet {
    int64_t *times;   /* 0: not in the alphabet */
    bool *continues;  /* occurs within a word */
    int32_t *letters; /* (count) the alphabet, ascending */
    size_t count;
} alphabet;

static void free_alphabet(alphabet *a) {
    sr_free(a->times);
    sr_free(a->continues);
    sr_free(a->letters);
}

static sr_status count_letters(alphabet *a, const sr_word_counts *words) {
    SR_TRY(sr_new(&a->times, SR_UTF8_LAST + 1));
    SR_TRY(sr_new(&a->continues, SR_UTF8_LAST + 1));
    for (uint32_t w = 0; w < (uint32_t)words->words.count; w++) {
        size_t size;
        const uint8_t *bytes = (const uint8_t *)sr_pieces_text(&words->words, (int32_t)w, &size);
        for (size_t at = 0; at < size;) {
            int32_t cp;
            size_t step = (size_t)sr_utf8_decode(&cp, bytes + at, size - at);
            a->count += a->times[cp] == 0;
            a->times[cp] += words->counts[w];
            a->continues[cp] |= at > 0;
            at += step;
        }
    }
    return SR_OK;
}

/* The code points by descending frequency; on ties, ascending. */
static int by_frequency(const void *x, const void *y, void *context) {
    const int64_t *times = context;
    int32_t c = *(const int32_t *)x, d = *(const int32_t *)y;
    if (times[c] != times[d]) return times[c] < times[d] ? 1 : -1;
    return c < d ? -1 : c > d;
}

static int ascending(const void *x, const void *y) {
    int32_t c = *(const int32_t *)x, d = *(const int32_t *)y;
    return c < d ? -1 : c > d;
}

/* Lists the letters and keeps the `most` most frequent; on ties, the lower code point.
 */
static sr_status keep_frequent(alphabet *a, size_t most) {
    size_t n = 0;
    SR_TRY(sr_new(&a->letters, a->count));
    for (int32_t cp = 0; cp <= SR_UTF8_LAST; cp++)
        if (a->times[cp] > 0) a->letters[n++] = cp;
    if (n <= most) return SR_OK;
    qsort_r(a->letters, n, sizeof *a->letters, by_frequency, a->times);
    for (size_t i = most; i < n; i++) a->times[a->letters[i]] = 0;
    a->count = most;
    qsort(a->letters, most, sizeof *a->letters, ascending);
    return SR_OK;
}

static sr_status add_letter_token(trainer *t, int32_t cp, bool continues) {
    uint8_t text[6] = "##";
    uint32_t index;
    int size = sr_utf8_encode(text + 2, cp);
    if (continues) return sr_pieces_append(&index, &t->m.tokens, text, (size_t)size + 2);
    return sr_pieces_append(&index, &t->m.tokens, text + 2, (size_t)size);
}

static sr_status add_first_tokens(trainer *t, const alphabet *a) {
    uint32_t index;
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++)
        SR_TRY(sr_pieces_append(&index, &t->m.tokens, sr_special_names[i],
                                strlen(sr_special_names[i])));
    for (size_t i = 0; i < a->count; i++) SR_TRY(add_letter_token(t, a->letters[i], false));
    for (size_t i = 0; i < a->count; i++)
        if (a->continues[a->letters[i]]) SR_TRY(add_letter_token(t, a->letters[i], true));
    if (t->m.tokens.count <= t->opts->size) return SR_OK;
    return sr_fail(SR_EDATA,
                   "vocab: specials and alphabet alone are %d tokens, more than the size of %d; "
                   "raise size or lower limit_alphabet (now %zu characters)",
                   t->m.tokens.count, t->opts->size, a->count);
}

/* ---- words as symbols ---- */

/* Writes a word as symbols; *length = 0 if a character is not in the alphabet. */
static sr_status spell(trainer *t, uint32_t word, const alphabet *a, uint32_t *out,
                       uint32_t *length) {
    size_t size;
    const uint8_t *bytes = (const uint8_t *)sr_pieces_text(&t->m.words.words, (int32_t)word, &size);
    uint32_t n = 0;
    *length = 0;
    for (size_t at = 0; at < size; n++) {
        uint8_t text[6] = "##";
        int32_t cp;
        size_t step = (size_t)sr_utf8_decode(&cp, bytes + at, size - at);
        if (a->times[cp] == 0) {
            t->counts.out_of_reach += (uint64_t)t->m.words.counts[word];
            return SR_OK;
        }
        memcpy(text + 2, bytes + at, step);
        size_t skip = at > 0 ? 0 : 2;
        SR_TRY(sr_pieces_append(&out[n], &t->m.tokens, text + skip, step + 2 - skip));
        at += step;
    }
    *length = n;
    return SR_OK;
}

static sr_status spell_words(trainer *t, const alphabet *a) {
    uint32_t count = (uint32_t)t->m.words.words.count;
    size_t used = 0;
    SR_TRY(sr_new(&t->m.symbols, t->m.words.words.text_size)); /* a symbol has at least one byte */
    SR_TRY(sr_new(&t->m.first, count));
    SR_TRY(sr_new(&t->m.length, count));
    for (uint32_t w = 0; w < count; w++) {
        t->m.first[w] = used;
        SR_TRY(spell(t, w, a, t->m.symbols + used, &t->m.length[w]));
        used += t->m.length[w];
    }
    return SR_OK;
}

static sr_status set_alphabet(trainer *t) {
    alphabet a = {0};
    sr_status st;
    SR_GO(done, st, count_letters(&a, &t->m.words));
    SR_GO(done, st, keep_frequent(&a, (size_t)(t->opts->alphabet > 0 ? t->opts->alphabet : 1000)));
    SR_GO(done, st, add_first_tokens(t, &a));
    SR_GO(done, st, spell_words(t, &a));
done:
    free_alphabet(&a);
    return st;
}

/* ---- training ---- */

static sr_status count_words(trainer *t, sr_source *source, sr_threads *threads) {
    sr_words_opts words = {t->opts->lowercase, t->opts->lowercase && !t->opts->keep_accents};
    int64_t limit = t->opts->word_limit > 0 ? t->opts->word_limit : 1 << 23;
    SR_TRY(sr_word_counts_add(&t->m.words, source, &words, limit, threads));
    t->counts.words = t->m.words.total;
    t->counts.distinct = t->m.words.words.count;
    t->counts.forgotten = t->m.words.forgotten;
    t->counts.too_long = t->m.words.too_long;
    if (t->m.words.words.count > 0) return SR_OK;
    return sr_fail(SR_EDATA, "vocab: the text has no words; use more text");
}

static sr_status make_vocab(sr_vocab **out, const sr_pieces *tokens) {
    char *text = NULL;
    size_t at = 0;
    SR_TRY(sr_new(&text, tokens->text_size + (size_t)tokens->count));
    for (uint32_t i = 0; i < (uint32_t)tokens->count; i++) {
        size_t size;
        const uint8_t *token = (const uint8_t *)sr_pieces_text(tokens, (int32_t)i, &size);
        memcpy(text + at, token, size);
        at += size;
        text[at++] = '\n';
    }
    sr_status st = sr_vocab_parse(out, text, at, "the trained vocabulary");
    sr_free(text);
    return st;
}

static sr_status train(sr_vocab **out, trainer *t, sr_source *source, sr_threads *threads) {
    SR_TRY(count_words(t, source, threads));
    SR_TRY(set_alphabet(t));
    SR_TRY(sr_merger_run(&t->m));
    t->counts.merges = t->m.merge_count;
    return make_vocab(out, &t->m.tokens);
}

sr_status sr_vocab_train(sr_vocab **out, sr_source *source, const sr_vocab_train_opts *opts,
                         sr_threads *threads, sr_vocab_train_counts *counts) {
    *out = NULL;
    if (opts->size <= SR_TOKEN_SPECIALS || opts->size > SR_VOCAB_LIMIT)
        return sr_fail(SR_EINVAL, "vocab: size is %d; must be %d to %d", opts->size,
                       SR_TOKEN_SPECIALS + 1, SR_VOCAB_LIMIT);
    trainer t = {.opts = opts};
    t.m.min_frequency = opts->min_frequency;
    t.m.size = (uint32_t)opts->size;
    t.m.prefix = 2;
    t.m.longest = SR_VOCAB_TOKEN_LIMIT;
    sr_status st = train(out, &t, source, threads);
    if (counts != NULL) *counts = t.counts;
    sr_merger_free(&t.m);
    return st;
}
