#include "core/tokenizer/tokenizer_json.h"

#include <string.h>

#include "core/base/json.h"
#include "core/base/limit.h"
#include "core/base/mem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

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
    st = sr_vocab_parse(out, text, size, name);
    if (st != SR_OK) *out = NULL;
    if (st == SR_ENOMEM) goto done;
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

/* ---- added tokens ---- */

/* The id that `tokenizers` gives an added token: the one in the vocabulary, or the next. */
static int32_t id_wanted(const sr_tokenizer *t, const sr_added_token *one, int32_t most) {
    int32_t id = sr_tokenizer_id(t, one->content, one->size);
    if (id >= 0) return id;
    return most >= t->pieces.count ? most + 1 : t->pieces.count;
}

static sr_status check_added(sr_tokenizer *t, const sr_json *list) {
    int32_t most = -1, size = t->pieces.size;
    for (size_t i = 0; i < t->added.count; i++)
        if (t->added.tokens[i].id >= size) size = t->added.tokens[i].id + 1;
    if (size > t->pieces.size + (int64_t)t->added.count)
        return sr_json_refuse(list,
                              "has ids up to %d; the vocabulary and %zu added tokens end before it",
                              size - 1, t->added.count);
    SR_TRY(sr_pieces_init(&t->added_pieces, size, t->added.count));
    SR_TRY(sr_new(&t->specials, t->added.count));
    SR_TRY(sr_new(&t->added.by_id, size));
    t->size = size;
    for (size_t i = 0; i < t->added.count; i++) {
        const sr_added_token *one = &t->added.tokens[i];
        sr_json at = sr_json_item(list, i);
        int32_t wanted = id_wanted(t, one, most), known;
        if (one->id != wanted)
            return sr_json_refuse(&at, "has the id %d; '%.64s' would have %d", one->id,
                                  one->content, wanted);
        if (one->id > most) most = one->id;
        SR_TRY(sr_pieces_add(&t->added_pieces, one->content, one->size, one->id, &known));
        t->added.by_id[one->id] = (int32_t)i + 1;
        if (one->special) t->specials[t->special_count++] = one->id;
    }
    return SR_OK;
}

/* What the normalizer makes of each added token that is found in normalized text. */
static sr_status show(sr_tokenizer *t, sr_added_token *one, sr_pre_work *w, sr_changes *changes) {
    sr_run_clear(&w->text, false);
    SR_TRY(sr_run_add(&w->text, one->content, one->size, 0, 0));
    if (one->normalized)
        SR_TRY(sr_normalize(&w->text, &w->other, &t->normalizer, &w->matcher, changes));
    if (w->text.size > SR_TOKENIZER_TOKEN_LIMIT)
        return sr_fail(SR_EDATA,
                       "the added token '%.64s' has %zu bytes when normalized; the maximum is %d",
                       one->content, w->text.size, SR_TOKENIZER_TOKEN_LIMIT);
    SR_TRY(sr_new(&one->shown, w->text.size + 1));
    memcpy(one->shown, w->text.bytes, w->text.size);
    one->shown_size = w->text.size;
    return SR_OK;
}

static sr_status index_added(sr_tokenizer *t) {
    sr_pre_work work = {0};
    sr_changes changes = {0};
    sr_status st = SR_OK;
    for (size_t i = 0; st == SR_OK && i < t->added.count; i++)
        st = show(t, &t->added.tokens[i], &work, &changes);
    for (int n = 0; st == SR_OK && n < 2; n++) st = sr_added_index(&t->added, n);
    sr_pre_work_free(&work);
    sr_free(changes.list);
    return st;
}

/* ---- the whole ---- */

/* A hash of sections of the file, whatever their spacing and the order of their keys. */
static sr_status hash_section(uint64_t *hash, const sr_json *root, const char *key) {
    const json_t *section = json_object_get(root->value, key);
    if (section == NULL || json_is_null(section)) return SR_OK;
    char *text = json_dumps(section, JSON_COMPACT | JSON_SORT_KEYS);
    if (text == NULL) return sr_fail(SR_ENOMEM, "%s: out of memory", root->key);
    *hash = XXH3_64bits_withSeed(text, strlen(text), *hash + (uint64_t)key[0]);
    sr_json_free(text);
    return SR_OK;
}

static sr_status hash_all(sr_tokenizer *t, uint64_t model, const sr_json *root) {
    uint64_t hash = model;
    SR_TRY(hash_section(&hash, root, "added_tokens"));
    SR_TRY(hash_section(&hash, root, "normalizer"));
    SR_TRY(hash_section(&hash, root, "pre_tokenizer"));
    for (int32_t id = 0; id < t->pieces.size; id++) {
        size_t size = 0;
        const char *token = sr_pieces_text(&t->pieces, id, &size);
        if (token != NULL) hash = XXH3_64bits_withSeed(token, size, hash + (uint64_t)id);
    }
    const uint64_t *own = t->model->fingerprints;
    uint64_t parts[] = {hash, own[0], own[1], own[2], own[3]};
    t->fingerprint = XXH3_64bits(parts, sizeof parts);
    return SR_OK;
}

