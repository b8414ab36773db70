#include "core/tokenizer/bpe_train.h"

#include <string.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/tokenizer/byte_level.h"
#include "core/tokenizer/merges.h"
#include "core/tokenizer/pieces.h"
#include "core/unicode/utf8.h"

/* ---- training ---- */

/* The specials, then the characters of all bytes by code point; ids[b] is the token of byte b. */
static sr_status add_alphabet(sr_merger *m, uint32_t ids[256]) {
    uint32_t index;
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++)
        SR_TRY(
            sr_pieces_append(&index, &m->tokens, sr_special_names[i], strlen(sr_special_names[i])));
    for (int32_t cp = 0; cp < 0x180; cp++) {
        uint8_t text[4];
        int byte = sr_byte_of_char(cp);
        if (byte < 0) continue;
        SR_TRY(sr_pieces_append(&ids[byte], &m->tokens, text, (size_t)sr_utf8_encode(text, cp)));
    }
    return SR_OK;
}

static sr_status spell_pieces(sr_merger *m, const uint32_t ids[256]) {
    uint32_t count = (uint32_t)m->words.words.count;
    size_t used = 0;
    SR_TRY(sr_new(&m->symbols, m->words.words.text_size));
    SR_TRY(sr_new(&m->first, count));
    SR_TRY(sr_new(&m->length, count));
    for (uint32_t w = 0; w < count; w++) {
        size_t size = 0;
        const uint8_t *bytes = (const uint8_t *)sr_pieces_text(&m->words.words, (int32_t)w, &size);
        m->first[w] = used;
        m->length[w] = (uint32_t)size;
        for (size_t i = 0; i < size; i++) m->symbols[used++] = ids[bytes[i]];
    }
    return SR_OK;
}

static sr_status train(sr_merger *m, sr_source *source, int64_t limit, sr_threads *threads) {
    uint32_t ids[256];
    SR_TRY(sr_word_counts_add(&m->words, source, NULL, limit > 0 ? limit : 1 << 23, threads));
    if (m->words.words.count == 0)
        return sr_fail(SR_EDATA, "vocab: the text has no words; use more text");
    SR_TRY(add_alphabet(m, ids));
    SR_TRY(spell_pieces(m, ids));
    return sr_merger_run(m);
}

/* ---- the file ---- */

static json_t *token_of(const sr_merger *m, uint32_t id) {
    size_t size;
    const uint8_t *bytes = (const uint8_t *)sr_pieces_text(&m->tokens, (int32_t)id, &size);
    return json_stringn((const char *)bytes, size);
}

static json_t *vocab_of(const sr_merger *m) {
    json_t *vocab = json_object();
    for (uint32_t id = 0; vocab != NULL && id < (uint32_t)m->tokens.count; id++) {
        size_t size;
        const uint8_t *bytes = (const uint8_t *)sr_pieces_text(&m->tokens, (int32_t)id, &size);
        if (json_object_setn_new(vocab, (const char *)bytes, size, json_integer(id)) == 0) continue;
        json_decref(vocab);
        return NULL;
    }
    return vocab;
}

static json_t *merges_of(const sr_merger *m) {
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < m->merge_count; i++) {
        json_t *pair =
            json_pack("[o, o]", token_of(m, m->merges[i].left), token_of(m, m->merges[i].right));
        if (json_array_append_new(list, pair) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *added_of(void) {
    json_t *list = json_array();
    for (int i = 0; list != NULL && i < SR_TOKEN_SPECIALS; i++) {
        json_t *one = json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", i, "content",
                                sr_special_names[i], "single_word", 0, "lstrip", i == SR_TOKEN_MASK,
                                "rstrip", 0, "normalized", 0, "special", 1);
        if (json_array_append_new(list, one) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *byte_level(void) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", 1);
}

/* [CLS] A [SEP] and [CLS] A [SEP] B [SEP] */
static json_t *frame_of(void) {
    static const char text[] =
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_"
        "id\":0}},"
        "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_"
        "id\":0}}],"
        "\"pair\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\","
        "\"type_id\":0}},"
        "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_"
        "id\":1}},"
        "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":1}}],\"special_tokens\":{"
        "\"[CLS]\":{\"id\":\"[CLS]\",\"ids\":[2],\"tokens\":[\"[CLS]\"]},"
        "\"[SEP]\":{\"id\":\"[SEP]\",\"ids\":[3],\"tokens\":[\"[SEP]\"]}}}";
    json_t *frame;
    json_error_t error;
    return sr_json_load(&frame, text, sizeof text - 1, 0, &error) == SR_OK ? frame : NULL;
}

static json_t *file_of(const sr_merger *m) {
    json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE",
                              "dropout", "unk_token", "continuing_subword_prefix",
                              "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                              "ignore_merges", 0, "vocab", vocab_of(m), "merges", merges_of(m));
    return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0",
                     "truncation", "padding", "added_tokens", added_of(), "normalizer",
                     "pre_tokenizer", byte_level(), "post_processor", frame_of(), "decoder",
                     byte_level(), "model", model);
}

static sr_status write_file(char **text, size_t *size, const sr_merger *m) {
    json_t *root = file_of(m);
    char *dump = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (dump == NULL) return sr_fail(SR_ENOMEM, "vocab: out of memory while writing the tokenizer");
    sr_status st = sr_strdup(text, dump);
    sr_json_free(dump);
    *size = st == SR_OK ? strlen(*text) : 0;
    return st;
}

sr_status sr_bpe_train(char **text, size_t *size, sr_source *source,
                       const sr_vocab_train_opts *opts, sr_threads *threads,
                       sr_vocab_train_counts *counts) {
    *text = NULL, *size = 0;
    if (opts->size < SR_BPE_LEAST || opts->size > SR_VOCAB_LIMIT)
        return sr_fail(SR_EINVAL, "vocab: size is %d; byte-level BPE must have %d to %d",
                       opts->size, SR_BPE_LEAST, SR_VOCAB_LIMIT);
    sr_merger m = {.min_frequency = opts->min_frequency,
                   .size = (uint32_t)opts->size,
                   .longest = SR_TOKENIZER_TOKEN_LIMIT};
    sr_status st = train(&m, source, opts->word_limit, threads);
    if (st == SR_OK) st = write_file(text, size, &m);
    *counts = (sr_vocab_train_counts){.words = m.words.total,
                                      .distinct = m.words.words.count,
                                      .forgotten = m.words.forgotten,
                                      .merges = m.merge_count};
    sr_merger_free(&m);
    return st;
}
