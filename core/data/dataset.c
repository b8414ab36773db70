#include "core/data/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/data/folds.h"

const char *sr_data_part_name(sr_data_part part) {
    return part == SR_PART_HELD ? "held" : "train";
}

static sr_status wrong(const sr_dataset *d, const char *what) {
    return sr_fail(SR_EDATA, "%s: %s; prepare the data set again", sr_shard_path(d->shard), what);
}

/* Reads a whole column into memory, freed by sr_free(). */
static sr_status read_column(void **out, const sr_dataset *d, const sr_column *c) {
    SR_TRY(sr_alloc(out, c->count, c->size));
    return sr_shard_read(d->shard, c, *out, 0, c->count);
}

/* ---- tokenizer ---- */

uint64_t sr_dataset_fingerprint(const sr_dataset *d) {
    return d->plain ? sr_vocab_fingerprint(sr_tokenizer_vocab(d->tokenizer))
                    : sr_tokenizer_fingerprint(d->tokenizer);
}

/* "WordPiece, 30522 tokens, uncased" */
static void describe(char *out, size_t size, const sr_tokenizer *t) {
    snprintf(out, size, "%s, %d tokens, %s", sr_tokenizer_kind_name(t), sr_tokenizer_size(t),
             sr_tokenizer_lowercase(t) ? "uncased" : "cased");
}

static sr_status check_tokenizer(const sr_dataset *d, const sr_tokenizer *wanted) {
    char mine[80], theirs[80];
    if (sr_tokenizer_fingerprint(wanted) == sr_tokenizer_fingerprint(d->tokenizer)) return SR_OK;
    describe(mine, sizeof mine, d->tokenizer);
    describe(theirs, sizeof theirs, wanted);
    return sr_fail(SR_EDATA,
                   "%s: prepared with the tokenizer %016" PRIx64 " (%s), not with %016" PRIx64
                   " (%s); prepare it again with that tokenizer, or use the one it contains",
                   sr_shard_path(d->shard), sr_tokenizer_fingerprint(d->tokenizer), mine,
                   sr_tokenizer_fingerprint(wanted), theirs);
}

static sr_status check_vocab(const sr_dataset *d, const sr_vocab *wanted) {
    if (sr_tokenizer_vocab(d->tokenizer) != NULL &&
        sr_vocab_fingerprint(wanted) == sr_vocab_fingerprint(sr_tokenizer_vocab(d->tokenizer)))
        return SR_OK;
    return sr_fail(
        SR_EDATA,
        "%s: prepared with the vocabulary %016" PRIx64 " of %d tokens, not with %016" PRIx64
        " of %d; prepare it again with that vocabulary, or use the one it contains",
        sr_shard_path(d->shard), sr_dataset_fingerprint(d), sr_tokenizer_size(d->tokenizer),
        sr_vocab_fingerprint(wanted), sr_vocab_size(wanted));
}

static sr_status read_tokenizer(sr_dataset *d, const sr_dataset_opts *opts) {
    sr_tokenizer_opts options;
    SR_TRY(sr_carried_read(&d->tokenizer, d->shard));
    SR_TRY(sr_tokenizer_plain(&d->plain, &options, d->tokenizer));
    if (opts->tokenizer != NULL) SR_TRY(check_tokenizer(d, opts->tokenizer));
    return opts->vocab != NULL ? check_vocab(d, opts->vocab) : SR_OK;
}

/* ---- the index ---- */

/* The words of each sentence, if they were counted. */
static sr_status read_words(sr_dataset *d) {
    const sr_column *c = sr_shard_column(d->shard, "sentence_words");
    if (c == NULL) return SR_OK;
    if (c->type != SR_COLUMN_U16 || c->count != (uint64_t)d->sentences)
        return wrong(d, "its column 'sentence_words' does not have a number for each sentence");
    return read_column((void **)&d->sentence_words, d, c);
}

