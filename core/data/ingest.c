#include "core/data/ingest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/carried.h"
#include "core/text/spaced.h"

enum {
    PORTION = 1 << 20, /* bytes of text */
    GROUP = 1 << 15,   /* bytes of text per group */
    LONGEST = 65535    /* tokens of a sentence: its column is u16 */
};

/* A sentence of a portion: its text, later its number of tokens, and of words. */
typedef struct piece {
    size_t begin, size;
    size_t tokens, words;
    bool follows;       /* another sentence of its document comes before it */
    bool ends_document; /* the document ends after it */
} piece;

typedef struct group {
    size_t first, last; /* pieces [first, last) */
    void *ids;          /* as their column has them: u16, or u32 */
    uint8_t *starts;    /* of words; only where ids do not show them */
    size_t count, room;
} group;

/* About a megabyte of text, which is read, then tokenized, then written. */
typedef struct portion {
    char *text; /* of the sentences */
    size_t used, text_room;
    piece *piece;
    size_t pieces, piece_room;
    group *group;
    size_t groups, group_room;
} portion;

/* Numbers of sentences that are written together. */
typedef struct queue {
    int column;
    size_t count;
    uint16_t values[512];
} queue;

enum { STAGES = 3, TOGETHER = 16 /* ids that are narrowed at once */ };

struct sr_ingest {
    sr_ingest_opts opts;
    char *document_start, *source_name;
    sr_source *source;
    sr_sentences *sentences;
    sr_threads *threads;
    sr_shard_writer *writer;
    int ids, document_sentences; /* columns */
    queue tokens, words;         /* sentence_tokens, sentence_words */
    bool narrow;                 /* ids fit into 16 bits */
    bool starts;                 /* there is a column word_starts */
    int word_starts;
    uint8_t bits;      /* of the column's next byte, */
    int bit;           /* and how many they are */
    sr_tokens *worker; /* (workers) */
    int workers;
    portion portion[STAGES]; /* each moves on to its next stage when a step ends */
    portion *reading, *read, *tokenized;
    bool ended; /* all text has been read */
    bool paragraph_ended;
    bool finished;            /* vocabulary and metadata are written */
    uint64_t document_read;   /* sentences of the document read so far */
    uint64_t document_stored; /* of those, written */
    uint64_t sentences_read;
    sr_ingest_counts counts; /* of what was written */
};

/* ---- open and close ---- */

static sr_status add_columns(sr_ingest *in) {
    sr_column_type type = in->narrow ? SR_COLUMN_U16 : SR_COLUMN_U32;
    SR_TRY(sr_shard_add_column(in->writer, &in->ids, "ids", type));
    SR_TRY(sr_shard_add_column(in->writer, &in->tokens.column, "sentence_tokens", SR_COLUMN_U16));
    SR_TRY(sr_shard_add_column(in->writer, &in->words.column, "sentence_words", SR_COLUMN_U16));
    SR_TRY(sr_shard_add_column(in->writer, &in->document_sentences, "document_sentences",
                               SR_COLUMN_U32));
    if (!in->starts) return SR_OK;
    return sr_shard_add_column(in->writer, &in->word_starts, "word_starts", SR_COLUMN_U8);
}

static sr_status begin(sr_ingest *in, const char *path) {
    sr_sentences_opts how = {.format = in->opts.format};
    if (in->opts.document_start != NULL)
        SR_TRY(sr_strdup(&in->document_start, in->opts.document_start));
    if (in->opts.source != NULL) SR_TRY(sr_strdup(&in->source_name, in->opts.source));
    in->narrow = sr_tokenizer_size(in->opts.tokenizer) <= 65536;
    in->starts = sr_carried_starts(in->opts.tokenizer);
    in->workers = in->threads != NULL ? sr_threads_count(in->threads) : 1;
    SR_TRY(sr_new(&in->worker, in->workers));
    for (int i = 0; i < in->workers; i++) in->worker[i].want_starts = in->starts;
    SR_TRY(sr_sentences_new(&in->sentences, in->source, &how));
    SR_TRY(sr_shard_create(&in->writer, path));
    return add_columns(in);
}

