#include "core/tokenizer/vocab.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/draft.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/unicode/utf8.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

const char *const sr_special_names[SR_TOKEN_SPECIALS] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                         "[MASK]"};

enum { PAIRS = 4096 };

/* A slot of the hash table: the upper half of the hash and the id plus one (0: empty). */
typedef struct slot {
    uint32_t tag, id1;
} slot;

struct sr_vocab {
    _Atomic int64_t holders;
    char *text;      /* the tokens, each followed by a line feed */
    uint32_t *start; /* of each token in text; start[size] is the end of text */
    int32_t size;
    slot *slots;
    uint32_t mask; /* number of slots minus one */
    uint64_t lengths[2][PAIRS];
    int32_t specials[SR_TOKEN_SPECIALS];
    uint64_t empty, sharps; /* the hash of the empty string, a random number, and of ## */
    uint64_t fingerprint;
};

static size_t pair_index(uint8_t first, uint8_t second) {
    return ((size_t)first << 4 ^ second) & (PAIRS - 1);
}

static uint64_t hash_of(const sr_vocab *v, const void *token, size_t size) {
    const uint8_t *bytes = token;
    uint64_t hash = v->empty;
    for (size_t i = 0; i < size; i++) hash = sr_vocab_mix(hash, bytes[i]);
    return hash;
}

/* The low bits of a product depend on few bits of its factors, so mix in the high ones. */
static uint64_t spread(uint64_t hash) {
    return hash ^ hash >> 29;
}

/* The slot of the token with this hash, written as `prefix` # signs and `body`, or the empty slot
 * where it would be inserted. */
static slot *probe(const sr_vocab *v, uint64_t hash, int prefix, const void *body, size_t size) {
    uint64_t h = spread(hash);
    uint32_t tag = (uint32_t)(hash >> 32), i = (uint32_t)h & v->mask;
    for (;; i = (i + 1) & v->mask) {
        slot *s = &v->slots[i];
        if (s->id1 == 0) return s;
        if (s->tag != tag) continue;
        uint32_t at = v->start[s->id1 - 1], end = v->start[s->id1] - 1;
        if (end - at != size + (size_t)prefix) continue;
        if (prefix != 0 && memcmp(v->text + at, "##", (size_t)prefix) != 0) continue;
        if (memcmp(v->text + at + prefix, body, size) == 0) return s;
    }
}

uint64_t sr_vocab_hash(const sr_vocab *v, int prefix) {
    return prefix != 0 ? v->sharps : v->empty;
}

int32_t sr_vocab_find(const sr_vocab *v, uint64_t hash, int prefix, const void *body, size_t size) {
    return (int32_t)probe(v, hash, prefix, body, size)->id1 - 1;
}

int32_t sr_vocab_id(const sr_vocab *v, const void *token, size_t size) {
    return sr_vocab_find(v, hash_of(v, token, size), 0, token, size);
}

const char *sr_vocab_token(const sr_vocab *v, int32_t id, size_t *size) {
    *size = v->start[id + 1] - 1 - v->start[id];
    return v->text + v->start[id];
}

const char *sr_vocab_text(const sr_vocab *v, size_t *size) {
    *size = v->start[v->size];
    return v->text;
}

int32_t sr_vocab_size(const sr_vocab *v) {
    return v->size;
}

int32_t sr_vocab_special(const sr_vocab *v, sr_special which) {
    return v->specials[which];
}

uint64_t sr_vocab_fingerprint(const sr_vocab *v) {
    return v->fingerprint;
}

uint64_t sr_vocab_lengths(const sr_vocab *v, int prefix, uint8_t first, uint8_t second) {
    return v->lengths[prefix != 0][pair_index(first, second)] | 2;
}

static void note_length(sr_vocab *v, const char *token, size_t size) {
    bool continues = size > 2 && memcmp(token, "##", 2) == 0;
    const uint8_t *body = (const uint8_t *)token + (continues ? 2 : 0);
    size_t length = size - (continues ? 2 : 0);
    if (length < 2) return;
    uint64_t bit = (uint64_t)1 << (length < 63 ? length : 63);
    v->lengths[continues][pair_index(body[0], body[1])] |= bit;
}

/* Checks the lines of a file and copies them to v->text and v->start, which have room. */
static sr_status split_lines(sr_vocab *v, const char *bytes, size_t size, const char *name) {
    const char *first_end = memchr(bytes, '\n', size);
    bool crlf = first_end != NULL && first_end > bytes && first_end[-1] == '\r';
    uint32_t used = 0;
    for (size_t at = 0; at < size; v->size++) {
        const char *end = memchr(bytes + at, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - bytes) - at : size - at,
               next = at + length + 1;
        const char *token = bytes + at;
        long line = (long)v->size + 1;
        bool has_cr = length > 0 && token[length - 1] == '\r';
        if (has_cr && crlf) length--;
        if (has_cr != crlf && (end != NULL || has_cr))
            return sr_fail(SR_EDATA,
                           "%s:%ld: the line ends in %s, the first line in %s; use one line ending",
                           name, line, crlf ? "LF" : "CR LF", crlf ? "CR LF" : "LF");
        if (length == 0)
            return sr_fail(SR_EDATA, "%s:%ld: the line is empty; expected a token", name, line);
        if (length > SR_VOCAB_TOKEN_LIMIT)
            return sr_fail(SR_EDATA, "%s:%ld: the token has %zu bytes; the maximum is %d", name,
                           line, length, SR_VOCAB_TOKEN_LIMIT);
        if (sr_utf8_invalid((const uint8_t *)token, length, NULL) != 0)
            return sr_fail(SR_EDATA, "%s:%ld: the token is not valid UTF-8", name, line);
        v->start[v->size] = used;
        memcpy(v->text + used, token, length);
        used += (uint32_t)length;
        v->text[used++] = '\n';
        at = next;
    }
    v->start[v->size] = used;
    return SR_OK;
}

