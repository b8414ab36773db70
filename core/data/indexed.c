#include "core/data/indexed.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"
#include "core/base/thread.h"

static const char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};

enum {
    HEADER = 34,
    BUFFER = 1 << 16,
    LONGEST = 65535,
    TAIL = BUFFER / 8, /* ids at the end of a document that are looked at together */
    TOGETHER = 4096    /* ids that are appended at once */
};

/* A file that is read from any place, mostly onwards. */
typedef struct window {
    int fd;
    size_t size; /* of the file */
    const char *path;
    uint64_t at; /* of the buffer in the file */
    size_t filled;
    uint8_t bytes[BUFFER];
} window;

typedef struct reader {
    window idx, bin;
    window pointer, start; /* of idx, too: its lists are read side by side */
    char *bin_path;
    int width; /* bytes of an id */
    bool is_signed;
    uint64_t sequences, documents; /* numbers of them */
    uint64_t pointers, starts;     /* where these lists begin in .idx; the sizes are at HEADER */
    uint64_t next;                 /* byte of .bin at which the next sequence begins */
    const sr_tokenizer *tokenizer;
    sr_shard_writer *writer;
    int32_t vocabulary; /* its size */
    int ids;            /* column */
    bool narrow;        /* of 16 bits */
    int sentence_tokens, document_sentences;
    int64_t id[LONGEST];
    sr_ids_counts *counts;
} reader;

static sr_status open_window(window *w, const char *path) {
    w->path = path;
    return sr_file_open(&w->fd, &w->size, path, SIZE_MAX);
}

static void close_window(window *w) {
    if (w->fd >= 0) sr_io_now.close(w->fd);
    w->fd = -1;
}

/* `size` bytes, at most BUFFER, from `at` on. */
static sr_status bytes_at(const uint8_t **out, window *w, uint64_t at, size_t size) {
    if (at > w->size || size > w->size - at)
        return sr_fail(SR_EDATA,
                       "%s: truncated: it has %zu bytes, but byte %" PRIu64
                       " is needed; copy it again",
                       w->path, w->size, at + size - 1);
    if (at < w->at || at + size > w->at + w->filled) {
        size_t n = w->size - at < BUFFER ? (size_t)(w->size - at) : BUFFER;
        w->filled = 0;
        SR_TRY(sr_file_pread(w->fd, w->bytes, n, at, w->path));
        w->at = at;
        w->filled = n;
    }
    *out = w->bytes + (at - w->at);
    return SR_OK;
}

/* A little-endian number of `width` bytes. */
static int64_t number_of(const uint8_t *bytes, int width, bool is_signed) {
    uint64_t x = 0;
    memcpy(&x, bytes, (size_t)width);
    int unused = 64 - 8 * width;
    return is_signed ? (int64_t)(x << unused) >> unused : (int64_t)x;
}

static sr_status number_at(int64_t *out, window *w, uint64_t at, int width) {
    const uint8_t *bytes;
    SR_TRY(bytes_at(&bytes, w, at, (size_t)width));
    *out = number_of(bytes, width, true);
    return SR_OK;
}

/* ---- the header ---- */

static sr_status wrong(const reader *r, const char *what) {
    return sr_fail(SR_EDATA, "%s: damaged, or not an index of Megatron: %s", r->idx.path, what);
}

static sr_status read_type(reader *r, uint8_t code) {
    static const struct {
        int width;
        bool is_signed;
    } types[] = {[1] = {1, false}, [2] = {1, true}, [3] = {2, true},
                 [4] = {4, true},  [5] = {8, true}, [8] = {2, false}};
    if (code >= sizeof types / sizeof *types || types[code].width == 0)
        return sr_fail(SR_EDATA, "%s: its ids are of type %d; expected integers (1 to 5, or 8)",
                       r->idx.path, code);
    r->width = types[code].width;
    r->is_signed = types[code].is_signed;
    return SR_OK;
}

static sr_status read_header(reader *r) {
    const uint8_t *h;
    if (r->idx.size < HEADER) return wrong(r, "it is shorter than a header");
    SR_TRY(bytes_at(&h, &r->idx, 0, HEADER));
    uint64_t numbers[3];
    memcpy(&numbers[0], h + 9, 8);
    memcpy(&numbers[1], h + 18, 16);
    if (memcmp(h, magic, sizeof magic) != 0) return wrong(r, "it does not begin with MMIDIDX");
    if (numbers[0] != 1)
        return sr_fail(SR_EDATA, "%s: version %" PRIu64 " of the index; only 1 is read",
                       r->idx.path, numbers[0]);
    SR_TRY(read_type(r, h[17]));
    r->sequences = numbers[1];
    if (numbers[2] == 0) return wrong(r, "it has no list of documents");
    r->documents = numbers[2] - 1;
    uint64_t left = r->idx.size - HEADER;
    if (r->sequences > left / 12 || numbers[2] > (left - r->sequences * 12) / 8)
        return wrong(r, "it is shorter than its numbers of sequences and documents say");
    r->pointers = HEADER + r->sequences * 4;
    r->starts = r->pointers + r->sequences * 8;
    return SR_OK;
}

