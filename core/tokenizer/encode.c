#include "core/tokenizer/encode.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/utf8.h"

enum { BLOCK_BYTES = 128 << 10, BLOCKS = 16 };

/* A line, or a part of one, within the text of its block. */
typedef struct piece {
    size_t at, size;
    uint64_t line, chars; /* number, from 1; code points of the line before this part */
    bool starts, ends;
} piece;

typedef struct block {
    char *text;
    size_t size, room;
    piece *pieces;
    size_t count, piece_room;
    char *out;
    size_t out_size, out_room;
    uint64_t tokens;
} block;

typedef struct encoder {
    const sr_tokenizer *t;
    sr_encode_opts opts;
    block blocks[BLOCKS];
    sr_tokens *tokens; /* one per thread */
    int threads;
    uint64_t line, chars; /* of the current line */
    bool open;            /* only a part of it was read */
    bool splits;          /* a line may be tokenized in parts */
} encoder;

/* ---- writing ---- */

static sr_status out_room(block *b, size_t more) {
    size_t need;
    SR_TRY(sr_add_size(&need, b->out_size, more));
    if (need <= b->out_room) return SR_OK;
    size_t room = need + need / 2;
    SR_TRY(sr_grow(&b->out, room));
    b->out_room = room;
    return SR_OK;
}

/* The put functions write to memory reserved by out_room(). */
static void put(block *b, char c) {
    b->out[b->out_size++] = c;
}

static void put_text(block *b, const char *text) {
    while (*text != '\0') put(b, *text++);
}

static void put_number(block *b, uint64_t n) {
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[20];
    size_t at = sizeof digits;
    for (; n >= 100; n /= 100) memcpy(digits + (at -= 2), pairs + n % 100 * 2, 2);
    memcpy(digits + (at -= 2), pairs + n * 2, 2);
    if (n < 10) at++;
    memcpy(b->out + b->out_size, digits + at, sizeof digits - at);
    b->out_size += sizeof digits - at;
}

static void put_json_string(block *b, const char *text, size_t size) {
    static const char hex[] = "0123456789abcdef";
    put(b, '"');
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') put(b, '\\');
        if (c >= 0x20 && c != 0x7F) {
            put(b, (char)c);
            continue;
        }
        put_text(b, "\\u00");
        put(b, hex[c >> 4]);
        put(b, hex[c & 15]);
    }
    put(b, '"');
}

static void put_span(block *b, const sr_text_span *span, uint64_t before, char between) {
    put_number(b, before + span->char_first);
    put(b, between);
    put_number(b, before + span->char_last);
}

/* The maximum size of anything but the text of a token. */
enum { ROOM = 64 };

/* The text of a token; nothing where an id has none. */
static sr_status put_token(block *b, const encoder *e, int32_t id) {
    size_t size = 0;
    const char *token = sr_tokenizer_token(e->t, id, &size);
    if (token == NULL) return SR_OK;
    SR_TRY(out_room(b, 6 * size + ROOM));
    if (e->opts.json) {
        put_json_string(b, token, size);
        return SR_OK;
    }
    memcpy(b->out + b->out_size, token, size);
    b->out_size += size;
    return SR_OK;
}

typedef enum column { IDS, OFFSETS, TOKENS, LINE } column;

/* A token in an array of the JSON form; a special token of the frame is at 0:0. */
static sr_status put_cell(block *b, const encoder *e, column what, int32_t id,
                          const sr_text_span *span, uint64_t before) {
    static const sr_text_span nowhere;
    SR_TRY(out_room(b, ROOM));
    if (what == IDS) {
        put_number(b, (uint64_t)id);
    } else if (what == TOKENS) {
        return put_token(b, e, id);
    } else {
        put(b, '[');
        put_span(b, span != NULL ? span : &nowhere, span != NULL ? before : 0, ',');
        put(b, ']');
    }
    return SR_OK;
}

/* A token in a plain line. */
static sr_status put_plain(block *b, const encoder *e, int32_t id, const sr_text_span *span,
                           uint64_t before) {
    static const sr_text_span nowhere;
    SR_TRY(out_room(b, ROOM));
    if (e->opts.ids) put_number(b, (uint64_t)id);
    if (e->opts.ids && e->opts.offsets) put(b, ':');
    if (e->opts.offsets)
        put_span(b, span != NULL ? span : &nowhere, span != NULL ? before : 0, ':');
    else if (!e->opts.ids)
        return put_token(b, e, id);
    return SR_OK;
}