static sr_status index_tokens(sr_vocab *v, const char *name) {
    for (int32_t id = 0; id < v->size; id++) {
        size_t size;
        const char *token = sr_vocab_token(v, id, &size);
        uint64_t hash = hash_of(v, token, size);
        slot *s = probe(v, hash, 0, token, size);
        if (s->id1 != 0)
            return sr_fail(SR_EDATA, "%s:%d: duplicate of the token in line %u", name, id + 1,
                           s->id1);
        *s = (slot){(uint32_t)(hash >> 32), (uint32_t)id + 1};
        note_length(v, token, size);
    }
    return SR_OK;
}

static sr_status find_specials(sr_vocab *v, const char *name) {
    char missing[64] = "";
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++) {
        v->specials[i] = sr_vocab_id(v, sr_special_names[i], strlen(sr_special_names[i]));
        if (v->specials[i] >= 0) continue;
        strcat(missing, " ");
        strcat(missing, sr_special_names[i]);
    }
    if (missing[0] == '\0') return SR_OK;
    return sr_fail(SR_EDATA,
                   "%s: none of the %d lines is%s; a BERT vocabulary needs [PAD] [UNK] [CLS] [SEP] "
                   "[MASK]",
                   name, v->size, missing);
}

static sr_status count_lines(size_t *lines, const char *bytes, size_t size, const char *name) {
    *lines = size > 0 && bytes[size - 1] != '\n';
    for (size_t i = 0; i < size; i++) *lines += bytes[i] == '\n';
    if (*lines == 0) return sr_fail(SR_EDATA, "%s: the vocabulary is empty", name);
    if (*lines > SR_VOCAB_LIMIT)
        return sr_fail(SR_EDATA, "%s:%d: more than %d tokens; is this a vocabulary?", name,
                       SR_VOCAB_LIMIT + 1, SR_VOCAB_LIMIT);
    return SR_OK;
}

static uint64_t random_number(void) {
    uint64_t x;
    if (getrandom(&x, sizeof x, GRND_NONBLOCK) != sizeof x) x = 0x9E3779B97F4A7C15u;
    return x;
}

sr_status sr_vocab_parse(sr_vocab **out, const void *bytes, size_t size, const char *name) {
    *out = NULL;
    if (size > SR_VOCAB_FILE_LIMIT)
        return sr_fail(SR_EDATA, "%s: %zu bytes; a vocabulary may have at most %d", name, size,
                       SR_VOCAB_FILE_LIMIT);
    size_t lines, slots = 64;
    SR_TRY(count_lines(&lines, bytes, size, name));
    while (slots < 2 * lines) slots *= 2;
    sr_vocab *v = NULL;
    SR_TRY(sr_new(&v, 1));
    atomic_init(&v->holders, 1);
    v->mask = (uint32_t)slots - 1;
    v->empty = random_number();
    v->sharps = hash_of(v, "##", 2);
    sr_status st;
    SR_GO(fail, st, sr_new(&v->text, size + 1));
    SR_GO(fail, st, sr_new(&v->start, lines + 1));
    SR_GO(fail, st, sr_new(&v->slots, slots));
    SR_GO(fail, st, split_lines(v, bytes, size, name));
    SR_GO(fail, st, index_tokens(v, name));
    SR_GO(fail, st, find_specials(v, name));
    v->fingerprint = XXH3_64bits(v->text, v->start[v->size]);
    *out = v;
    return SR_OK;
fail:
    sr_vocab_release(v);
    return st;
}

sr_status sr_vocab_load(sr_vocab **out, const char *path) {
    *out = NULL;
    void *bytes;
    size_t size;
    SR_TRY(sr_file_read(&bytes, &size, path, SR_VOCAB_FILE_LIMIT));
    sr_status st = sr_vocab_parse(out, bytes, size, path);
    sr_free(bytes);
    return st;
}

sr_vocab *sr_vocab_retain(sr_vocab *v) {
    atomic_fetch_add_explicit(&v->holders, 1, memory_order_relaxed);
    return v;
}

void sr_vocab_release(sr_vocab *v) {
    if (v == NULL || atomic_fetch_sub_explicit(&v->holders, 1, memory_order_acq_rel) != 1) return;
    sr_free(v->text);
    sr_free(v->start);
    sr_free(v->slots);
    sr_free(v);
}

sr_status sr_vocab_save(const sr_vocab *v, const char *path) {
    return sr_file_replace(path, v->text, v->start[v->size]);
}
