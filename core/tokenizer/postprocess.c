/* postprocess.c - post-processors: which special tokens surround a text and a pair. */
#include <string.h>

#include "core/tokenizer/pieces.h"
#include "core/tokenizer/postprocess.h"

/* Appends a special token, or refuses one too many. */
static sr_status add(sr_frame_part *part, const sr_json *at, int32_t id, int64_t type) {
    if (part->count == SR_FRAME_LIMIT)
        return sr_json_refuse(at, "is one of more than %d special tokens side by side",
                              SR_FRAME_LIMIT);
    if (id < 0) return sr_json_refuse(at, "has an id below 0");
    sr_frame_add(part, id, (int)type);
    return SR_OK;
}

/* ---- templates: [CLS] $A [SEP] as a list of pieces ---- */

/* The ids of the special token that a piece names. */
static sr_status add_special(sr_frame_part *part, const sr_json *at, const sr_json *tokens,
                             int64_t type) {
    const char *name;
    size_t size;
    SR_TRY(sr_json_text(&name, &size, at, "id"));
    sr_json token = sr_json_key(tokens, name);
    if (!json_is_object(token.value))
        return sr_json_refuse(at, "names '%.64s', which is not in special_tokens", name);
    sr_json ids = sr_json_key(&token, "ids");
    SR_TRY(sr_json_list(&ids));
    for (size_t i = 0; i < json_array_size(ids.value); i++) {
        sr_json id = sr_json_item(&ids, i);
        if (!json_is_integer(id.value)) return sr_json_refuse(&id, "is not a whole number");
        json_int_t value = json_integer_value(id.value);
        if (value < 0 || value >= SR_TOKENIZER_ID_LIMIT)
            return sr_json_refuse(&id, "is %lld, which is not an id", (long long)value);
        SR_TRY(add(part, at, (int32_t)value, type));
    }
    return SR_OK;
}

/* One piece of a template; `seen` counts the sequences before it, which come in the order A, B. */
static sr_status read_piece(sr_frame *f, const sr_json *piece, const sr_json *tokens, int *seen,
                            int sequences) {
    sr_json special = sr_json_key(piece, "SpecialToken"), text = sr_json_key(piece, "Sequence");
    bool is_special = !sr_json_absent(&special);
    sr_json at = is_special ? special : text;
    int64_t type;
    SR_TRY(sr_json_object(&at));
    SR_TRY(sr_json_integer(&type, &at, "type_id", 0, 255));
    if (is_special) {
        sr_frame_part *parts[] = {&f->lead, sequences == 2 ? &f->middle : &f->tail, &f->tail};
        return add_special(parts[*seen], &at, tokens, type);
    }
    const char *id;
    size_t size;
    SR_TRY(sr_json_text(&id, &size, &at, "id"));
    if (*seen >= sequences || strcmp(id, *seen == 0 ? "A" : "B") != 0)
        return sr_json_refuse(&at, "is \"%.8s\"; a template must have %s", id,
                              sequences == 2 ? "A, then B, each once" : "A once");
    f->types[(*seen)++] = (uint8_t)type;
    return SR_OK;
}

static sr_status read_template(sr_frame *f, const sr_json *at, const char *key, int sequences) {
    sr_json list = sr_json_key(at, key), tokens = sr_json_key(at, "special_tokens");
    int seen = 0;
    SR_TRY(sr_json_list(&list));
    memset(f, 0, sizeof *f);
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        sr_json piece = sr_json_item(&list, i);
        SR_TRY(sr_json_object(&piece));
        SR_TRY(read_piece(f, &piece, &tokens, &seen, sequences));
    }
    if (seen != sequences) return sr_json_refuse(&list, "has %d of %d sequences", seen, sequences);
    return SR_OK;
}

/* ---- BertProcessing, RobertaProcessing: ["[SEP]", 102], ["[CLS]", 101] ---- */

static sr_status read_pair(int32_t *id, const sr_json *in, const char *key) {
    sr_json at = sr_json_key(in, key), number = sr_json_item(&at, 1);
    if (json_array_size(at.value) != 2 || !json_is_integer(number.value) ||
        json_integer_value(number.value) < 0 ||
        json_integer_value(number.value) >= SR_TOKENIZER_ID_LIMIT)
        return sr_json_refuse(&at, "is not a list of a token and its id");
    *id = (int32_t)json_integer_value(number.value);
    return SR_OK;
}

/* BERT: cls A sep B sep, types 0 and 1.  RoBERTa: cls A sep sep B sep, all types 0. */
static sr_status read_bert(sr_postprocess *p, const sr_json *at, bool roberta) {
    int32_t cls, sep;
    SR_TRY(read_pair(&cls, at, "cls"));
    SR_TRY(read_pair(&sep, at, "sep"));
    memset(p->frames, 0, sizeof p->frames);
    for (int pair = 0; pair < 2; pair++) {
        sr_frame *f = &p->frames[pair];
        int type = pair == 1 && !roberta;
        sr_frame_add(&f->lead, cls, 0);
        if (pair == 1) sr_frame_add(&f->middle, sep, 0);
        if (pair == 1 && roberta) sr_frame_add(&f->middle, sep, 0);
        sr_frame_add(&f->tail, sep, type);
        f->types[1] = (uint8_t)type;
    }
    return SR_OK;
}

static sr_status read_trim(sr_postprocess *p, const sr_json *at) {
    SR_TRY(sr_json_bool(&p->trim, at, "trim_offsets", true));
    return sr_json_bool(&p->trim_prefix, at, "add_prefix_space", true);
}

enum { BERT, ROBERTA, BYTE_LEVEL, TEMPLATE };

static sr_status read_step(void *into, const sr_json *at, int kind) {
    sr_postprocess *p = into;
    if (kind == BYTE_LEVEL) return read_trim(p, at);
    if (p->framed) return sr_json_refuse(at, "is a second post-processor with special tokens");
    p->framed = true;
    if (kind == ROBERTA) SR_TRY(read_trim(p, at));
    if (kind != TEMPLATE) return read_bert(p, at, kind == ROBERTA);
    SR_TRY(read_template(&p->frames[0], at, "single", 1));
    return read_template(&p->frames[1], at, "pair", 2);
}

sr_status sr_postprocess_read(sr_postprocess *p, const sr_json *at) {
    static const char *const kinds[] = {"BertProcessing",     "RobertaProcessing", "ByteLevel",
                                        "TemplateProcessing", "Sequence",          NULL};
    return sr_json_absent(at) ? SR_OK : sr_json_steps(at, kinds, "processors", read_step, p);
}