/* One token after others: in a plain line (LINE), or in a column. */
static sr_status put_next(block *b, const encoder *e, column what, int32_t id,
                          const sr_text_span *span, uint64_t before, bool *first) {
    SR_TRY(out_room(b, ROOM));
    if (!*first) put(b, what == LINE ? ' ' : ',');
    *first = false;
    return what == LINE ? put_plain(b, e, id, span, before)
                        : put_cell(b, e, what, id, span, before);
}

/* The tokens of a piece, with the frame where the line starts and ends. */
static sr_status put_all(block *b, const encoder *e, column what, const piece *p,
                         const sr_tokens *k) {
    const sr_frame *f = sr_tokenizer_frame(e->t, false);
    bool first = what != LINE || p->starts, offsets = k->spans != NULL;
    for (int i = 0; e->opts.frame && p->starts && i < f->lead.count; i++)
        SR_TRY(put_next(b, e, what, f->lead.ids[i], NULL, 0, &first));
    for (size_t i = 0; i < k->count; i++)
        SR_TRY(put_next(b, e, what, k->ids[i], offsets ? &k->spans[i] : NULL, p->chars, &first));
    for (int i = 0; e->opts.frame && p->ends && i < f->tail.count; i++)
        SR_TRY(put_next(b, e, what, f->tail.ids[i], NULL, 0, &first));
    return out_room(b, ROOM);
}

static sr_status write_plain(block *b, const encoder *e, const piece *p, const sr_tokens *k) {
    SR_TRY(put_all(b, e, LINE, p, k));
    if (p->ends) put(b, '\n');
    return SR_OK;
}

static sr_status write_column(block *b, const encoder *e, const piece *p, const sr_tokens *k,
                              column what) {
    static const char *const names[] = {",\"ids\":[", ",\"offsets\":[", ",\"tokens\":["};
    SR_TRY(out_room(b, ROOM));
    put_text(b, names[what]);
    SR_TRY(put_all(b, e, what, p, k));
    put(b, ']');
    return SR_OK;
}

static sr_status write_json(block *b, const encoder *e, const piece *p, const sr_tokens *k) {
    SR_TRY(out_room(b, ROOM));
    put_text(b, "{\"line\":");
    put_number(b, p->line);
    if (e->opts.ids) SR_TRY(write_column(b, e, p, k, IDS));
    if (e->opts.offsets) SR_TRY(write_column(b, e, p, k, OFFSETS));
    if (e->opts.ids == e->opts.offsets) SR_TRY(write_column(b, e, p, k, TOKENS));
    SR_TRY(out_room(b, 2));
    put_text(b, "}\n");
    return SR_OK;
}

/* The number of special tokens around a piece. */
static uint64_t frame_size(const encoder *e, const piece *p) {
    const sr_frame *f = sr_tokenizer_frame(e->t, false);
    if (!e->opts.frame) return 0;
    return (p->starts ? (uint64_t)f->lead.count : 0) + (p->ends ? (uint64_t)f->tail.count : 0);
}

static sr_status encode_block(void *context, int64_t i, int worker) {
    encoder *e = context;
    block *b = &e->blocks[i];
    sr_tokens *k = &e->tokens[worker];
    for (size_t n = 0; n < b->count; n++) {
        const piece *p = &b->pieces[n];
        k->count = 0;
        SR_TRY(sr_tokenize(k, e->t, b->text + p->at, p->size));
        b->tokens += k->count + frame_size(e, p);
        if (e->opts.count_only) continue;
        if (e->opts.json)
            SR_TRY(write_json(b, e, p, k));
        else
            SR_TRY(write_plain(b, e, p, k));
    }
    return SR_OK;
}

/* ---- reading ---- */

static sr_status add_text(block *b, const sr_line *line) {
    size_t need;
    SR_TRY(sr_add_size(&need, b->size, line->size));
    if (need > b->room) {
        size_t room = need + need / 2 + BLOCK_BYTES;
        SR_TRY(sr_grow(&b->text, room));
        b->room = room;
    }
    if (line->size > 0) memcpy(b->text + b->size, line->bytes, line->size);
    b->size = need;
    return SR_OK;
}

