/* pretokenizer_read.c - the pre-tokenizer of a tokenizer.json. */
#include <string.h>

#include "core/unicode/classes.h"
#include "core/tokenizer/pretokenizer.h"
#include "core/tokenizer/tokenizer_impl.h"
#include "core/unicode/utf8.h"

static const char *const behaviors[] = {"Removed",        "Isolated",   "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous", NULL};

static sr_status read_behavior(sr_pre_step *s, const sr_json *at, bool required) {
    sr_json behavior = sr_json_key(at, "behavior");
    int choice = SR_SPLIT_ISOLATED;
    if (required || !sr_json_absent(&behavior))
        SR_TRY(sr_json_choice(&choice, at, "behavior", behaviors));
    s->behavior = (sr_split_behavior)choice;
    return SR_OK;
}

static sr_status read_byte_level(sr_pre_step *s, const sr_json *at) {
    bool regex;
    SR_TRY(sr_json_bool(&s->prefix, at, "add_prefix_space", true));
    SR_TRY(sr_json_bool(&regex, at, "use_regex", true));
    s->behavior = SR_SPLIT_ISOLATED;
    return regex ? sr_pattern_gpt2(&s->pattern) : SR_OK;
}

static sr_status read_split(sr_pre_step *s, const sr_json *at) {
    sr_json pattern = sr_json_key(at, "pattern");
    SR_TRY(sr_pattern_read(&s->pattern, &pattern));
    if (sr_pattern_matches_empty(s->pattern))
        return sr_json_refuse(&pattern, "can match nothing, which is not supported");
    SR_TRY(read_behavior(s, at, true));
    return sr_json_bool(&s->invert, at, "invert", false);
}

static sr_status read_metaspace(sr_pre_step *s, const sr_json *at) {
    static const char *const schemes[] = {"always", "first", "never", NULL};
    const char *mark;
    size_t size;
    SR_TRY(sr_json_text(&mark, &size, at, "replacement"));
    int32_t cp;
    s->mark_size = size > 0 ? sr_utf8_decode(&cp, (const uint8_t *)mark, size) : 0;
    if (size == 0 || size > 4 || s->mark_size != (int)size)
        return sr_json_refuse(at, "has a replacement that is not one character");
    memcpy(s->mark, mark, size);
    bool prefix;
    sr_json scheme = sr_json_key(at, "prepend_scheme");
    SR_TRY(sr_json_bool(&prefix, at, "add_prefix_space", true));
    s->scheme = prefix ? SR_PRE_ALWAYS : SR_PRE_NEVER;
    if (!sr_json_absent(&scheme)) {
        sr_json old = sr_json_key(at, "add_prefix_space");
        SR_TRY(sr_json_choice(&s->scheme, at, "prepend_scheme", schemes));
        if (!sr_json_absent(&old) && !prefix && s->scheme != SR_PRE_NEVER)
            return sr_json_refuse(at, "has a prepend_scheme that contradicts add_prefix_space");
    }
    return sr_json_bool(&s->split, at, "split", true);
}

static sr_status read_step(sr_pretokenizer *p, const sr_json *at, int kind) {
    if (p->count == SR_PRE_STEPS)
        return sr_json_refuse(at, "is one of more than %d steps", SR_PRE_STEPS);
    if (p->bytes) return sr_json_refuse(at, "comes after ByteLevel, which is not supported");
    sr_pre_step *s = &p->steps[p->count++];
    s->kind = (sr_pre_kind)kind;
    if (kind == SR_PRE_BYTE_LEVEL) {
        p->bytes = true;
        return read_byte_level(s, at);
    }
    if (kind == SR_PRE_SPLIT) return read_split(s, at);
    if (kind == SR_PRE_METASPACE) {
        SR_TRY(read_metaspace(s, at));
        p->needs_places |= s->scheme == SR_PRE_FIRST;
        return SR_OK;
    }
    if (kind == SR_PRE_DIGITS) return sr_json_bool(&s->individual, at, "individual_digits", false);
    return kind == SR_PRE_PUNCTUATION ? read_behavior(s, at, false) : SR_OK;
}

static sr_status read(sr_pretokenizer *p, const sr_json *at, int depth) {
    static const char *const kinds[] = {
        "BertPreTokenizer", "Whitespace", "WhitespaceSplit", "ByteLevel", "Split",
        "Metaspace",        "Digits",     "Punctuation",     "Sequence",  NULL};
    int kind;
    SR_TRY(sr_json_object(at));
    SR_TRY(sr_json_choice(&kind, at, "type", kinds));
    if (kind != SR_PRE_SEQUENCE) return read_step(p, at, kind);
    sr_json list = sr_json_key(at, "pretokenizers");
    SR_TRY(sr_json_list(&list));
    if (depth == SR_TOKENIZER_DEPTH) return sr_json_refuse(at, "is nested too deep");
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        sr_json one = sr_json_item(&list, i);
        SR_TRY(read(p, &one, depth + 1));
    }
    return SR_OK;
}

/* One known pattern covers every text, so isolating its matches or keeping only them is the same.
 */
static sr_pattern_scan whole_scan(const sr_pretokenizer *p) {
    if (!p->bytes || p->steps[p->count - 1].prefix) return NULL;
    const sr_pre_step *s = &p->steps[0];
    if (p->count == 1) return s->pattern != NULL ? sr_pattern_program(s->pattern) : NULL;
    if (p->count != 2 || s->kind != SR_PRE_SPLIT || p->steps[1].pattern != NULL) return NULL;
    bool isolated = s->behavior == SR_SPLIT_ISOLATED,
         removed = s->behavior == SR_SPLIT_REMOVED && s->invert;
    return isolated || removed ? sr_pattern_program(s->pattern) : NULL;
}

sr_status sr_pretokenizer_read(sr_pretokenizer *p, const sr_json *at) {
    sr_classes_init();
    if (sr_json_absent(at)) return SR_OK;
    SR_TRY(read(p, at, 0));
    p->scan = p->count > 0 ? whole_scan(p) : NULL;
    return SR_OK;
}

bool sr_pretokenizer_marks(const sr_pretokenizer *p) {
    for (int i = 0; i < p->count; i++)
        if (p->steps[i].kind == SR_PRE_METASPACE) return true;
    return false;
}

void sr_pretokenizer_free(sr_pretokenizer *p) {
    for (int i = 0; i < p->count; i++) sr_pattern_free(p->steps[i].pattern);
    p->count = 0;
}