static sr_status read_sentences(sr_dataset *d) {
    const sr_column *c;
    SR_TRY(sr_shard_want(&c, d->shard, "sentence_tokens", SR_COLUMN_U16));
    SR_TRY(read_column((void **)&d->sentence_tokens, d, c));
    d->sentences = (int64_t)c->count;
    SR_TRY(sr_new(&d->sentence_mark, c->count / SR_SENTENCE_MARK + 1));
    uint64_t tokens = 0;
    for (int64_t i = 0; i < d->sentences; i++) {
        if (d->sentence_tokens[i] == 0) return wrong(d, "a sentence has no tokens");
        if (i % SR_SENTENCE_MARK == 0) d->sentence_mark[i / SR_SENTENCE_MARK] = tokens;
        tokens += d->sentence_tokens[i];
    }
    if (tokens != d->ids->count) return wrong(d, "sentences and tokens do not agree");
    return read_words(d);
}

static sr_status read_documents(sr_dataset *d) {
    const sr_column *c;
    SR_TRY(sr_shard_want(&c, d->shard, "document_sentences", SR_COLUMN_U32));
    if (c->count >= UINT32_MAX) return wrong(d, "it has more than 2^32 - 2 documents");
    d->units = (int64_t)c->count;
    /* one more than needed: a corpus of one document may be split in two */
    SR_TRY(sr_new(&d->unit_sentence, c->count + 2));
    SR_TRY(sr_new(&d->unit_token, c->count + 2));
    uint32_t *count = NULL;
    sr_status st = read_column((void **)&count, d, c);
    uint64_t sentence = 0, token = 0;
    for (int64_t i = 0; st == SR_OK && i < d->units; i++) {
        if (count[i] == 0 || count[i] > (uint64_t)d->sentences - sentence)
            st = wrong(d, "documents and sentences do not agree");
        for (uint32_t k = 0; st == SR_OK && k < count[i]; k++)
            token += d->sentence_tokens[sentence++];
        d->unit_sentence[i + 1] = sentence;
        d->unit_token[i + 1] = token;
    }
    if (st == SR_OK && sentence != (uint64_t)d->sentences)
        st = wrong(d, "documents and sentences do not agree");
    sr_free(count);
    return st;
}

static sr_status add_examples(sr_dataset *d, const uint32_t *b_tokens) {
    uint64_t token = 0;
    for (int64_t i = 0; i < d->units; i++) {
        token += (uint64_t)d->a_tokens[i] + b_tokens[i]; /* < 2^33 x 2^32 */
        d->unit_token[i + 1] = token;
        if (d->a_tokens[i] == 0) return wrong(d, "an example has no tokens");
    }
    return token == d->ids->count ? SR_OK : wrong(d, "examples and tokens do not agree");
}

/* A field of one integer per example, or SR_EDATA; NULL if there is none. */
static sr_status find_integer(const sr_field **out, const sr_dataset *d, const char *name) {
    const sr_field *f = *out = sr_fields_find(&d->fields, name);
    if (f == NULL || (!f->per_token && f->size == 1 && f->column->type != SR_COLUMN_F32))
        return SR_OK;
    return sr_fail(SR_EDATA, "%s: column '%s' must have one i32 or i64 per example",
                   sr_shard_path(d->shard), name);
}

static sr_status find_windows(sr_dataset *d) {
    SR_TRY(find_integer(&d->source, d, "source"));
    SR_TRY(find_integer(&d->offset, d, "offset"));
    if (d->offset == NULL || d->source != NULL) return SR_OK;
    return wrong(d, "it has a column 'offset', but no column 'source'");
}

static sr_status read_examples(sr_dataset *d) {
    const sr_column *a, *b;
    SR_TRY(sr_shard_want(&a, d->shard, "a_tokens", SR_COLUMN_U32));
    SR_TRY(sr_shard_want(&b, d->shard, "b_tokens", SR_COLUMN_U32));
    if (a->count != b->count) return wrong(d, "'a_tokens' and 'b_tokens' have different lengths");
    if (a->count >= UINT32_MAX) return wrong(d, "it has more than 2^32 - 2 examples");
    d->units = (int64_t)a->count;
    SR_TRY(sr_new(&d->unit_token, a->count + 1));
    SR_TRY(read_column((void **)&d->a_tokens, d, a));
    uint32_t *b_tokens = NULL;
    sr_status st = read_column((void **)&b_tokens, d, b);
    if (st == SR_OK) st = add_examples(d, b_tokens);
    sr_free(b_tokens);
    if (st == SR_OK) st = sr_fields_open(&d->fields, d->shard, a->count, d->ids->count);
    if (st == SR_OK) st = find_windows(d);
    return st;
}

