#include "core/data/ingest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/carried.h"

enum {
    STEP = 1 << 20,  /* bytes of text per step */
    GROUP = 1 << 15, /* bytes of text per group */
    LONGEST = 65535  /* tokens of a sentence: its column is u16 */
};

/* A sentence of the step: its text, later its number of tokens. */
typedef struct piece {
    size_t begin, size;
    size_t tokens;
    bool follows;       /* another sentence of its document comes before it */
    bool ends_document; /* the document ends after it */
} piece;

typedef struct group {
    size_t first, last; /* pieces [first, last) */
    int32_t *ids;
    uint8_t *starts; /* of words; only where ids do not tell */
    size_t count, room;
} group;

struct sr_ingest {
    sr_ingest_opts opts;
    char *document_start, *source_name;
    sr_source *source;
    sr_sentences *sentences;
    sr_threads *threads;
    sr_shard_writer *writer;
    int ids, sentence_tokens, document_sentences; /* columns */
    bool narrow;                                  /* ids fit into 16 bits */
    bool starts;                                  /* there is a column word_starts */
    int word_starts;
    uint8_t bits;      /* of the column's next byte, */
    int bit;           /* and how many they are */
    sr_tokens *worker; /* (workers) */
    int workers;
    char *text; /* of the step's sentences */
    size_t used, text_room;
    piece *piece;
    size_t pieces, piece_room;
    group *group;
    size_t groups, group_room;
    uint16_t *short_ids;
    size_t short_room;
    bool paragraph_ended;
    bool finished;            /* vocabulary and metadata are written */
    uint64_t document_read;   /* sentences of the document read so far */
    uint64_t document_stored; /* of those, written */
    sr_ingest_counts counts;
};

/* ---- open and close ---- */

static sr_status add_columns(sr_ingest *in) {
    sr_column_type type = in->narrow ? SR_COLUMN_U16 : SR_COLUMN_U32;
    SR_TRY(sr_shard_add_column(in->writer, &in->ids, "ids", type));
    SR_TRY(sr_shard_add_column(in->writer, &in->sentence_tokens, "sentence_tokens", SR_COLUMN_U16));
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
    sr_status st = begin(in, path);
    if (st != SR_OK) {
        sr_ingest_abort(in);
        return st;
    }
    *out = in;
    return SR_OK;
}

void sr_ingest_abort(sr_ingest *in) {
    if (in == NULL) return;
    sr_shard_abort(in->writer);
    sr_sentences_free(in->sentences);
    for (int i = 0; in->worker != NULL && i < in->workers; i++) sr_tokens_free(&in->worker[i]);
    for (size_t i = 0; i < in->group_room; i++) {
        sr_free(in->group[i].ids);
        sr_free(in->group[i].starts);
    }
    sr_tokenizer_release(in->opts.tokenizer);
    sr_free(in->document_start);
    sr_free(in->source_name);
    sr_free(in->worker);
    sr_free(in->text);
    sr_free(in->piece);
    sr_free(in->group);
    sr_free(in->short_ids);
    sr_free(in);
}

/* ---- gathering ---- */

static sr_status add_piece(sr_ingest *in, size_t size) {
    if (in->pieces == in->piece_room) {
        size_t room = in->piece_room * 2 + 1024;
        SR_TRY(sr_grow(&in->piece, room));
        in->piece_room = room;
    }
    in->piece[in->pieces++] = (piece){.begin = in->used, .size = size};
    in->used += size;
    return SR_OK;
}

/* Ends the document after the last sentence read.  If that belongs to an earlier step, an empty
 * piece, which is not a sentence, carries the mark. */
static sr_status end_document(sr_ingest *in) {
    if (in->document_read == 0) return SR_OK;
    in->document_read = 0;
    if (in->pieces == 0) SR_TRY(add_piece(in, 0));
    in->piece[in->pieces - 1].ends_document = true;
    return SR_OK;
}

static sr_status add_sentence(sr_ingest *in, const sr_sentence *s) {
    if (in->used + s->size > in->text_room) {
        size_t room = (in->used + s->size) * 2;
        SR_TRY(sr_grow(&in->text, room));
        in->text_room = room;
    }
    memcpy(in->text + in->used, s->bytes, s->size);
    in->counts.sentences++;
    SR_TRY(add_piece(in, s->size));
    in->piece[in->pieces - 1].follows = in->document_read++ > 0;
    return SR_OK;
}

static bool starts_document(const sr_ingest *in, const sr_sentence *s) {
    size_t n = strlen(in->document_start);
    return s->size >= n && memcmp(s->bytes, in->document_start, n) == 0;
}

static sr_status take_event(sr_ingest *in, const sr_sentence *s) {
    if (s->event != SR_TEXT_SENTENCE) {
        in->paragraph_ended = true;
        bool over = s->event == SR_TEXT_END || in->document_start == NULL;
        return over ? end_document(in) : SR_OK;
    }
    if (in->document_start != NULL && in->paragraph_ended && starts_document(in, s))
        SR_TRY(end_document(in));
    in->paragraph_ended = false;
    return add_sentence(in, s);
}

