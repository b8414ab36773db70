/* bpe_read.c - a BPE model from a tokenizer.json. */
#include <string.h>
#include <sys/random.h>

#include "core/base/mem.h"
#include "core/tokenizer/bpe_model.h"
#include "core/tokenizer/tokenizer_impl.h"
#include "core/unicode/utf8.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- the byte level: printable Latin-1 stands for itself, other bytes for U+0100 and up ---- */

int32_t sr_char_of_byte(uint8_t byte) {
    if ((byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE) return byte;
    if (byte <= 0x20) return 0x100 + byte;
    return byte == 0xAD ? 0x143 : 0x121 + byte - 0x7F;
}

int sr_byte_of_char(int32_t cp) {
    if (cp > 0x143) return -1;
    uint8_t byte = cp < 0x100    ? (uint8_t)cp
                   : cp <= 0x120 ? (uint8_t)(cp - 0x100)
                   : cp == 0x143 ? 0xAD
                                 : (uint8_t)(cp - 0x121 + 0x7F);
    return sr_char_of_byte(byte) == cp ? byte : -1;
}

/* The bytes that a token stands for; false if it has a character that stands for none. */
static bool to_bytes(uint8_t *out, size_t *count, const char *token, size_t size) {
    *count = 0;
    for (size_t i = 0; i < size;) {
        int32_t cp;
        i += (size_t)sr_utf8_decode(&cp, (const uint8_t *)token + i, size - i);
        int byte = cp < 0 ? -1 : sr_byte_of_char(cp);
        if (byte < 0) return false;
        out[(*count)++] = (uint8_t)byte;
    }
    return true;
}

/* ids by bytes, for ignore_merges and for affixes. */
static sr_status fill_raw(sr_bpe *b) {
    uint8_t bytes[SR_TOKENIZER_TOKEN_LIMIT];
    SR_TRY(sr_pieces_init(&b->raw, b->pieces->size, (size_t)b->pieces->count));
    for (int32_t id = 0; id < b->pieces->size; id++) {
        size_t size, count;
        int32_t known;
        const char *token = sr_pieces_text(b->pieces, id, &size);
        if (token == NULL || !to_bytes(bytes, &count, token, size)) continue;
        SR_TRY(sr_pieces_add(&b->raw, bytes, count, id, &known));
    }
    return SR_OK;
}

/* ---- merges ---- */

/* The two tokens of a merge: "a b" or ["a", "b"]. */
static sr_status split_merge(const char *part[2], size_t size[2], const sr_json *at) {
    const char *text = json_string_value(at->value);
    if (text != NULL) {
        size_t length = json_string_length(at->value);
        const char *space = memchr(text, ' ', length);
        if (space == NULL || memchr(space + 1, ' ', length - (size_t)(space + 1 - text)) != NULL)
            return sr_json_refuse(at, "is not two tokens with a space between them");
        part[0] = text, size[0] = (size_t)(space - text);
        part[1] = space + 1, size[1] = length - size[0] - 1;
        return SR_OK;
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *one = json_array_get(at->value, i);
        if (!json_is_string(one) || json_array_size(at->value) != 2)
            return sr_json_refuse(at, "is not a list of two tokens");
        part[i] = json_string_value(one);
        size[i] = json_string_length(one);
    }
    return SR_OK;
}

static sr_status add_merge(sr_bpe *b, const sr_json *at, int32_t rank) {
    const char *part[2];
    size_t size[2];
    int32_t ids[2];
    char whole[2 * SR_TOKENIZER_TOKEN_LIMIT];
    SR_TRY(split_merge(part, size, at));
    for (int i = 0; i < 2; i++) {
        ids[i] = sr_pieces_find(b->pieces, part[i], size[i]);
        if (ids[i] < 0)
            return sr_json_refuse(at, "has '%.*s', which is not in the vocabulary",
                                  (int)(size[i] < 64 ? size[i] : 64), part[i]);
    }
    size_t skip = size[1] >= b->prefix_size ? b->prefix_size : 0;
    memcpy(whole, part[0], size[0]);
    memcpy(whole + size[0], part[1] + skip, size[1] - skip);
    int32_t id = sr_pieces_find(b->pieces, whole, size[0] + size[1] - skip);
    if (id < 0) return sr_json_refuse(at, "makes a token that is not in the vocabulary");
    uint64_t pair = sr_bpe_pair(ids[0], ids[1]);
    uint64_t bit = sr_bpe_hash(b, pair) >> 24 & b->filter_mask;
    b->filter[bit >> 6] |= (uint64_t)1 << (bit & 63);
    *sr_bpe_slot(b, pair) = (sr_merge){pair, rank, id};
    return SR_OK;
}

static sr_status read_merges(sr_bpe *b, const sr_json *model) {
    sr_json list = sr_json_key(model, "merges");
    SR_TRY(sr_json_list(&list));
    size_t count = json_array_size(list.value), slots = 64;
    if (count > INT32_MAX / 4) return sr_json_refuse(&list, "is too long");
    while (slots < 2 * count) slots *= 2;
    SR_TRY(sr_new(&b->merges, slots));
    memset(b->merges, 0xFF, slots * sizeof *b->merges);
    b->mask = slots - 1;
    SR_TRY(sr_new(&b->filter, slots * 8 / 64));
    b->filter_mask = slots * 8 - 1;
    if (getrandom(&b->seed, sizeof b->seed, GRND_NONBLOCK) != sizeof b->seed) b->seed = 0x9E3779B9;
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        sr_json one = sr_json_item(&list, i);
        const char *part[2];
        size_t size[2];
        SR_TRY(add_merge(b, &one, (int32_t)i));
        SR_TRY(split_merge(part, size, &one));
        hash = XXH3_64bits_withSeed(part[0], size[0], hash);
        hash = XXH3_64bits_withSeed(part[1], size[1], hash);
    }
    b->fingerprint = hash;
    return SR_OK;
}