/* ---- the split ---- */

/* Splits `n` items so that `after[i]`, the count from item i on, is nearest to `want`; at least one
 * item on each side.  Returns the number of items before the split. */
static int64_t cut_at(const uint64_t *before, int64_t n, double want) {
    int64_t i = n - 1;
    uint64_t total = before[n];
    while (i > 1 &&
           fabs((double)(total - before[i - 1]) - want) <= fabs((double)(total - before[i]) - want))
        i--;
    return i;
}

/* For a corpus of one document: its last sentences become a second document. */
static sr_status cut_document(sr_dataset *d, double held) {
    if (d->sentences < 2) return SR_OK; /* nothing to hold out */
    uint64_t *before;
    SR_TRY(sr_new(&before, (uint64_t)d->sentences + 1));
    for (int64_t i = 0; i < d->sentences; i++) before[i + 1] = before[i] + d->sentence_tokens[i];
    int64_t at = cut_at(before, d->sentences, held * (double)d->tokens);
    d->unit_sentence[1] = (uint64_t)at;
    d->unit_token[1] = before[at];
    d->unit_sentence[2] = (uint64_t)d->sentences;
    d->unit_token[2] = (uint64_t)d->tokens;
    d->units = 2;
    d->cut = true;
    sr_free(before);
    return SR_OK;
}

static bool coin(const sr_dataset *d, const sr_dataset_opts *opts, int64_t unit) {
    sr_u32x4 c = sr_counter(0, 0, (uint32_t)unit, SR_PURPOSE_SPLIT, 0, 0, 0);
    return sr_unit(sr_philox(c, opts->seed, SR_ROUNDS_DATA).w[0]) < (float)d->held;
}

static int64_t words_of_unit(const sr_dataset *d, int64_t unit) {
    int64_t words = 0;
    if (d->sentence_words == NULL) return 0;
    for (uint64_t i = d->unit_sentence[unit]; i < d->unit_sentence[unit + 1]; i++)
        words += d->sentence_words[i];
    return words;
}

/* Puts the units into the parts. */
static void fill_parts(sr_dataset *d, const bool *held) {
    for (int64_t i = 0, s = 0; s <= d->sources; s++) {
        for (int p = 0; p < SR_PARTS; p++) d->part[p].source[s] = d->part[p].count;
        for (; s < d->sources && i < d->source_unit[s + 1]; i++) {
            sr_portion *p = &d->part[held[i] ? SR_PART_HELD : SR_PART_TRAIN];
            p->unit[p->count++] = (uint32_t)i;
            p->tokens += (int64_t)(d->unit_token[i + 1] - d->unit_token[i]);
            p->words += words_of_unit(d, i);
        }
    }
}

static sr_status hold_these(bool *held, const sr_dataset *d, const sr_dataset_opts *opts) {
    for (int64_t i = 0; i < opts->hold_count; i++) {
        if (opts->hold[i] < 0 || opts->hold[i] >= d->units)
            return sr_fail(SR_EINVAL, "data: example %lld of %lld cannot be held out",
                           (long long)opts->hold[i] + 1, (long long)d->units);
        held[opts->hold[i]] = true;
    }
    return SR_OK;
}