/* ---- sequences and documents ---- */

/* The ids from `first` of a sequence whose bytes are at `pointer`. */
static sr_status read_ids(reader *r, uint64_t pointer, uint64_t first, size_t count) {
    size_t each = BUFFER / (size_t)r->width;
    for (size_t done = 0; done < count;) {
        size_t n = count - done < each ? count - done : each;
        const uint8_t *bytes;
        uint64_t at = pointer + (first + done) * (uint64_t)r->width;
        SR_TRY(bytes_at(&bytes, &r->bin, at, n * (size_t)r->width));
        for (size_t i = 0; i < n; i++)
            r->id[done + i] = number_of(bytes + i * (size_t)r->width, r->width, r->is_signed);
        done += n;
    }
    return SR_OK;
}

/* Where sequence `i` is, and how many ids it has. */
static sr_status find_sequence(reader *r, uint64_t i, uint64_t *pointer, uint64_t *size) {
    int64_t tokens, at;
    SR_TRY(number_at(&tokens, &r->idx, HEADER + i * 4, 4));
    SR_TRY(number_at(&at, &r->pointer, r->pointers + i * 8, 8));
    uint64_t width = (uint64_t)r->width;
    if (tokens < 0 || at < 0 || (uint64_t)at > r->bin.size ||
        (uint64_t)tokens > (r->bin.size - (uint64_t)at) / width)
        return sr_fail(SR_EDATA,
                       "%s: sequence %" PRIu64 " of %" PRId64 " ids at byte %" PRId64
                       " is outside %s, which has %zu bytes; copy both files again",
                       r->idx.path, i, tokens, at, r->bin.path, r->bin.size);
    if ((uint64_t)at != r->next) return wrong(r, "its sequences do not follow one another");
    *pointer = (uint64_t)at;
    *size = (uint64_t)tokens;
    r->next += *size * width;
    return SR_OK;
}

static sr_status add_ids(reader *r) {
    r->vocabulary = sr_tokenizer_size(r->tokenizer);
    r->narrow = r->vocabulary <= 65536;
    return sr_shard_add_column(r->writer, &r->ids, "ids",
                               r->narrow ? SR_COLUMN_U16 : SR_COLUMN_U32);
}

/* Appends the first `count` ids that were read, of sequence i. */
static sr_status append_ids(const reader *r, size_t count, uint64_t i) {
    uint16_t narrow[TOGETHER];
    uint32_t wide[TOGETHER];
    for (size_t at = 0; at < count;) {
        size_t n = count - at < TOGETHER ? count - at : TOGETHER;
        for (size_t k = 0; k < n; k++) {
            int64_t id = r->id[at + k];
            if (id < 0 || id >= r->vocabulary)
                return sr_fail(SR_EDATA,
                               "%s: sequence %" PRIu64 " has the id %" PRId64
                               ", but the vocabulary has %d tokens; give the vocabulary that the "
                               "file was made with",
                               r->bin.path, i, id, r->vocabulary);
            narrow[k] = (uint16_t)id;
            wide[k] = (uint32_t)id;
        }
        const void *from = r->narrow ? (const void *)narrow : (const void *)wide;
        SR_TRY(sr_shard_append(r->writer, r->ids, from, n));
        at += n;
    }
    return SR_OK;
}

static bool is_special(const reader *r, int64_t id) {
    return id >= 0 && id <= INT32_MAX && sr_tokenizer_is_special(r->tokenizer, (int32_t)id);
}

/* Takes special tokens from the end of a document's last sequence. */
static sr_status drop_ends(reader *r, uint64_t pointer, uint64_t *size) {
    while (*size > 0) {
        size_t n = *size < TAIL ? (size_t)*size : TAIL, kept = n;
        SR_TRY(read_ids(r, pointer, *size - n, n));
        while (kept > 0 && is_special(r, r->id[kept - 1])) kept--;
        *size -= n - kept;
        r->counts->left_out += n - kept;
        if (kept > 0) break;
    }
    return SR_OK;
}

