#include "core/tokenizer/merges.h"

#include <string.h>

#include "core/base/mem.h"

/* A pair of adjacent symbols.  Its list of words may have duplicates and words that no longer
 * contain the pair; these are skipped. */
struct sr_pair {
    uint32_t left, right;
    int64_t count;
    uint32_t words; /* first node, 0: none */
    bool grown;     /* in merger.grown */
};

struct sr_pair_node {
    uint32_t word, next;
};

/* A heap entry has the count of a pair when it was pushed; it is checked when popped. */
struct sr_pair_claim {
    int64_t count;
    uint32_t pair;
};

typedef sr_pair pair;
typedef sr_pair_node node;
typedef sr_pair_claim claim;
typedef sr_merger trainer;

/* Reserves one more element of an array that grows by doubling. */
#define MORE(array, count, room)                                                                   \
    do {                                                                                           \
        if ((count) == (room)) {                                                                   \
            size_t more_ = (room)*2 + 1024;                                                        \
            SR_TRY(sr_grow(&(array), more_));                                                      \
            (room) = more_;                                                                        \
        }                                                                                          \
    } while (0)

void sr_merger_free(sr_merger *t) {
    sr_word_counts_free(&t->words);
    sr_pieces_free(&t->tokens);
    sr_free(t->symbols);
    sr_free(t->first);
    sr_free(t->length);
    sr_free(t->pairs);
    sr_free(t->slots);
    sr_free(t->nodes);
    sr_free(t->heap);
    sr_free(t->grown);
    sr_free(t->merges);
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
    for (uint32_t w = 0; w < (uint32_t)t->words.words.count; w++) {
        const uint32_t *s = t->symbols + t->first[w];
        for (uint32_t i = 0; i + 1 < t->length[w]; i++)
            SR_TRY(change(t, s[i], s[i + 1], w, t->words.counts[w]));
    }
    return claim_grown(t);
}

/* Replaces left right by `merged` in a word. */
static sr_status merge_word(trainer *t, uint32_t word, uint32_t left, uint32_t right,
                            uint32_t merged) {
    uint32_t *s = t->symbols + t->first[word];
    int64_t times = t->words.counts[word];
    uint32_t length = t->length[word], to = 0;
    for (uint32_t from = 0; from < length; to++) {
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
    t->length[word] = to;
    return SR_OK;
}

/* *fits is false if the token would be too long. */
static sr_status merged_token(uint32_t *merged, bool *fits, trainer *t, uint32_t left,
                              uint32_t right) {
    size_t first = 0, second = 0;
    const uint8_t *bytes = (const uint8_t *)sr_pieces_text(&t->tokens, (int32_t)left, &first);
    (const uint8_t *)sr_pieces_text(&t->tokens, (int32_t)right, &second);
    *fits = first + second - t->prefix <= t->longest;
    if (!*fits) return SR_OK;
    uint8_t *text = NULL;
    SR_TRY(sr_new(&text, first + second));
    memcpy(text, bytes, first);
    bytes = (const uint8_t *)sr_pieces_text(&t->tokens, (int32_t)right, &second);
    memcpy(text + first, bytes + t->prefix, second - t->prefix);
    sr_status st = sr_pieces_append(merged, &t->tokens, text, first + second - t->prefix);
    sr_free(text);
    return st;
}

static sr_status merge_pair(trainer *t, uint32_t index) {
    pair p = t->pairs[index];
    uint32_t merged = 0;
    bool fits;
    SR_TRY(merged_token(&merged, &fits, t, p.left, p.right));
    if (!fits) return SR_OK;
    MORE(t->merges, t->merge_count, t->merge_room);
    t->merges[t->merge_count++] = (sr_merged){p.left, p.right};
    t->pairs[index].words = 0;
    for (uint32_t i = p.words; i != 0;) {
        uint32_t next = t->nodes[i].next;
        SR_TRY(merge_word(t, t->nodes[i].word, p.left, p.right, merged));
        t->nodes[i].next = t->free_nodes;
        t->free_nodes = i;
        i = next;
    }
    t->pairs[index].count = 0;
    return claim_grown(t);
}

static sr_status merge_pairs(trainer *t) {
    int64_t least = t->min_frequency > 0 ? t->min_frequency : 2;
    while (t->heap_count > 0 && (uint32_t)t->tokens.count < t->size) {
        claim c = pop(t);
        int64_t count = t->pairs[c.pair].count;
        if (c.count == count && count >= least) {
            SR_TRY(merge_pair(t, c.pair));
            if (t->merge_count % 256 == 0 && sr_stop_requested())
                return sr_fail(SR_ESTOP, "vocab: stopped on request");
        } else if (count < c.count && count >= least) {
            SR_TRY(push(t, c.pair));
        }
    }
    return SR_OK;
}

sr_status sr_merger_run(sr_merger *m) {
    SR_TRY(count_pairs(m));
    return merge_pairs(m);
}