/* held[i] = whether unit i is held out. */
static sr_status choose_held(bool *held, sr_dataset *d, const sr_dataset_opts *opts) {
    if (opts->hold != NULL) return hold_these(held, d, opts);
    if (opts->folds > 0) return sr_folds_mark(held, d, opts->folds, opts->fold, opts->seed);
    for (int s = 0; d->held > 0 && s < d->sources; s++) {
        int64_t first = d->source_unit[s], n = d->source_unit[s + 1] - first, last = first + n;
        const uint64_t *token = d->unit_token + first;
        if (n > 1) last = first + cut_at(token, n, d->held * (double)(token[n] - token[0]));
        if (n == 1 && d->sources > 1 && d->kind == SR_DATA_TEXT)
            return sr_fail(
                SR_EDATA,
                "%s: file %d is one document, of which nothing can be held out; end its "
                "documents with empty lines and prepare it again, or set held (data.held) "
                "to 0",
                sr_shard_path(d->shard), s + 1);
        for (int64_t i = first; i < first + n; i++)
            held[i] = opts->keyed && !d->cut ? coin(d, opts, i) : i >= last;
    }
    return SR_OK;
}

static sr_status split(sr_dataset *d, const sr_dataset_opts *opts) {
    d->held = opts->folds > 0 ? 1.0 / (double)opts->folds : opts->held;
    if (d->held == SR_HELD_USUAL) d->held = d->kind == SR_DATA_TEXT ? 0.05 : 0;
    if (d->held > 0 && opts->folds == 0 && d->units == 1 && d->kind == SR_DATA_TEXT)
        SR_TRY(cut_document(d, d->held));
    d->source_unit[d->sources] = d->units; /* after a cut */
    for (int p = 0; p < SR_PARTS; p++) {
        SR_TRY(sr_new(&d->part[p].unit, d->units));
        SR_TRY(sr_new(&d->part[p].source, d->sources + 1));
    }
    bool *held;
    SR_TRY(sr_new(&held, d->units));
    sr_status st = choose_held(held, d, opts);
    if (st == SR_OK) fill_parts(d, held);
    sr_free(held);
    return st;
}

/* ---- open and close ---- */

static sr_status read_kind(sr_dataset *d) {
    const char *kind = sr_shard_meta(d->shard, "kind");
    if (kind != NULL && strcmp(kind, "text") == 0)
        d->kind = SR_DATA_TEXT;
    else if (kind != NULL && strcmp(kind, "examples") == 0)
        d->kind = SR_DATA_EXAMPLES;
    else
        return wrong(d, "its kind is neither 'text' nor 'examples'");
    d->ids = sr_shard_column(d->shard, "ids");
    if (d->ids == NULL || (d->ids->type != SR_COLUMN_U16 && d->ids->type != SR_COLUMN_U32))
        return wrong(d, "it has no column 'ids' of u16 or u32");
    d->tokens = (int64_t)d->ids->count; /* at most the size of the file */
    d->word_starts = sr_shard_column(d->shard, "word_starts");
    if (d->word_starts != NULL && d->sources == 1 &&
        (d->word_starts->type != SR_COLUMN_U8 || d->word_starts->count != (d->ids->count + 7) / 8))
        return wrong(d, "its column 'word_starts' does not have a bit for each token");
    return SR_OK;
}

/* ---- several files ---- */