sr_status sr_ingest_open(sr_ingest **out, const char *path, sr_source *source,
                         const sr_ingest_opts *opts, sr_threads *threads) {
    *out = NULL;
    sr_ingest *in;
    SR_TRY(sr_new(&in, 1));
    in->opts = *opts;
    sr_tokenizer_retain(opts->tokenizer);
    in->source = source;
    in->threads = threads;
    in->reading = &in->portion[0], in->read = &in->portion[1], in->tokenized = &in->portion[2];
    sr_status st = begin(in, path);
    if (st != SR_OK) {
        sr_ingest_abort(in);
        return st;
    }
    *out = in;
    return SR_OK;
}

static void free_portion(portion *p) {
    for (size_t i = 0; i < p->group_room; i++) {
        sr_free(p->group[i].ids);
        sr_free(p->group[i].starts);
    }
    sr_free(p->text);
    sr_free(p->piece);
    sr_free(p->group);
}

void sr_ingest_abort(sr_ingest *in) {
    if (in == NULL) return;
    sr_shard_abort(in->writer);
    sr_sentences_free(in->sentences);
    for (int i = 0; in->worker != NULL && i < in->workers; i++) sr_tokens_free(&in->worker[i]);
    for (int i = 0; i < STAGES; i++) free_portion(&in->portion[i]);
    sr_tokenizer_release(in->opts.tokenizer);
    sr_free(in->document_start);
    sr_free(in->source_name);
    sr_free(in->worker);
    sr_free(in);
}

/* ---- reading ---- */

static sr_status add_piece(portion *p, size_t size) {
    if (p->pieces == p->piece_room) {
        size_t room = p->piece_room * 2 + 1024;
        SR_TRY(sr_grow(&p->piece, room));
        p->piece_room = room;
    }
    p->piece[p->pieces++] = (piece){.begin = p->used, .size = size};
    p->used += size;
    return SR_OK;
}

/* Ends the document after the last sentence read.  If that belongs to an earlier portion, an empty
 * piece, which is not a sentence, carries the mark. */
static sr_status end_document(sr_ingest *in, portion *p) {
    if (in->document_read == 0) return SR_OK;
    in->document_read = 0;
    if (p->pieces == 0) SR_TRY(add_piece(p, 0));
    p->piece[p->pieces - 1].ends_document = true;
    return SR_OK;
}

static sr_status add_sentence(sr_ingest *in, portion *p, const sr_sentence *s) {
    if (p->used + s->size > p->text_room) {
        size_t room = (p->used + s->size) * 2;
        SR_TRY(sr_grow(&p->text, room));
        p->text_room = room;
    }
    memcpy(p->text + p->used, s->bytes, s->size);
    in->sentences_read++;
    SR_TRY(add_piece(p, s->size));
    p->piece[p->pieces - 1].follows = in->document_read++ > 0;
    return SR_OK;
}

static bool starts_document(const sr_ingest *in, const sr_sentence *s) {
    size_t n = strlen(in->document_start);
    return s->size >= n && memcmp(s->bytes, in->document_start, n) == 0;
}

static sr_status take_event(sr_ingest *in, portion *p, const sr_sentence *s) {
    if (s->event != SR_TEXT_SENTENCE) {
        in->paragraph_ended = true;
        bool over = s->event == SR_TEXT_END || in->document_start == NULL;
        return over ? end_document(in, p) : SR_OK;
    }
    if (in->document_start != NULL && in->paragraph_ended && starts_document(in, s))
        SR_TRY(end_document(in, p));
    in->paragraph_ended = false;
    return add_sentence(in, p, s);
}

static sr_status cut_groups(portion *p) {
    size_t bytes = 0;
    p->groups = 0;
    for (size_t i = 0; i < p->pieces; i++) {
        if (i == 0 || bytes >= GROUP) {
            if (p->groups == p->group_room) {
                SR_TRY(sr_grow(&p->group, p->group_room + 1));
                p->group[p->group_room++] = (group){0};
            }
            group *g = &p->group[p->groups++];
            g->first = i;
            g->count = 0;
            bytes = 0;
        }
        p->group[p->groups - 1].last = i + 1;
        bytes += p->piece[i].size;
    }
    return SR_OK;
}

static sr_status read_portion(sr_ingest *in, portion *p) {
    p->used = p->pieces = 0;
    while (p->used < PORTION && !in->ended) {
        sr_sentence s;
        SR_TRY(sr_sentences_next(in->sentences, &s));
        SR_TRY(take_event(in, p, &s));
        in->ended = s.event == SR_TEXT_END;
    }
    return cut_groups(p);
}

