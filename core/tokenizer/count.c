#include "core/tokenizer/count.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/classes.h"
#include "core/tokenizer/pattern_known.h"
#include "core/unicode/utf8.h"

enum { BLOCK_BYTES = 512 << 10, BLOCKS = 8 };

/* A block of lines, separated by line feeds, and the words in it. */
typedef struct block {
    uint8_t *text;
    size_t size, room;
    sr_word_counts found;
} block;

typedef struct counter {
    block blocks[BLOCKS];
    const sr_words_opts *opts;
} counter;

static sr_status add_count(sr_word_counts *c, const void *word, size_t size, int64_t times) {
    uint32_t index;
    if ((size_t)c->words.count == c->room) {
        size_t room = c->room * 2 + 256;
        SR_TRY(sr_grow(&c->counts, room));
        memset(c->counts + c->room, 0, (room - c->room) * sizeof *c->counts);
        c->room = room;
    }
    SR_TRY(sr_pieces_append(&index, &c->words, word, size));
    c->counts[index] += times;
    return SR_OK;
}

static sr_status count_word(void *context, const sr_word *word) {
    sr_word_counts *c = context;
    if (word->chars > SR_WORD_CHARS) {
        c->too_long++;
        return SR_OK;
    }
    c->total++;
    return add_count(c, word->bytes, word->size, 1);
}

/* The pieces of a line, with its line feed; U+FFFD replaces invalid UTF-8. */
static sr_status count_pieces(sr_word_counts *c, const uint8_t *bytes, size_t size) {
    uint8_t *fixed = NULL;
    if (sr_utf8_invalid(bytes, size, NULL) > 0) {
        size_t n = 0;
        SR_TRY(sr_new(&fixed, 3 * size));
        for (size_t at = 0; at < size;) {
            int32_t cp;
            at += (size_t)sr_utf8_decode(&cp, bytes + at, size - at);
            n += (size_t)sr_utf8_encode(fixed + n, cp >= 0 ? cp : SR_UTF8_REPLACEMENT);
        }
        bytes = fixed;
        size = n;
    }
    sr_status st = SR_OK;
    for (size_t at = 0, end; st == SR_OK && at < size; at = end) {
        end = sr_scan_gpt2(bytes, at, size);
        c->total++;
        st = add_count(c, bytes + at, end - at, 1);
    }
    sr_free(fixed);
    return st;
}

static sr_status count_lines(sr_word_counts *c, const uint8_t *bytes, size_t size) {
    for (size_t at = 0, end; at < size; at = end) {
        const uint8_t *feed = memchr(bytes + at, '\n', size - at);
        end = feed != NULL ? (size_t)(feed - bytes) + 1 : size;
        SR_TRY(count_pieces(c, bytes + at, end - at));
    }
    return SR_OK;
}

static sr_status count_block(void *context, int64_t i, int worker) {
    (void)worker;
    counter *c = context;
    block *b = &c->blocks[i];
    if (c->opts == NULL) return count_lines(&b->found, b->text, b->size);
    sr_words_at at = {0};
    return sr_words(&at, b->text, b->size, c->opts, count_word, &b->found);
}

void sr_word_counts_free(sr_word_counts *c) {
    sr_pieces_free(&c->words);
    sr_free(c->counts);
    *c = (sr_word_counts){0};
}

static uint32_t more_frequent(const sr_word_counts *c, int64_t than) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < (uint32_t)c->words.count; i++) n += c->counts[i] > than;
    return n;
}

/* The smallest count exceeded by at most `most` words. */
static int64_t threshold(const sr_word_counts *c, uint32_t most) {
    int64_t low = 0, high = 1;
    while (more_frequent(c, high) > most) high *= 2;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (more_frequent(c, middle) > most)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Keeps three quarters of `limit` words: the most frequent; on ties, the first in the text. */
static sr_status forget(sr_word_counts *c, int64_t limit) {
    uint32_t most = (uint32_t)(limit - limit / 4);
    int64_t least = threshold(c, most);
    uint32_t equals = most - more_frequent(c, least);
    sr_word_counts kept = {.total = c->total, .too_long = c->too_long, .forgotten = c->forgotten};
    for (uint32_t i = 0; i < (uint32_t)c->words.count; i++) {
        size_t size;
        const uint8_t *word = (const uint8_t *)sr_pieces_text(&c->words, (int32_t)i, &size);
        bool keep = c->counts[i] > least || (c->counts[i] == least && equals > 0);
        equals -= keep && c->counts[i] == least;
        sr_status st = SR_OK;
        if (keep)
            st = add_count(&kept, word, size, c->counts[i]);
        else
            kept.forgotten += (uint64_t)c->counts[i];
        if (st != SR_OK) {
            sr_word_counts_free(&kept);
            return st;
        }
    }
    sr_word_counts_free(c);
    *c = kept;
    return SR_OK;
}

static sr_status merge_block(sr_word_counts *out, const sr_word_counts *found, int64_t limit) {
    for (uint32_t i = 0; i < (uint32_t)found->words.count; i++) {
        size_t size;
        const uint8_t *word = (const uint8_t *)sr_pieces_text(&found->words, (int32_t)i, &size);
        SR_TRY(add_count(out, word, size, found->counts[i]));
    }
    out->total += found->total;
    out->too_long += found->too_long;
    return (int64_t)out->words.count > limit ? forget(out, limit) : SR_OK;
}

static sr_status add_line(block *b, const sr_line *line) {
    size_t need;
    SR_TRY(sr_add_size(&need, b->size, line->size + 1));
    if (need > b->room) {
        SR_TRY(sr_grow(&b->text, need + BLOCK_BYTES));
        b->room = need + BLOCK_BYTES;
    }
    memcpy(b->text + b->size, line->bytes, line->size);
    b->text[need - 1] = '\n';
    b->size = need;
    return SR_OK;
}

static sr_status read_blocks(counter *c, sr_source *source, int64_t *blocks, bool *ended) {
    int64_t n = 0;
    for (int i = 0; i < BLOCKS; i++) {
        c->blocks[i].size = 0;
        sr_word_counts_free(&c->blocks[i].found);
    }
    while (n < BLOCKS) {
        sr_line line;
        SR_TRY(sr_source_line(source, &line));
        *ended = line.bytes == NULL;
        if (*ended) break;
        SR_TRY(add_line(&c->blocks[n], &line));
        n += c->blocks[n].size >= BLOCK_BYTES;
    }
    *blocks = n < BLOCKS && c->blocks[n].size > 0 ? n + 1 : n;
    return SR_OK;
}

static sr_status count_all(counter *c, sr_word_counts *out, sr_source *source, int64_t limit,
                           sr_threads *threads) {
    for (bool ended = false; !ended;) {
        int64_t blocks;
        if (sr_stop_requested()) return sr_fail(SR_ESTOP, "vocab: stopped on request");
        SR_TRY(read_blocks(c, source, &blocks, &ended));
        SR_TRY(sr_threads_run(threads, count_block, c, blocks));
        for (int64_t i = 0; i < blocks; i++) SR_TRY(merge_block(out, &c->blocks[i].found, limit));
    }
    return SR_OK;
}

sr_status sr_word_counts_add(sr_word_counts *out, sr_source *source, const sr_words_opts *opts,
                             int64_t limit, sr_threads *threads) {
    counter c = {.opts = opts};
    sr_classes_init();
    sr_status st = count_all(&c, out, source, limit, threads);
    for (int i = 0; i < BLOCKS; i++) {
        sr_free(c.blocks[i].text);
        sr_word_counts_free(&c.blocks[i].found);
    }
    return st;
}