/* Special tokens among the pieces of a model: as text they are others. */
static void hide_specials(sr_tokenizer *t) {
    for (size_t i = 0; i < t->added.count; i++) {
        const sr_added_token *one = &t->added.tokens[i];
        if (one->special) t->kind->hide(t->model, one->content, one->size, one->id);
    }
}

static sr_status read_parts(sr_tokenizer *t, const sr_json *root) {
    sr_json normalizer = sr_json_key(root, "normalizer"), pre = sr_json_key(root, "pre_tokenizer"),
            added = sr_json_key(root, "added_tokens"), decoder = sr_json_key(root, "decoder"),
            model = sr_json_key(root, "model");
    uint64_t number;
    SR_TRY(sr_decoder_read(&t->decoder, &decoder));
    SR_TRY(sr_normalizer_read(&t->normalizer, &normalizer));
    SR_TRY(sr_pretokenizer_read(&t->pre, &pre));
    SR_TRY(sr_model_read(&t->model, &number, &t->pieces, &model, t->pre.bytes));
    t->kind = t->model->kind;
    SR_TRY(sr_added_read(&t->added, &added));
    SR_TRY(check_added(t, &added));
    SR_TRY(index_added(t));
    SR_TRY(hash_all(t, number, root));
    if (t->literal && t->kind->hide != NULL) hide_specials(t);
    return SR_OK;
}

/* The special ids of BERT's WordPiece. */
static sr_status fast_specials(sr_tokenizer *t) {
    SR_TRY(sr_new(&t->specials, SR_TOKEN_SPECIALS));
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++)
        t->specials[t->special_count++] = sr_vocab_special(t->fast->vocab, (sr_special)i);
    return SR_OK;
}

/* The special tokens of frames must be tokens. */
static sr_status check_frames(const sr_tokenizer *t, const sr_json *at) {
    for (int n = 0; n < 2; n++) {
        const sr_frame *f = &t->post.frames[n];
        const sr_frame_part *parts[] = {&f->lead, &f->middle, &f->tail};
        for (int p = 0; p < 3; p++)
            for (int i = 0; i < parts[p]->count; i++) {
                size_t size;
                if (sr_tokenizer_token(t, parts[p]->ids[i], &size) == NULL)
                    return sr_json_refuse(at, "has the id %d, which no token has",
                                          parts[p]->ids[i]);
            }
    }
    return SR_OK;
}

static sr_status read_root(sr_tokenizer *t, const sr_json *root, const sr_tokenizer_opts *opts) {
    static const char *const sections[] = {
        "version",       "truncation",     "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    SR_TRY(sr_json_object(root));
    SR_TRY(sr_json_only(root, sections));
    t->literal = !opts->specials;
    SR_TRY(try_fast(t, root, opts));
    SR_TRY(t->fast != NULL ? fast_specials(t) : read_parts(t, root));
    sr_json frame = sr_json_key(root, "post_processor");
    SR_TRY(sr_postprocess_read(&t->post, &frame));
    return check_frames(t, &frame);
}

static sr_status read_text(sr_tokenizer *t, const char *bytes, size_t size, const char *name,
                           const sr_tokenizer_opts *opts) {
    json_error_t error;
    if (size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) bytes += 3, size -= 3;
    json_t *value;
    sr_status st =
        sr_json_load(&value, bytes, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (st == SR_ENOMEM) return sr_fail(st, "%s: out of memory while reading JSON", name);
    if (st != SR_OK)
        return sr_fail(st, "%s:%d:%d: %.120s", name, error.line, error.column, error.text);
    sr_json root = {value, NULL, name, 0};
    st = read_root(t, &root, opts);
    json_decref(value);
    return st;
}

sr_status sr_tokenizer_read_json(sr_tokenizer *t, const char *bytes, size_t size, const char *name,
                                 const sr_tokenizer_opts *opts) {
    sr_mem_count memory;
    sr_mem_watch(&memory, SR_TOKENIZER_BASE + SR_TOKENIZER_MULTIPLE * (int64_t)size);
    sr_status st = read_text(t, bytes, size, name, opts);
    sr_mem_watch_end(&memory);
    if (st == SR_OK || !memory.exceeded) return st;
    return sr_fail(SR_EDATA,
                   "%s: needs more than %lld bytes of memory, which is the limit for a "
                   "tokenizer.json of %zu bytes; it has too many small parts or large patterns",
                   name, (long long)memory.limit, size);
}
