#include "core/tokenizer/wordpieces.h"

#include <string.h>

#include "core/tokenizer/tokenizer_impl.h"
#include "core/unicode/utf8.h"

sr_status sr_wordpieces_read(sr_wordpieces *w, const sr_pieces *pieces, const sr_json *model) {
    const char *text;
    size_t size;
    w->pieces = pieces;
    SR_TRY(sr_json_text(&text, &size, model, "unk_token"));
    sr_json unknown = sr_json_key(model, "unk_token"),
            prefix = sr_json_key(model, "continuing_subword_prefix");
    w->unknown = sr_pieces_find(pieces, text, size);
    if (w->unknown < 0)
        return sr_json_refuse(&unknown, "is '%.64s', which is not in the vocabulary", text);
    SR_TRY(sr_json_text(&text, &size, model, "continuing_subword_prefix"));
    if (size > sizeof w->prefix)
        return sr_json_refuse(&prefix, "has more than %zu bytes", sizeof w->prefix);
    memcpy(w->prefix, text, size);
    w->prefix_size = size;
    SR_TRY(sr_json_integer(&w->most, model, "max_input_chars_per_word", 0, 1 << 20));
    for (int32_t id = 0; id < pieces->size; id++)
        if (sr_pieces_text(pieces, id, &size) != NULL && size > w->longest) w->longest = size;
    return SR_OK;
}

/* The longest token at bytes[at ..]: its id, -1 if there is none, and where it ends. */
static int32_t longest(size_t *end, const sr_wordpieces *w, const uint8_t *bytes, size_t at,
                       size_t size) {
    uint8_t text[SR_TOKENIZER_TOKEN_LIMIT + 16];
    size_t before = at > 0 ? w->prefix_size : 0;
    size_t room = w->longest > before ? w->longest - before : 0,
           last = at + room < size ? at + room : size;
    memcpy(text, w->prefix, before);
    memcpy(text + before, bytes + at, last - at);
    for (; last > at; last--) {
        if (last < size && (bytes[last] & 0xC0) == 0x80) continue;
        int32_t id = sr_pieces_find(w->pieces, text, before + last - at);
        if (id < 0) continue;
        *end = last;
        return id;
    }
    return -1;
}

sr_status sr_wordpieces_encode(sr_parts *out, const sr_wordpieces *w, const uint8_t *bytes,
                               size_t size) {
    bool known = sr_utf8_length(bytes, size) <= (size_t)w->most;
    SR_TRY(sr_parts_reserve(out, size + 1));
    out->count = 0;
    for (size_t at = 0, end = 0; known && at < size; at = end) {
        int32_t id = longest(&end, w, bytes, at, size);
        known = id >= 0;
        out->list[out->count++] = (sr_part){id, (uint32_t)at, (uint32_t)end};
    }
    if (known) return SR_OK;
    out->list[0] = (sr_part){w->unknown, 0, (uint32_t)size};
    out->count = 1;
    out->unknown++;
    return SR_OK;
}
