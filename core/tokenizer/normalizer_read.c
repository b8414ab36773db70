/* normalizer_read.c - the normalizer of a tokenizer.json. */
#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/classes.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/tokenizer_impl.h"

static sr_status read_text(sr_normal_step *s, const sr_json *at, const char *key) {
    const char *text;
    SR_TRY(sr_json_text(&text, &s->size, at, key));
    if (s->size > SR_TOKENIZER_TOKEN_LIMIT)
        return sr_json_refuse(at, "has a %s of %zu bytes; the maximum is %d", key, s->size,
                              SR_TOKENIZER_TOKEN_LIMIT);
    SR_TRY(sr_new(&s->text, s->size + 1));
    memcpy(s->text, text, s->size);
    return SR_OK;
}

static sr_status read_bert(sr_normal_step *s, const sr_json *at) {
    SR_TRY(sr_json_bool(&s->clean, at, "clean_text", true));
    SR_TRY(sr_json_bool(&s->chinese, at, "handle_chinese_chars", true));
    SR_TRY(sr_json_bool(&s->lower, at, "lowercase", true));
    return sr_json_bool(&s->accents, at, "strip_accents", s->lower);
}

static sr_status read_step(sr_normalizer *n, const sr_json *at, int kind) {
    if (n->count == SR_NORMAL_STEPS)
        return sr_json_refuse(at, "is one of more than %d steps", SR_NORMAL_STEPS);
    sr_normal_step *s = &n->steps[n->count++];
    s->kind = (sr_normal_kind)kind;
    if (kind == SR_NORMAL_BERT) return read_bert(s, at);
    if (kind == SR_NORMAL_STRIP) {
        SR_TRY(sr_json_bool(&s->left, at, "strip_left", true));
        return sr_json_bool(&s->right, at, "strip_right", true);
    }
    if (kind == SR_NORMAL_REPLACE) {
        sr_json pattern = sr_json_key(at, "pattern");
        SR_TRY(sr_pattern_read(&s->pattern, &pattern));
        return read_text(s, at, "content");
    }
    if (kind == SR_NORMAL_PREPEND) return read_text(s, at, "prepend");
    if (kind == SR_NORMAL_PRECOMPILED) {
        sr_json map = sr_json_key(at, "precompiled_charsmap");
        return sr_charsmap_read(&s->map, &map);
    }
    return SR_OK;
}

static sr_status read(sr_normalizer *n, const sr_json *at, int depth) {
    static const char *const kinds[] = {
        "BertNormalizer", "NFC",          "NFD",   "NFKC",    "NFKD",
        "Lowercase",      "StripAccents", "Strip", "Replace", "Prepend",
        "Precompiled",    "Sequence",     NULL};
    int kind;
    SR_TRY(sr_json_object(at));
    SR_TRY(sr_json_choice(&kind, at, "type", kinds));
    if (kind != SR_NORMAL_SEQUENCE) return read_step(n, at, kind);
    sr_json list = sr_json_key(at, "normalizers");
    SR_TRY(sr_json_list(&list));
    if (depth == SR_TOKENIZER_DEPTH) return sr_json_refuse(at, "is nested too deep");
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        sr_json one = sr_json_item(&list, i);
        SR_TRY(read(n, &one, depth + 1));
    }
    return SR_OK;
}

sr_status sr_normalizer_read(sr_normalizer *n, const sr_json *at) {
    sr_classes_init();
    return sr_json_absent(at) ? SR_OK : read(n, at, 0);
}

bool sr_normalizer_marks(const sr_normalizer *n) {
    bool marks = false;
    for (int i = 0; i < n->count; i++) {
        const sr_normal_step *s = &n->steps[i];
        if (s->kind == SR_NORMAL_PREPEND) return false;
        marks |= s->kind == SR_NORMAL_REPLACE && sr_pattern_byte(s->pattern) == ' ' &&
                 s->size == 3 && memcmp(s->text, "\xE2\x96\x81", 3) == 0;
    }
    return marks;
}

void sr_normalizer_free(sr_normalizer *n) {
    for (int i = 0; i < n->count; i++) {
        sr_pattern_free(n->steps[i].pattern);
        sr_free(n->steps[i].text);
        sr_charsmap_free(n->steps[i].map);
    }
    n->count = 0;
}
