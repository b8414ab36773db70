#include "core/text/train.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/text/count.h"
#include "core/text/utf8.h"

/* A pair of adjacent symbols.  Its list of words may have duplicates and words that no longer
 * contain the pair; these are skipped. */
typedef struct pair {
    uint32_t left, right;
    int64_t count;
    uint32_t words; /* first node, 0: none */
    bool grown;     /* in trainer.grown */
} pair;

typedef struct node {
    uint32_t word, next;
} node;

/* A heap entry has the count of a pair when it was pushed; it is checked when popped. */
typedef struct claim {
    int64_t count;
    uint32_t pair;
} claim;

typedef struct trainer {
    const sr_vocab_train_opts *opts;
    sr_word_counts words;
    sr_strings tokens; /* the vocabulary: index = id */
    uint32_t *symbols; /* the words as symbols, concatenated */
    size_t *first;     /* of each word, in symbols */
    uint16_t *length;  /* 0: the word has unknown characters */
    pair *pairs;
    size_t pair_count, pair_room;
    uint32_t *slots; /* hash table of pairs: index plus one */
    size_t slot_count;
    node *nodes; /* nodes[0] is unused */
    size_t node_count, node_room;
    uint32_t free_nodes;
    claim *heap;
    size_t heap_count, heap_room;
    uint32_t *grown; /* pairs whose count has grown since they were last pushed */
    size_t grown_count, grown_room;
    sr_vocab_train_counts counts;
} trainer;

static void free_trainer(trainer *t) {
    sr_word_counts_free(&t->words);
    sr_strings_free(&t->tokens);
    sr_free(t->symbols);
    sr_free(t->first);
    sr_free(t->length);
    sr_free(t->pairs);
    sr_free(t->slots);
    sr_free(t->nodes);
    sr_free(t->heap);
    sr_free(t->grown);
}

/* Reserves one more element of an array that grows by doubling. */
#define MORE(array, count, room)                                                                   \
    do {                                                                                           \
        if ((count) == (room)) {                                                                   \
            size_t more_ = (room)*2 + 1024;                                                        \
            SR_TRY(sr_grow(&(array), more_));                                                      \
            (room) = more_;                                                                        \
        }                                                                                          \
    } while (0)

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
    for (uint32_t w = 0; w < words->words.count; w++) {
        size_t size;
        const uint8_t *bytes = sr_strings_get(&words->words, w, &size);
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
    if (continues) return sr_strings_add(&index, &t->tokens, text, (size_t)size + 2);
    return sr_strings_add(&index, &t->tokens, text + 2, (size_t)size);
}

static sr_status add_first_tokens(trainer *t, const alphabet *a) {
    uint32_t index;
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++)
        SR_TRY(
            sr_strings_add(&index, &t->tokens, sr_special_names[i], strlen(sr_special_names[i])));
    for (size_t i = 0; i < a->count; i++) SR_TRY(add_letter_token(t, a->letters[i], false));
    for (size_t i = 0; i < a->count; i++)
        if (a->continues[a->letters[i]]) SR_TRY(add_letter_token(t, a->letters[i], true));
    if (t->tokens.count <= (uint32_t)t->opts->size) return SR_OK;
    return sr_fail(SR_EDATA,
                   "vocab: specials and alphabet alone are %u tokens, more than the size of %d; "
                   "raise size or lower limit_alphabet (now %zu characters)",
                   t->tokens.count, t->opts->size, a->count);
}

/* ---- words as symbols ---- */

/* Writes a word as symbols; *length = 0 if a character is not in the alphabet. */
static sr_status spell(trainer *t, uint32_t word, const alphabet *a, uint32_t *out,
                       uint16_t *length) {
    size_t size;
    const uint8_t *bytes = sr_strings_get(&t->words.words, word, &size);
    uint16_t n = 0;
    *length = 0;
    for (size_t at = 0; at < size; n++) {
        uint8_t text[6] = "##";
        int32_t cp;
        size_t step = (size_t)sr_utf8_decode(&cp, bytes + at, size - at);
        if (a->times[cp] == 0) {
            t->counts.out_of_reach += (uint64_t)t->words.counts[word];
            return SR_OK;
        }
        memcpy(text + 2, bytes + at, step);
        size_t skip = at > 0 ? 0 : 2;
        SR_TRY(sr_strings_add(&out[n], &t->tokens, text + skip, step + 2 - skip));
        at += step;
    }
    *length = n;
    return SR_OK;
}

static sr_status spell_words(trainer *t, const alphabet *a) {
    uint32_t count = t->words.words.count;
    size_t used = 0;
    SR_TRY(sr_new(&t->symbols, t->words.words.start[count])); /* a symbol has at least one byte */
    SR_TRY(sr_new(&t->first, count));
    SR_TRY(sr_new(&t->length, count));
    for (uint32_t w = 0; w < count; w++) {
        t->first[w] = used;
        SR_TRY(spell(t, w, a, t->symbols + used, &t->length[w]));
        used += t->length[w];
    }
    return SR_OK;
}