/* ---- tokenizing ---- */

/* Sentences of a document are a space apart, which is a part of the next word in BPE. */
static sr_status tokenize_piece(const sr_ingest *in, sr_tokens *t, const char *text,
                                const piece *p) {
    if (p->follows) return sr_tokenize_word(t, in->opts.tokenizer, text, p->size);
    return sr_tokenize(t, in->opts.tokenizer, text, p->size);
}

static void narrow(uint16_t *out, const int32_t *ids, size_t count) {
    size_t i = 0;
    for (; i + TOGETHER <= count; i += TOGETHER) {
        uint16_t some[TOGETHER];
        for (int k = 0; k < TOGETHER; k++) some[k] = (uint16_t)ids[i + (size_t)k];
        memcpy(out + i, some, sizeof some);
    }
    for (; i < count; i++) out[i] = (uint16_t)ids[i];
}

static sr_status tokenize_group(sr_ingest *in, portion *from, group *g, sr_tokens *t) {
    t->count = 0;
    for (size_t k = g->first; k < g->last; k++) {
        size_t before = t->count;
        piece *p = &from->piece[k];
        const char *text = from->text + p->begin;
        if (p->size > 0) SR_TRY(tokenize_piece(in, t, text, p));
        p->tokens = t->count - before;
        p->words = sr_spaced_words((const uint8_t *)text, p->size);
    }
    if (t->count > g->room) {
        SR_TRY(sr_resize(&g->ids, t->count, in->narrow ? sizeof(uint16_t) : sizeof(uint32_t)));
        if (in->starts) SR_TRY(sr_grow(&g->starts, t->count));
        g->room = t->count;
    }
    if (in->narrow)
        narrow(g->ids, t->ids, t->count);
    else if (t->count > 0)
        memcpy(g->ids, t->ids, t->count * sizeof *t->ids);
    if (t->count > 0 && in->starts) memcpy(g->starts, t->starts, t->count);
    g->count = t->count;
    return SR_OK;
}

/* ---- writing ---- */

static sr_status write_ids(sr_ingest *in, const group *g) {
    in->counts.tokens += g->count;
    return sr_shard_append(in->writer, in->ids, g->ids, g->count);
}

static sr_status end_byte(sr_ingest *in) {
    SR_TRY(sr_shard_append(in->writer, in->word_starts, &in->bits, 1));
    in->bits = 0;
    in->bit = 0;
    return SR_OK;
}

static sr_status write_starts(sr_ingest *in, const group *g) {
    for (size_t i = 0; i < g->count; i++) {
        in->bits |= (uint8_t)(g->starts[i] << in->bit);
        if (++in->bit == 8) SR_TRY(end_byte(in));
    }
    return SR_OK;
}

static sr_status end_starts(sr_ingest *in) {
    return in->bit > 0 ? end_byte(in) : SR_OK;
}

static sr_status flush(sr_ingest *in, queue *q) {
    size_t count = q->count;
    q->count = 0;
    return sr_shard_append(in->writer, q->column, q->values, count);
}

static sr_status put(sr_ingest *in, queue *q, uint16_t value) {
    q->values[q->count++] = value;
    return q->count == sizeof q->values / sizeof *q->values ? flush(in, q) : SR_OK;
}

/* Writes a sentence with more tokens than its column can represent as several, which share its
 * words. */
static sr_status write_sentence(sr_ingest *in, const piece *p) {
    in->counts.empty += p->size > 0 && p->tokens == 0;
    for (size_t left = p->tokens; left > 0;) {
        uint16_t n = left < LONGEST ? (uint16_t)left : LONGEST;
        size_t done = p->tokens - left;
        size_t share = p->words * (done + n) / p->tokens - p->words * done / p->tokens;
        uint16_t words = share < LONGEST ? (uint16_t)share : LONGEST; /* most have no tokens */
        SR_TRY(put(in, &in->tokens, n));
        SR_TRY(put(in, &in->words, words));
        left -= n;
        in->counts.words += words;
        in->counts.stored++;
        in->counts.pieces += left > 0;
        in->document_stored++;
    }
    if (!p->ends_document) return SR_OK;
    in->counts.documents_empty += in->document_stored == 0;
    if (in->document_stored == 0) return SR_OK;
    if (in->document_stored > UINT32_MAX)
        return sr_fail(SR_EDATA,
                       "prepare: a document of %" PRIu64 " sentences is too long; separate "
                       "documents by blank lines",
                       in->document_stored);
    uint32_t sentences = (uint32_t)in->document_stored;
    in->document_stored = 0;
    in->counts.documents++;
    return sr_shard_append(in->writer, in->document_sentences, &sentences, 1);
}