/* ---- cutting at U+2581 ---- */

static bool has_inner_mark(const char *token, size_t size) {
    for (size_t i = 1; i + 3 <= size; i++)
        if (memcmp(token + i, "\xE2\x96\x81", 3) == 0 &&
            (i < 3 || memcmp(token + i - 3, "\xE2\x96\x81", 3) != 0))
            return true;
    return false;
}

/* Merges never cross the cut if no merged token has a mark after another character, and unknown
 * characters never fuse over it, since the mark has a token. */
static bool may_cut(const sr_bpe *b) {
    if (b->bytes || b->ignore_merges || b->prefix_size > 0 || b->suffix_size > 0) return false;
    if (sr_pieces_find(b->pieces, "\xE2\x96\x81", 3) < 0) return false;
    int fallbacks = 0;
    for (int i = 0; i < 256; i++) fallbacks += b->byte_ids[i] >= 0;
    if (b->fallback && fallbacks != 0 && fallbacks != 256) return false;
    for (uint64_t i = 0; i <= b->mask; i++) {
        size_t size;
        if (b->merges[i].pair == UINT64_MAX) continue;
        const char *token = sr_pieces_text(b->pieces, b->merges[i].id, &size);
        if (token != NULL && has_inner_mark(token, size)) return false;
    }
    return true;
}

/* ---- the model ---- */

static sr_status read_affix(char **out, size_t *size, const sr_json *model, const char *key) {
    const char *text;
    SR_TRY(sr_json_optional_text(&text, size, model, key));
    sr_json at = sr_json_key(model, key);
    if (*size > 64) return sr_json_refuse(&at, "has more than 64 bytes");
    if (*size == 0) return SR_OK;
    SR_TRY(sr_new(out, *size + 1));
    memcpy(*out, text, *size);
    return SR_OK;
}

static sr_status read_unknown(sr_bpe *b, const sr_json *model) {
    const char *text;
    size_t size;
    SR_TRY(sr_json_optional_text(&text, &size, model, "unk_token"));
    sr_json at = sr_json_key(model, "unk_token");
    b->unknown = text != NULL ? sr_pieces_find(b->pieces, text, size) : -1;
    if (text != NULL && b->unknown < 0)
        return sr_json_refuse(&at, "is '%.64s', which is not in the vocabulary", text);
    return SR_OK;
}

static sr_status read_options(sr_bpe *b, const sr_json *model) {
    sr_json dropout = sr_json_key(model, "dropout"), fallback = sr_json_key(model, "byte_fallback");
    if (!sr_json_absent(&dropout) && json_number_value(dropout.value) != 0)
        return sr_json_refuse(&dropout, "is not supported: it makes ids random");
    SR_TRY(read_unknown(b, model));
    SR_TRY(read_affix(&b->prefix, &b->prefix_size, model, "continuing_subword_prefix"));
    SR_TRY(read_affix(&b->suffix, &b->suffix_size, model, "end_of_word_suffix"));
    SR_TRY(sr_json_bool(&b->fuse, model, "fuse_unk", false));
    SR_TRY(sr_json_bool(&b->fallback, model, "byte_fallback", false));
    SR_TRY(sr_json_bool(&b->ignore_merges, model, "ignore_merges", false));
    if (b->fallback && b->bytes)
        return sr_json_refuse(&fallback, "is not supported together with ByteLevel");
    return SR_OK;
}

static void fill_characters(sr_bpe *b) {
    for (int i = 0; i < 256; i++) {
        b->byte_ids[i] = b->fallback ? sr_pieces_find_byte(b->pieces, (uint8_t)i) : -1;
        uint8_t one = (uint8_t)i;
        b->first[i] = b->bytes   ? sr_pieces_find(&b->raw, &one, 1)
                      : i < 0x80 ? sr_pieces_find(b->pieces, &one, 1)
                                 : -1;
    }
}

static sr_status fill(sr_bpe *b, const sr_json *model) {
    SR_TRY(read_options(b, model));
    if (b->bytes) SR_TRY(fill_raw(b));
    SR_TRY(read_merges(b, model));
    fill_characters(b);
    b->cuts = may_cut(b);
    uint64_t parts[] = {b->fingerprint,
                        (uint64_t)b->unknown,
                        b->fuse,
                        b->fallback,
                        b->ignore_merges,
                        XXH3_64bits(b->prefix, b->prefix_size),
                        XXH3_64bits(b->suffix, b->suffix_size)};
    b->fingerprint = XXH3_64bits(parts, sizeof parts);
    return SR_OK;
}

sr_status sr_bpe_read(sr_bpe **out, const sr_pieces *pieces, const sr_json *model, bool bytes) {
    *out = NULL;
    sr_bpe *b = NULL;
    SR_TRY(sr_new(&b, 1));
    b->pieces = pieces;
    b->bytes = bytes;
    sr_status st = fill(b, model);
    if (st == SR_OK)
        *out = b;
    else
        sr_bpe_free(b);
    return st;
}

void sr_bpe_free(sr_bpe *b) {
    if (b == NULL) return;
    sr_pieces_free(&b->raw);
    sr_free(b->merges);
    sr_free(b->filter);
    sr_free(b->suffix);
    sr_free(b->prefix);
    sr_free(b);
}

bool sr_bpe_cuts_at_mark(const sr_bpe *b) {
    return b->cuts;
}

int32_t sr_bpe_unknown(const sr_bpe *b) {
    return b->unknown;
}

uint64_t sr_bpe_fingerprint(const sr_bpe *b) {
    return b->fingerprint;
}