static sr_status set_alphabet(trainer *t) {
    alphabet a = {0};
    sr_status st;
    SR_GO(done, st, count_letters(&a, &t->words));
    SR_GO(done, st, keep_frequent(&a, (size_t)(t->opts->alphabet > 0 ? t->opts->alphabet : 1000)));
    SR_GO(done, st, add_first_tokens(t, &a));
    SR_GO(done, st, spell_words(t, &a));
done:
    free_alphabet(&a);
    return st;
}

/* ---- pairs ---- */

static uint32_t *pair_slot(const trainer *t, uint32_t left, uint32_t right) {
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    size_t mask = t->slot_count - 1, i = (hash ^ hash >> 32) & mask;
    for (; t->slots[i] != 0; i = (i + 1) & mask) {
        const pair *p = &t->pairs[t->slots[i] - 1];
        if (p->left == left && p->right == right) break;
    }
    return &t->slots[i];
}

static sr_status grow_pair_slots(trainer *t) {
    size_t count = t->slot_count > 0 ? 2 * t->slot_count : 4096;
    uint32_t *slots;
    SR_TRY(sr_new(&slots, count));
    sr_free(t->slots);
    t->slots = slots;
    t->slot_count = count;
    for (size_t i = 0; i < t->pair_count; i++)
        *pair_slot(t, t->pairs[i].left, t->pairs[i].right) = (uint32_t)i + 1;
    return SR_OK;
}

static sr_status find_pair(uint32_t *index, trainer *t, uint32_t left, uint32_t right) {
    if (2 * (t->pair_count + 1) > t->slot_count) SR_TRY(grow_pair_slots(t));
    uint32_t *slot = pair_slot(t, left, right);
    if (*slot == 0) {
        MORE(t->pairs, t->pair_count, t->pair_room);
        t->pairs[t->pair_count] = (pair){left, right, 0, 0, false};
        *slot = (uint32_t)++t->pair_count;
    }
    *index = *slot - 1;
    return SR_OK;
}

static sr_status add_node(trainer *t, pair *p, uint32_t word) {
    if (p->words != 0 && t->nodes[p->words].word == word) return SR_OK;
    uint32_t index = t->free_nodes;
    if (index != 0) {
        t->free_nodes = t->nodes[index].next;
    } else {
        if (t->node_count == 0) t->node_count = 1;
        if (t->node_count >= t->node_room) {
            size_t room = t->node_room * 2 + 4096;
            SR_TRY(sr_grow(&t->nodes, room));
            t->node_room = room;
        }
        if (t->node_count > UINT32_MAX - 1) return sr_fail(SR_ENOMEM, "vocab: too many words");
        index = (uint32_t)t->node_count++;
    }
    t->nodes[index] = (node){word, p->words};
    p->words = index;
    return SR_OK;
}

/* ---- the heap ---- */

/* The order of merges: higher counts first, then lower ids. */
static bool before(const trainer *t, const claim *a, const claim *b) {
    if (a->count != b->count) return a->count > b->count;
    const pair *p = &t->pairs[a->pair], *q = &t->pairs[b->pair];
    if (p->left != q->left) return p->left < q->left;
    return p->right < q->right;
}

static sr_status push(trainer *t, uint32_t index) {
    MORE(t->heap, t->heap_count, t->heap_room);
    claim c = {t->pairs[index].count, index};
    size_t at = t->heap_count++;
    while (at > 0 && before(t, &c, &t->heap[(at - 1) / 2])) {
        t->heap[at] = t->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    t->heap[at] = c;
    return SR_OK;
}

static claim pop(trainer *t) {
    claim top = t->heap[0], c = t->heap[--t->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= t->heap_count) break;
        if (child + 1 < t->heap_count && before(t, &t->heap[child + 1], &t->heap[child])) child++;
        if (!before(t, &t->heap[child], &c)) break;
        t->heap[at] = t->heap[child];
        at = child;
    }
    t->heap[at] = c;
    return top;
}

/* ---- merging ---- */

/* Adds `times` (which may be negative) to the count of a pair in a word.  Only pairs that grew are
 * pushed again: an entry of a pair that shrank is too high, and corrected when it is popped. */
static sr_status change(trainer *t, uint32_t left, uint32_t right, uint32_t word, int64_t times) {
    uint32_t index;
    SR_TRY(find_pair(&index, t, left, right));
    pair *p = &t->pairs[index];
    p->count += times;
    if (times < 0) return SR_OK;
    if (!p->grown) {
        MORE(t->grown, t->grown_count, t->grown_room);
        t->grown[t->grown_count++] = index;
        p->grown = true;
    }
    return add_node(t, p, word);
}

static sr_status claim_grown(trainer *t) {
    for (size_t i = 0; i < t->grown_count; i++) {
        t->pairs[t->grown[i]].grown = false;
        SR_TRY(push(t, t->grown[i]));
    }
    t->grown_count = 0;
    return SR_OK;
}