static sr_status add_piece(encoder *e, block *b, const sr_line *line) {
    if (b->count == b->piece_room) {
        size_t room = b->piece_room > 0 ? 2 * b->piece_room : 256;
        SR_TRY(sr_grow(&b->pieces, room));
        b->piece_room = room;
    }
    bool starts = !e->open || line->file_starts;
    if (starts) e->line++, e->chars = 0;
    if (!starts && !e->splits) { /* the line is one text */
        piece *p = &b->pieces[b->count - 1];
        p->size += line->size;
        p->ends = line->ends;
    } else {
        b->pieces[b->count++] = (piece){b->size, line->size, e->line, e->chars, starts, line->ends};
    }
    SR_TRY(add_text(b, line));
    e->open = !line->ends;
    if (e->open && e->opts.offsets) e->chars += sr_utf8_length(line->bytes, line->size);
    return SR_OK;
}

/* Fills blocks until all are full, or the input ends or would block. */
static sr_status read_blocks(encoder *e, sr_source *source, int64_t *blocks, bool *ended) {
    int64_t n = 0;
    for (int i = 0; i < BLOCKS; i++) {
        block *b = &e->blocks[i];
        b->size = b->count = b->out_size = 0;
    }
    for (;;) {
        sr_line line;
        SR_TRY(sr_source_line(source, &line));
        *ended = line.bytes == NULL;
        if (*ended) break;
        SR_TRY(add_piece(e, &e->blocks[n], &line));
        if (e->open && !e->splits) continue; /* a line stays in one block */
        if (e->blocks[n].size >= BLOCK_BYTES && ++n == BLOCKS) break;
        if (!sr_source_ready(source)) break;
    }
    *blocks = n < BLOCKS && e->blocks[n].count > 0 ? n + 1 : n;
    return SR_OK;
}

static sr_status encode_all(encoder *e, sr_source *source, sr_threads *threads, sr_encode_sink sink,
                            void *context) {
    for (bool ended = false; !ended;) {
        int64_t blocks;
        if (sr_stop_requested()) return sr_fail(SR_ESTOP, "tokenize: stopped on request");
        SR_TRY(read_blocks(e, source, &blocks, &ended));
        SR_TRY(sr_threads_run(threads, encode_block, e, blocks));
        for (int64_t i = 0; i < blocks && !e->opts.count_only; i++)
            SR_TRY(sink(context, e->blocks[i].out, e->blocks[i].out_size));
    }
    return SR_OK;
}

static void take_counts(sr_encode_counts *counts, const encoder *e, const sr_source *source) {
    sr_source_counts s = sr_source_count(source);
    *counts = (sr_encode_counts){.lines = e->line, .bytes = s.bytes, .long_cut = s.long_cut};
    for (int i = 0; i < BLOCKS; i++) counts->tokens += e->blocks[i].tokens;
    for (int i = 0; i < e->threads && e->tokens != NULL; i++) {
        counts->unknown += e->tokens[i].unknown;
        counts->invalid += e->tokens[i].invalid;
    }
}

static void free_encoder(encoder *e) {
    for (int i = 0; i < BLOCKS; i++) {
        sr_free(e->blocks[i].text);
        sr_free(e->blocks[i].pieces);
        sr_free(e->blocks[i].out);
    }
    for (int i = 0; i < e->threads && e->tokens != NULL; i++) sr_tokens_free(&e->tokens[i]);
    sr_free(e->tokens);
}

sr_status sr_encode(sr_source *source, const sr_tokenizer *t, const sr_encode_opts *opts,
                    sr_threads *threads, sr_encode_sink sink, void *context,
                    sr_encode_counts *counts) {
    encoder e = {.t = t, .opts = *opts, .splits = sr_tokenizer_splits(t)};
    e.threads = threads != NULL ? sr_threads_count(threads) : 1;
    sr_status st = sr_new(&e.tokens, e.threads);
    for (int i = 0; st == SR_OK && i < e.threads; i++) e.tokens[i].want_spans = opts->offsets;
    if (st == SR_OK) st = encode_all(&e, source, threads, sink, context);
    take_counts(counts, &e, source);
    free_encoder(&e);
    return st;
}