static sr_status gather(sr_ingest *in, bool *done) {
    in->used = in->pieces = 0;
    while (in->used < STEP) {
        sr_sentence s;
        SR_TRY(sr_sentences_next(in->sentences, &s));
        SR_TRY(take_event(in, &s));
        *done = s.event == SR_TEXT_END;
        if (*done) break;
    }
    return SR_OK;
}

/* ---- tokenizing ---- */

static sr_status cut_groups(sr_ingest *in) {
    size_t bytes = 0;
    in->groups = 0;
    for (size_t i = 0; i < in->pieces; i++) {
        if (i == 0 || bytes >= GROUP) {
            if (in->groups == in->group_room) {
                SR_TRY(sr_grow(&in->group, in->group_room + 1));
                in->group[in->group_room++] = (group){0};
            }
            group *g = &in->group[in->groups++];
            g->first = i;
            g->count = 0;
            bytes = 0;
        }
        in->group[in->groups - 1].last = i + 1;
        bytes += in->piece[i].size;
    }
    return SR_OK;
}

/* Sentences of a document are a space apart, which is a part of the next word in BPE. */
static sr_status tokenize_piece(const sr_ingest *in, sr_tokens *t, const piece *p) {
    const char *text = in->text + p->begin;
    if (p->follows) return sr_tokenize_word(t, in->opts.tokenizer, text, p->size);
    return sr_tokenize(t, in->opts.tokenizer, text, p->size);
}

static sr_status tokenize_group(void *context, int64_t i, int worker) {
    sr_ingest *in = context;
    group *g = &in->group[i];
    sr_tokens *t = &in->worker[worker];
    t->count = 0;
    for (size_t k = g->first; k < g->last; k++) {
        size_t before = t->count;
        piece *p = &in->piece[k];
        if (p->size > 0) SR_TRY(tokenize_piece(in, t, p));
        p->tokens = t->count - before;
    }
    if (t->count > g->room) {
        SR_TRY(sr_grow(&g->ids, t->count));
        if (in->starts) SR_TRY(sr_grow(&g->starts, t->count));
        g->room = t->count;
    }
    if (t->count > 0) memcpy(g->ids, t->ids, t->count * sizeof *g->ids);
    if (t->count > 0 && in->starts) memcpy(g->starts, t->starts, t->count);
    g->count = t->count;
    return SR_OK;
}

/* ---- writing ---- */

static sr_status write_ids(sr_ingest *in, const group *g) {
    in->counts.tokens += g->count;
    if (!in->narrow) return sr_shard_append(in->writer, in->ids, g->ids, g->count);
    if (g->count > in->short_room) {
        SR_TRY(sr_grow(&in->short_ids, g->count));
        in->short_room = g->count;
    }
    for (size_t i = 0; i < g->count; i++) in->short_ids[i] = (uint16_t)g->ids[i];
    return sr_shard_append(in->writer, in->ids, in->short_ids, g->count);
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

/* Writes a sentence with more tokens than its column can represent as several. */
static sr_status write_sentence(sr_ingest *in, const piece *p) {
    in->counts.empty += p->size > 0 && p->tokens == 0;
    for (size_t left = p->tokens; left > 0;) {
        uint16_t n = left < LONGEST ? (uint16_t)left : LONGEST;
        SR_TRY(sr_shard_append(in->writer, in->sentence_tokens, &n, 1));
        left -= n;
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

sr_status sr_ingest_step(sr_ingest *in, bool *done) {
    *done = false;
    if (sr_stop_requested())
        return sr_fail(SR_ESTOP, "prepare: stopped on request; no data set was written");
    SR_TRY(gather(in, done));
    SR_TRY(cut_groups(in));
    SR_TRY(sr_threads_run(in->threads, tokenize_group, in, (int64_t)in->groups));
    for (size_t i = 0; i < in->groups; i++) SR_TRY(write_ids(in, &in->group[i]));
    for (size_t i = 0; in->starts && i < in->groups; i++) SR_TRY(write_starts(in, &in->group[i]));
    for (size_t i = 0; i < in->pieces; i++) SR_TRY(write_sentence(in, &in->piece[i]));
    return SR_OK;
}

sr_ingest_counts sr_ingest_count(const sr_ingest *in) {
    sr_ingest_counts c = in->counts;
    sr_source_counts s = sr_source_count(in->source);
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

/* The metadata of every .sqr file of text, besides that of the tokenizer. */
static sr_status write_meta(sr_ingest *in) {
    sr_shard_writer *w = in->writer;
    SR_TRY(sr_shard_set_meta(w, "format", in->opts.format == SR_TEXT_LINES ? "lines" : "prose"));
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