/* Metadata that says where a file is from, and not what is in it. */
static bool describes(const char *key) {
    static const char *const keys[] = {"source",  "format", "document_start", "files",
                                       "classes", "notes",  "advice",         "repeats"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

static sr_status check_alike(const sr_shard *a, const sr_shard *b) {
    for (int i = 0; i < sr_shard_metas(a); i++) {
        const char *mine, *key = sr_shard_meta_at(a, i, &mine), *theirs = sr_shard_meta(b, key);
        if (describes(key) || (theirs != NULL && strcmp(mine, theirs) == 0)) continue;
        return sr_fail(
            SR_EDATA,
            "%s and %s were not made alike: %s is %.80s in one, %.80s in the other; prepare "
            "both with one tokenizer (vocab.file), for one task and its labels",
            sr_shard_path(a), sr_shard_path(b), key, mine, theirs != NULL ? theirs : "not there");
    }
    return SR_OK;
}

static int64_t units_of(const sr_shard *s) {
    const sr_column *c = sr_shard_column(s, "document_sentences");
    if (c == NULL) c = sr_shard_column(s, "a_tokens");
    return c != NULL ? (int64_t)c->count : 0;
}

static sr_status open_files(sr_dataset *d, const char *path, const sr_dataset_opts *opts) {
    SR_TRY(sr_shard_open(&d->shard, path, opts->cache));
    SR_TRY(sr_new(&d->source_unit, opts->files + 2));
    d->sources = 1;
    for (int i = 0; i < opts->files; i++, d->sources++) {
        sr_shard *next;
        d->source_unit[i + 1] = units_of(d->shard);
        SR_TRY(sr_shard_open(&next, opts->more[i], opts->cache));
        sr_status st = check_alike(d->shard, next);
        if (st == SR_OK) st = check_alike(next, d->shard);
        if (st == SR_OK) st = sr_shard_append_file(d->shard, next);
        if (st != SR_OK) sr_shard_close(next);
        SR_TRY(st);
    }
    return SR_OK;
}

static sr_status fill(sr_dataset *d, const char *path, const sr_dataset_opts *opts) {
    SR_TRY(open_files(d, path, opts));
    SR_TRY(read_kind(d));
    SR_TRY(read_tokenizer(d, opts));
    if (d->kind == SR_DATA_TEXT) {
        SR_TRY(read_sentences(d));
        SR_TRY(read_documents(d));
    } else {
        SR_TRY(read_examples(d));
    }
    if (d->units == 0)
        return sr_fail(SR_EDATA, "%s: the data set is empty; prepare it from text with words",
                       path);
    return split(d, opts);
}

sr_status sr_dataset_open(sr_dataset **out, const char *path, const sr_dataset_opts *opts) {
    *out = NULL;
    if (opts->held != SR_HELD_USUAL && !(opts->held >= 0 && opts->held < 1))
        return sr_fail(SR_EINVAL, "data: held is %g; must be a fraction, 0 <= held < 1",
                       opts->held);
    if (opts->folds < 0 || (opts->folds > 0 && (opts->fold < 0 || opts->fold >= opts->folds)))
        return sr_fail(SR_EINVAL, "data: there is no fold %lld of %lld", (long long)opts->fold + 1,
                       (long long)opts->folds);
    sr_dataset *d;
    SR_TRY(sr_new(&d, 1));
    sr_status st = fill(d, path, opts);
    if (st != SR_OK) {
        sr_dataset_close(d);
        return st;
    }
    *out = d;
    return SR_OK;
}

void sr_dataset_close(sr_dataset *d) {
    if (d == NULL) return;
    for (int p = 0; p < SR_PARTS; p++) {
        sr_free(d->part[p].unit);
        sr_free(d->part[p].source);
    }
    sr_free(d->source_unit);
    sr_free(d->unit_token);
    sr_free(d->unit_sentence);
    sr_free(d->sentence_tokens);
    sr_free(d->sentence_words);
    sr_free(d->sentence_mark);
    sr_free(d->a_tokens);
    sr_fields_close(&d->fields);
    sr_tokenizer_release(d->tokenizer);
    sr_shard_close(d->shard);
    sr_free(d);
}

/* The sentence of a token; *at is its first token. */
static int64_t sentence_of(uint64_t *at, const sr_dataset *d, uint64_t token) {
    int64_t low = 0, high = (d->sentences + SR_SENTENCE_MARK - 1) / SR_SENTENCE_MARK;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (d->sentence_mark[middle] <= token)
            low = middle;
        else
            high = middle;
    }
    int64_t i = low * SR_SENTENCE_MARK;
    for (*at = d->sentence_mark[low]; *at + d->sentence_tokens[i] <= token; i++)
        *at += d->sentence_tokens[i];
    return i;
}

int64_t sr_dataset_words(const sr_dataset *d, uint64_t first, uint64_t count) {
    if (d->sentence_words == NULL || count == 0) return 0;
    uint64_t words = 0, at, end = first + count;
    for (int64_t i = sentence_of(&at, d, first); first < end; i++) {
        uint64_t tokens = d->sentence_tokens[i], own = d->sentence_words[i];
        uint64_t to = end < at + tokens ? end : at + tokens;
        words += own * (to - at) / tokens - own * (first - at) / tokens;
        first = to;
        at += tokens;
    }
    return (int64_t)words;
}

void sr_dataset_values(uint64_t *first, uint64_t *count, const sr_dataset *d, const sr_field *f,
                       int64_t unit) {
    if (f->list != NULL) {
        *first = f->list[unit];
        *count = f->list[unit + 1] - *first;
    } else if (f->per_token) {
        *first = d->unit_token[unit] * f->size;
        *count = d->unit_token[unit + 1] * f->size - *first;
    } else {
        *first = (uint64_t)unit * f->size;
        *count = f->size;
    }
}

uint64_t sr_dataset_digest(const sr_dataset *d) {
    return sr_fields_digest(&d->fields, sr_shard_digest(d->shard));
}

/* ---- tokens ---- */

enum { TOGETHER = 16 }; /* ids that are widened, or compared, at once */

/* 16-bit ids are in the upper half of the output and widened from the front: each is read before it
 * is overwritten. */
static void widen(int32_t *ids, uint64_t count) {
    const uint16_t *narrow = (const uint16_t *)ids + count;
    uint64_t i = 0;
    for (; i + TOGETHER <= count; i += TOGETHER) {
        uint16_t some[TOGETHER];
        memcpy(some, narrow + i, sizeof some);
        for (int k = 0; k < TOGETHER; k++) ids[i + (uint64_t)k] = some[k];
    }
    for (; i < count; i++) {
        uint16_t id;
        memcpy(&id, narrow + i, sizeof id);
        ids[i] = id;
    }
}

static bool all_below(const int32_t *ids, uint64_t count, uint32_t size) {
    uint32_t bad[TOGETHER] = {0}, any = 0;
    uint64_t i = 0;
    for (; i + TOGETHER <= count; i += TOGETHER)
        for (int k = 0; k < TOGETHER; k++) bad[k] |= (uint32_t)ids[i + (uint64_t)k] >= size;
    for (; i < count; i++) any |= (uint32_t)ids[i] >= size;
    for (int k = 0; k < TOGETHER; k++) any |= bad[k];
    return any == 0;
}

sr_status sr_dataset_ids(const sr_dataset *d, int32_t *out, uint64_t first, uint64_t count) {
    bool narrow = d->ids->type == SR_COLUMN_U16;
    void *raw = narrow ? (void *)((uint16_t *)(void *)out + count) : (void *)out;
    SR_TRY(sr_shard_read(d->shard, d->ids, raw, first, count));
    if (narrow) widen(out, count);
    uint32_t size = (uint32_t)sr_tokenizer_size(d->tokenizer);
    if (all_below(out, count, size)) return SR_OK;
    while ((uint32_t)*out < size) out++, first++;
    return sr_fail(SR_EDATA,
                   "%s: token %" PRIu64 " has the id %u, but the vocabulary has %u tokens; "
                   "prepare the data set again",
                   sr_shard_path(d->shard), first, (uint32_t)*out, size);
}

sr_status sr_dataset_goes_on(const sr_dataset *d, uint8_t *out, uint64_t first, uint64_t count) {
    uint8_t bits[256];
    uint64_t base = 0; /* bytes of the files before */
    int source = sr_dataset_source(d, first);
    for (int s = 0; s < source; s++)
        base += (d->unit_token[d->source_unit[s + 1]] - d->unit_token[d->source_unit[s]] + 7) / 8;
    first -= d->unit_token[d->source_unit[source]];
    for (uint64_t i = 0, end = first + count; i < count;) {
        uint64_t at = first + i, byte = at / 8, bytes = (end + 7) / 8 - byte;
        if (bytes > sizeof bits) bytes = sizeof bits;
        SR_TRY(sr_shard_read(d->shard, d->word_starts, bits, base + byte, bytes));
        for (; at < end && at < (byte + bytes) * 8; at++, i++)
            out[i] = !(bits[at / 8 - byte] >> at % 8 & 1);
    }
    return SR_OK;
}
