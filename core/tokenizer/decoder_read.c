/* decoder_read.c - reads the decoder of a tokenizer.json. */
#include <string.h>

#include "core/base/mem.h"
#include "core/tokenizer/decoder.h"
#include "core/tokenizer/tokenizer_impl.h"

static sr_status keep_text(sr_decoder_step *s, const char *text, size_t size) {
    SR_TRY(sr_new(&s->text, size + 1));
    memcpy(s->text, text, size);
    s->size = size;
    return SR_OK;
}

static sr_status read_text(sr_decoder_step *s, const sr_json *at, const char *key) {
    const char *text;
    size_t size;
    SR_TRY(sr_json_text(&text, &size, at, key));
    return keep_text(s, text, size);
}

static sr_status read_metaspace(sr_decoder_step *s, const sr_json *at) {
    static const char *const schemes[] = {"always", "never", "first", NULL};
    int scheme = 0;
    SR_TRY(read_text(s, at, "replacement"));
    sr_json given = sr_json_key(at, "prepend_scheme");
    if (!sr_json_absent(&given)) SR_TRY(sr_json_choice(&scheme, at, "prepend_scheme", schemes));
    bool prefix;
    SR_TRY(sr_json_bool(&prefix, at, "add_prefix_space", scheme != 1));
    s->first = prefix;
    return SR_OK;
}

static sr_status read_strip(sr_decoder_step *s, const sr_json *at) {
    SR_TRY(read_text(s, at, "content"));
    SR_TRY(sr_json_integer(&s->start, at, "start", 0, INT32_MAX));
    return sr_json_integer(&s->stop, at, "stop", 0, INT32_MAX);
}

static sr_status read_replace(sr_decoder_step *s, const sr_json *at) {
    sr_json pattern = sr_json_key(at, "pattern");
    SR_TRY(sr_pattern_read(&s->pattern, &pattern));
    return read_text(s, at, "content");
}

static sr_status read_step(sr_decoder *d, const sr_json *at, int kind) {
    if (d->count == SR_DECODER_STEPS)
        return sr_json_refuse(at, "is one of more than %d steps", SR_DECODER_STEPS);
    sr_decoder_step *s = &d->steps[d->count++];
    s->kind = (sr_decoder_kind)kind;
    switch (s->kind) {
    case SR_DECODE_WORDPIECE:
        SR_TRY(sr_json_bool(&s->cleanup, at, "cleanup", true));
        return read_text(s, at, "prefix");
    case SR_DECODE_METASPACE:
        return read_metaspace(s, at);
    case SR_DECODE_BPE:
        return read_text(s, at, "suffix");
    case SR_DECODE_STRIP:
        return read_strip(s, at);
    case SR_DECODE_REPLACE:
        return read_replace(s, at);
    default:
        return SR_OK;
    }
}

static sr_status read(sr_decoder *d, const sr_json *at, int depth) {
    static const char *const kinds[] = {"ByteLevel",    "WordPiece", "Metaspace", "BPEDecoder",
                                        "ByteFallback", "Fuse",      "Strip",     "Replace",
                                        "Sequence",     NULL};
    int kind;
    SR_TRY(sr_json_object(at));
    SR_TRY(sr_json_choice(&kind, at, "type", kinds));
    if (kind != SR_DECODE_SEQUENCE) return read_step(d, at, kind);
    sr_json list = sr_json_key(at, "decoders");
    SR_TRY(sr_json_list(&list));
    if (depth == SR_TOKENIZER_DEPTH) return sr_json_refuse(at, "is nested too deep");
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        sr_json one = sr_json_item(&list, i);
        SR_TRY(read(d, &one, depth + 1));
    }
    return SR_OK;
}

sr_status sr_decoder_read(sr_decoder *d, const sr_json *at) {
    d->given = !sr_json_absent(at);
    return d->given ? read(d, at, 0) : SR_OK;
}

void sr_decoder_free(sr_decoder *d) {
    for (int i = 0; i < d->count; i++) {
        sr_free(d->steps[i].text);
        sr_pattern_free(d->steps[i].pattern);
    }
    d->count = 0;
}
