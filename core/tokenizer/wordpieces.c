/* wordpieces.c - WordPiece with any normalizer and pre-tokenizer; BERT's has a faster way
 * (wordpiece.h). */
#include "core/tokenizer/model.h"

#include <string.h>

#include "core/unicode/utf8.h"

typedef struct wordpieces {
    sr_model model;
    int64_t most; /* characters of a word */
    char prefix[16];
    size_t prefix_size, longest;
} wordpieces;

static sr_status read(sr_model *m, sr_pieces *pieces, const sr_json *model, bool bytes) {
    (void)bytes;
    wordpieces *w = (wordpieces *)m;
    const char *text;
    size_t size;
    SR_TRY(sr_model_vocab(pieces, model));
    SR_TRY(sr_json_text(&text, &size, model, "unk_token"));
    sr_json unknown = sr_json_key(model, "unk_token"),
            prefix = sr_json_key(model, "continuing_subword_prefix");
    m->unknown = sr_pieces_find(pieces, text, size);
    if (m->unknown < 0)
        return sr_json_refuse(&unknown, "is '%.64s', which is not in the vocabulary", text);
    SR_TRY(sr_json_text(&text, &size, model, "continuing_subword_prefix"));
    if (size > sizeof w->prefix)
        return sr_json_refuse(&prefix, "has more than %zu bytes", sizeof w->prefix);
    memcpy(w->prefix, text, size);
    w->prefix_size = size;
    SR_TRY(sr_json_integer(&w->most, model, "max_input_chars_per_word", 0, 1 << 20));
    for (int32_t id = 0; id < pieces->size; id++)
        if (sr_pieces_text(pieces, id, &size) != NULL && size > w->longest) w->longest = size;
    m->fingerprints[2] = (uint64_t)w->most;
    m->fingerprints[3] = (uint64_t)m->unknown;
    return SR_OK;
}

/* The longest token at bytes[at ..]: its id, -1 if there is none, and where it ends. */
static int32_t longest(size_t *end, const wordpieces *w, const uint8_t *bytes, size_t at,
                       size_t size) {
    uint8_t text[SR_TOKENIZER_TOKEN_LIMIT + 16];
    size_t before = at > 0 ? w->prefix_size : 0;
    size_t room = w->longest > before ? w->longest - before : 0,
           last = at + room < size ? at + room : size;
    memcpy(text, w->prefix, before);
    memcpy(text + before, bytes + at, last - at);
    for (; last > at; last--) {
        if (last < size && (bytes[last] & 0xC0) == 0x80) continue;
        int32_t id = sr_pieces_find(w->model.pieces, text, before + last - at);
        if (id < 0) continue;
        *end = last;
        return id;
    }
    return -1;
}

static sr_status encode(sr_parts *out, const sr_model *m, sr_model_room *room, const uint8_t *bytes,
                        size_t size) {
    (void)room;
    const wordpieces *w = (const wordpieces *)m;
    bool known = sr_utf8_length(bytes, size) <= (size_t)w->most;
    SR_TRY(sr_parts_reserve(out, size + 1));
    out->count = 0;
    for (size_t at = 0, end = 0; known && at < size; at = end) {
        int32_t id = longest(&end, w, bytes, at, size);
        known = id >= 0;
        out->list[out->count++] = (sr_part){id, (uint32_t)at, (uint32_t)end};
    }
    if (known) return SR_OK;
    out->list[0] = (sr_part){m->unknown, 0, (uint32_t)size};
    out->count = 1;
    out->unknown++;
    return SR_OK;
}

static const char *const keys[] = {
    "type", "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", NULL};

const sr_model_kind sr_model_wordpiece = {
    .name = "WordPiece",
    .keys = keys,
    .size = sizeof(wordpieces),
    .read = read,
    .encode = encode,
};
