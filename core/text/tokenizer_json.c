/* tokenizer_json.c - reads a tokenizer.json. */
#include <string.h>

#include "core/base/mem.h"
#include "core/text/tokenizer_impl.h"

/* ---- BERT's WordPiece, for the fast path ---- */

/* The vocabulary as the text of a vocab.txt, NULL if it is none: ids with holes, no [MASK]. */
static sr_status vocab_of(sr_vocab **out, const sr_json *vocab, const char *name) {
    size_t count = json_object_size(vocab->value), size = 0;
    const char **tokens = NULL;
    char *text = NULL;
    sr_status st;
    *out = NULL;
    SR_TRY(sr_new(&tokens, count));
    void *i = json_object_iter((json_t *)vocab->value);
    for (; i != NULL; i = json_object_iter_next((json_t *)vocab->value, i)) {
        const json_t *id = json_object_iter_value(i);
        json_int_t at = json_integer_value(id);
        if (!json_is_integer(id) || at < 0 || at >= (json_int_t)count || tokens[at] != NULL)
            goto none;
        tokens[at] = json_object_iter_key(i);
        size += strlen(tokens[at]) + 1;
        if (strpbrk(tokens[at], "\r\n") != NULL || tokens[at][0] == '\0') goto none;
    }
    SR_GO(done, st, sr_new(&text, size));
    size = 0;
    for (size_t n = 0; n < count; n++) {
        size_t length = strlen(tokens[n]);
        memcpy(text + size, tokens[n], length);
        size += length;
        text[size++] = '\n';
    }
    if (sr_vocab_parse(out, text, size, name) != SR_OK) *out = NULL;
none:
    st = SR_OK;
done:
    sr_free(text);
    sr_free(tokens);
    return st;
}

static bool is_text(const sr_json *in, const char *key, const char *wanted) {
    const char *text = json_string_value(json_object_get(in->value, key));
    return text != NULL && strcmp(text, wanted) == 0;
}

/* Whether the added tokens are the five of BERT, each with its id, as vocab.txt has them. */
static bool bert_added(const sr_json *list, const sr_vocab *v) {
    int seen = 0;
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        sr_json token = sr_json_item(list, i);
        int which = 0;
        while (which < SR_TOKEN_SPECIALS && !is_text(&token, "content", sr_special_names[which]))
            which++;
        if (which == SR_TOKEN_SPECIALS || (seen >> which & 1) != 0) return false;
        seen |= 1 << which;
        static const char *const off[] = {"single_word", "lstrip", "rstrip", "normalized"};
        for (int n = 0; n < 4; n++)
            if (!json_is_false(json_object_get(token.value, off[n]))) return false;
        if (!json_is_true(json_object_get(token.value, "special"))) return false;
        const json_t *id = json_object_get(token.value, "id");
        if (!json_is_integer(id) ||
            json_integer_value(id) != sr_vocab_special(v, (sr_special)which))
            return false;
    }
    return seen == (1 << SR_TOKEN_SPECIALS) - 1;
}

/* The casing of a BertNormalizer; false if it is none of BERT's four. */
static bool bert_casing(sr_tokenizer_opts *opts, const sr_json *normalizer) {
    if (!is_text(normalizer, "type", "BertNormalizer")) return false;
    sr_json strip = sr_json_key(normalizer, "strip_accents");
    bool clean, chinese, lower;
    if (sr_json_bool(&clean, normalizer, "clean_text", false) != SR_OK ||
        sr_json_bool(&chinese, normalizer, "handle_chinese_chars", false) != SR_OK ||
        sr_json_bool(&lower, normalizer, "lowercase", false) != SR_OK || !clean || !chinese)
        return false;
    opts->lowercase = lower;
    opts->keep_accents = lower && json_is_false(strip.value);
    return sr_json_absent(&strip) ||
           (json_is_boolean(strip.value) && (lower || json_is_false(strip.value)));
}

/* Uses the fast path if the file says what vocab.txt says; else t->fast stays NULL. */
static sr_status try_fast(sr_tokenizer *t, const sr_json *root, const sr_tokenizer_opts *given) {
    sr_tokenizer_opts opts = *given;
    sr_json model = sr_json_key(root, "model"), vocab = sr_json_key(&model, "vocab"),
            normalizer = sr_json_key(root, "normalizer"), pre = sr_json_key(root, "pre_tokenizer"),
            added = sr_json_key(root, "added_tokens");
    const json_t *most = json_object_get(model.value, "max_input_chars_per_word");
    if (!is_text(&model, "type", "WordPiece") || !is_text(&model, "unk_token", "[UNK]") ||
        !is_text(&model, "continuing_subword_prefix", "##") || !json_is_integer(most) ||
        json_integer_value(most) != SR_WORD_CHARS || !is_text(&pre, "type", "BertPreTokenizer") ||
        !bert_casing(&opts, &normalizer) || !json_is_object(vocab.value))
        return SR_OK;
    sr_vocab *v;
    SR_TRY(vocab_of(&v, &vocab, root->key));
    sr_status st = SR_OK;
    if (v != NULL && bert_added(&added, v)) st = sr_tokenizer_use_fast(t, v, &opts);
    sr_vocab_release(v);
    return st;
}

/* ---- the whole ---- */

static sr_status read_root(sr_tokenizer *t, const sr_json *root, const sr_tokenizer_opts *opts) {
    SR_TRY(sr_json_object(root));
    sr_json frame = sr_json_key(root, "post_processor"), model = sr_json_key(root, "model");
    SR_TRY(try_fast(t, root, opts));
    if (t->fast == NULL) return sr_json_refuse(&model, "is not BERT's WordPiece");
    t->special_count = SR_TOKEN_SPECIALS;
    SR_TRY(sr_new(&t->specials, t->special_count));
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++)
        t->specials[i] = sr_vocab_special(t->fast->vocab, (sr_special)i);
    return sr_frame_read(t, &frame, 0);
}

sr_status sr_tokenizer_read_json(sr_tokenizer *t, const char *bytes, size_t size, const char *name,
                                 const sr_tokenizer_opts *opts) {
    json_error_t error;
    if (size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) bytes += 3, size -= 3;
    json_t *value = json_loadb(bytes, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (value == NULL && json_error_code(&error) == json_error_out_of_memory)
        return sr_fail(SR_ENOMEM, "%s: out of memory while reading JSON", name);
    if (value == NULL)
        return sr_fail(SR_EDATA, "%s:%d:%d: %.120s", name, error.line, error.column, error.text);
    sr_json root = {value, NULL, name, 0};
    sr_status st = read_root(t, &root, opts);
    json_decref(value);
    return st;
}