static sr_status count_pairs(trainer *t) {
    for (uint32_t w = 0; w < t->words.words.count; w++) {
        const uint32_t *s = t->symbols + t->first[w];
        for (int i = 0; i + 1 < t->length[w]; i++)
            SR_TRY(change(t, s[i], s[i + 1], w, t->words.counts[w]));
    }
    return claim_grown(t);
}

/* Replaces left right by `merged` in a word. */
static sr_status merge_word(trainer *t, uint32_t word, uint32_t left, uint32_t right,
                            uint32_t merged) {
    uint32_t *s = t->symbols + t->first[word];
    int64_t times = t->words.counts[word];
    int length = t->length[word], to = 0;
    for (int from = 0; from < length; to++) {
        if (from + 1 == length || s[from] != left || s[from + 1] != right) {
            s[to] = s[from++];
            continue;
        }
        if (to > 0) {
            SR_TRY(change(t, s[to - 1], left, word, -times));
            SR_TRY(change(t, s[to - 1], merged, word, times));
        }
        from += 2;
        if (from < length) {
            SR_TRY(change(t, right, s[from], word, -times));
            SR_TRY(change(t, merged, s[from], word, times));
        }
        s[to] = merged;
    }
    t->length[word] = (uint16_t)to;
    return SR_OK;
}

static sr_status merged_token(uint32_t *merged, trainer *t, uint32_t left, uint32_t right) {
    uint8_t text[2 * SR_VOCAB_TOKEN_LIMIT];
    size_t first, second;
    const uint8_t *bytes = sr_strings_get(&t->tokens, left, &first);
    memcpy(text, bytes, first);
    bytes = sr_strings_get(&t->tokens, right, &second);
    memcpy(text + first, bytes + 2, second - 2); /* the right one always has ## */
    return sr_strings_add(merged, &t->tokens, text, first + second - 2);
}

static sr_status merge_pair(trainer *t, uint32_t index) {
    pair p = t->pairs[index];
    uint32_t merged;
    SR_TRY(merged_token(&merged, t, p.left, p.right));
    t->pairs[index].words = 0;
    for (uint32_t i = p.words; i != 0;) {
        uint32_t next = t->nodes[i].next;
        SR_TRY(merge_word(t, t->nodes[i].word, p.left, p.right, merged));
        t->nodes[i].next = t->free_nodes;
        t->free_nodes = i;
        i = next;
    }
    t->pairs[index].count = 0;
    t->counts.merges++;
    return claim_grown(t);
}

static sr_status merge_pairs(trainer *t) {
    int64_t least = t->opts->min_frequency > 0 ? t->opts->min_frequency : 2;
    while (t->heap_count > 0 && t->tokens.count < (uint32_t)t->opts->size) {
        claim c = pop(t);
        int64_t count = t->pairs[c.pair].count;
        if (c.count == count && count >= least) {
            SR_TRY(merge_pair(t, c.pair));
            if (t->counts.merges % 256 == 0 && sr_stop_requested())
                return sr_fail(SR_ESTOP, "vocab: stopped on request");
        } else if (count < c.count && count >= least) {
            SR_TRY(push(t, c.pair));
        }
    }
    return SR_OK;
}

/* ---- training ---- */

static sr_status count_words(trainer *t, sr_source *source, sr_threads *threads) {
    sr_words_opts words = {t->opts->lowercase, t->opts->lowercase && !t->opts->keep_accents};
    int64_t limit = t->opts->word_limit > 0 ? t->opts->word_limit : 1 << 23;
    SR_TRY(sr_word_counts_add(&t->words, source, &words, limit, threads));
    t->counts.words = t->words.total;
    t->counts.distinct = t->words.words.count;
    t->counts.forgotten = t->words.forgotten;
    t->counts.too_long = t->words.too_long;
    if (t->words.words.count > 0) return SR_OK;
    return sr_fail(SR_EDATA, "vocab: the text has no words; use more text");
}

static sr_status make_vocab(sr_vocab **out, const sr_strings *tokens) {
    char *text = NULL;
    size_t at = 0;
    SR_TRY(sr_new(&text, tokens->start[tokens->count] + tokens->count));
    for (uint32_t i = 0; i < tokens->count; i++) {
        size_t size;
        const uint8_t *token = sr_strings_get(tokens, i, &size);
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
    SR_TRY(count_pairs(t));
    SR_TRY(merge_pairs(t));
    return make_vocab(out, &t->tokens);
}

sr_status sr_vocab_train(sr_vocab **out, sr_source *source, const sr_vocab_train_opts *opts,
                         sr_threads *threads, sr_vocab_train_counts *counts) {
    *out = NULL;
    if (opts->size <= SR_TOKEN_SPECIALS || opts->size > SR_VOCAB_LIMIT)
        return sr_fail(SR_EINVAL, "vocab: size is %d; must be %d to %d", opts->size,
                       SR_TOKEN_SPECIALS + 1, SR_VOCAB_LIMIT);
    trainer t = {.opts = opts};
    sr_status st = train(out, &t, source, threads);
    if (counts != NULL) *counts = t.counts;
    free_trainer(&t);
    return st;
}