/* Writes a sequence as a sentence, or several if its column cannot represent it. */
static sr_status write_sequence(reader *r, uint64_t i, bool last, uint32_t *sentences) {
    uint64_t pointer = 0, size = 0;
    SR_TRY(find_sequence(r, i, &pointer, &size));
    if (last) SR_TRY(drop_ends(r, pointer, &size));
    for (uint64_t done = 0; done < size;) {
        uint16_t n = size - done < LONGEST ? (uint16_t)(size - done) : LONGEST;
        SR_TRY(read_ids(r, pointer, done, n));
        SR_TRY(append_ids(r, n, i));
        SR_TRY(sr_shard_append(r->writer, r->sentence_tokens, &n, 1));
        if (++*sentences == 0) return wrong(r, "a document has more than 2^32 - 1 sentences");
        done += n;
        r->counts->sentences++;
        r->counts->tokens += n;
    }
    return SR_OK;
}

static sr_status write_document(reader *r, uint64_t first, uint64_t end) {
    uint32_t sentences = 0;
    if (sr_stop_requested())
        return sr_fail(SR_ESTOP, "prepare: stopped on request; no data set was written");
    for (uint64_t i = first; i < end; i++) SR_TRY(write_sequence(r, i, i + 1 == end, &sentences));
    if (sentences == 0) return SR_OK;
    r->counts->documents++;
    return sr_shard_append(r->writer, r->document_sentences, &sentences, 1);
}

static sr_status write_documents(reader *r) {
    int64_t first, end;
    SR_TRY(number_at(&first, &r->start, r->starts, 8));
    if (first != 0) return wrong(r, "its first document does not begin with its first sequence");
    for (uint64_t d = 0; d < r->documents; d++, first = end) {
        SR_TRY(number_at(&end, &r->start, r->starts + (d + 1) * 8, 8));
        if (end < first || (uint64_t)end > r->sequences)
            return wrong(r, "its documents are not in the order of its sequences");
        SR_TRY(write_document(r, (uint64_t)first, (uint64_t)end));
    }
    return (uint64_t)first == r->sequences ? SR_OK : wrong(r, "sequences belong to no document");
}

/* ---- files ---- */

static sr_status open_both(reader *r, const char *path) {
    size_t size = strlen(path);
    SR_TRY(open_window(&r->idx, path));
    if (size < 4 || strcmp(path + size - 4, ".idx") != 0)
        return sr_fail(SR_EDATA, "%s: an index of Megatron is named .idx", path);
    SR_TRY(sr_strdup(&r->bin_path, path));
    memcpy(r->bin_path + size - 3, "bin", 3);
    SR_TRY(open_window(&r->bin, r->bin_path));
    r->pointer.fd = r->start.fd = r->idx.fd; /* closed as idx */
    r->pointer.size = r->start.size = r->idx.size;
    r->pointer.path = r->start.path = path;
    return read_header(r);
}

static sr_status import_file(reader *r, const char *path) {
    sr_status st = open_both(r, path);
    if (st == SR_OK) st = write_documents(r);
    close_window(&r->idx);
    close_window(&r->bin);
    r->idx.filled = r->bin.filled = r->pointer.filled = r->start.filled = 0;
    r->next = 0;
    sr_free(r->bin_path);
    r->bin_path = NULL;
    r->counts->files += st == SR_OK;
    return st;
}

static sr_status import_all(reader *r, const char *const *paths, size_t count) {
    sr_shard_writer *w = r->writer;
    SR_TRY(add_ids(r));
    SR_TRY(sr_shard_add_column(w, &r->sentence_tokens, "sentence_tokens", SR_COLUMN_U16));
    SR_TRY(sr_shard_add_column(w, &r->document_sentences, "document_sentences", SR_COLUMN_U32));
    for (size_t i = 0; i < count; i++) SR_TRY(import_file(r, paths[i]));
    if (r->counts->documents == 0)
        return sr_fail(SR_EDATA, "prepare: %s has no documents with tokens", paths[0]);
    return SR_OK;
}

sr_status sr_indexed_import(sr_ids_counts *counts, sr_shard_writer *w, const char *const *paths,
                            size_t count, const sr_tokenizer *tokenizer) {
    reader *r;
    *counts = (sr_ids_counts){0};
    SR_TRY(sr_new(&r, 1));
    r->idx.fd = r->bin.fd = -1;
    r->writer = w;
    r->tokenizer = tokenizer;
    r->counts = counts;
    sr_status st = import_all(r, paths, count);
    sr_free(r);
    return st;
}