static sr_status write_portion(sr_ingest *in, portion *p) {
    for (size_t i = 0; i < p->groups; i++) SR_TRY(write_ids(in, &p->group[i]));
    for (size_t i = 0; in->starts && i < p->groups; i++) SR_TRY(write_starts(in, &p->group[i]));
    for (size_t i = 0; i < p->pieces; i++) SR_TRY(write_sentence(in, &p->piece[i]));
    p->pieces = p->groups = 0;
    SR_TRY(flush(in, &in->tokens));
    return flush(in, &in->words);
}

/* ---- a step ---- */

/* Reading and writing, which are one after the other for a portion, come first: the others are
 * shared by the threads that are left. */
enum { READ, WRITE, TOKENIZE };

static sr_status work(void *context, int64_t i, int worker) {
    sr_ingest *in = context;
    if (i == READ) return read_portion(in, in->reading);
    if (i == WRITE) return write_portion(in, in->tokenized);
    return tokenize_group(in, in->read, &in->read->group[i - TOKENIZE], &in->worker[worker]);
}

sr_status sr_ingest_step(sr_ingest *in, bool *done) {
    *done = false;
    if (sr_stop_requested())
        return sr_fail(SR_ESTOP, "prepare: stopped on request; no data set was written");
    SR_TRY(sr_threads_run(in->threads, work, in, TOKENIZE + (int64_t)in->read->groups));
    portion *written = in->tokenized;
    in->tokenized = in->read;
    in->read = in->reading;
    in->reading = written;
    *done = in->ended && in->read->pieces == 0 && in->tokenized->pieces == 0;
    return SR_OK;
}

sr_ingest_counts sr_ingest_count(const sr_ingest *in) {
    sr_ingest_counts c = in->counts;
    sr_source_counts s = sr_source_count(in->source);
    c.sentences = in->sentences_read;
    c.records = s.records;
    c.left_out = s.left_out;
    c.bytes = s.bytes;
    c.bytes_read = s.bytes_read;
    c.total = sr_source_total(in->source);
    c.files = s.files;
    c.invalid = s.invalid;
    c.long_cut = s.long_cut + sr_sentences_count(in->sentences).long_cut;
    for (int i = 0; i < in->workers; i++) c.unknown += in->worker[i].unknown;
    return c;
}

/* ---- the end ---- */

/* The metadata of every .sqr file of text, without that of the tokenizer. */
static sr_status write_meta(sr_ingest *in) {
    sr_shard_writer *w = in->writer;
    static const char *const formats[] = {"prose", "lines", "documents"};
    SR_TRY(sr_shard_set_meta(w, "format", formats[in->opts.format]));
    if (in->document_start != NULL)
        SR_TRY(sr_shard_set_meta(w, "document_start", in->document_start));
    return in->source_name != NULL ? sr_shard_set_meta(w, "source", in->source_name) : SR_OK;
}

sr_status sr_ingest_finish(uint64_t *digest, sr_ingest *in) {
    if (in->finished) return sr_shard_finish(digest, in->writer);
    if (in->counts.documents == 0)
        return sr_fail(SR_EDATA,
                       "prepare: the text has no words (%" PRIu64 " bytes in %" PRIu64
                       " files); use other text",
                       sr_source_count(in->source).bytes, sr_source_count(in->source).files);
    if (in->starts) SR_TRY(end_starts(in));
    SR_TRY(sr_shard_set_meta(in->writer, "kind", "text"));
    SR_TRY(sr_carried_write(in->writer, in->opts.tokenizer));
    SR_TRY(write_meta(in));
    in->finished = true;
    return sr_shard_finish(digest, in->writer);
}

sr_status sr_ingest_commit(sr_ingest *in) {
    uint64_t digest;
    sr_status st = sr_ingest_finish(&digest, in);
    if (st == SR_OK) {
        st = sr_shard_commit(in->writer);
        in->writer = NULL;
    }
    sr_ingest_abort(in);
    return st;
}
