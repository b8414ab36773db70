#include "core/data/carried.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

/* ---- writing ---- */

bool sr_carried_starts(const sr_tokenizer *t) {
    return sr_tokenizer_vocab(t) == NULL;
}

static sr_status write_bytes(sr_shard_writer *w, const char *name, const char *bytes, size_t size) {
    int column;
    SR_TRY(sr_shard_add_column(w, &column, name, SR_COLUMN_BYTES));
    return sr_shard_append(w, column, bytes, size);
}

static sr_status set_hash(sr_shard_writer *w, const char *key, uint64_t hash) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return sr_shard_set_meta(w, key, text);
}

static sr_status write_vocab(sr_shard_writer *w, const sr_vocab *v, const sr_tokenizer_opts *opts) {
    size_t size;
    const char *text = sr_vocab_text(v, &size);
    SR_TRY(write_bytes(w, "vocab", text, size));
    if (opts->keep_accents && opts->lowercase) SR_TRY(sr_shard_set_meta(w, "keep_accents", "true"));
    return set_hash(w, "vocab_fingerprint", sr_vocab_fingerprint(v));
}

static sr_status write_json(sr_shard_writer *w, const sr_tokenizer *t) {
    size_t size;
    bool json;
    const char *text = sr_tokenizer_text(t, &size, &json);
    SR_TRY(write_bytes(w, "tokenizer", text, size));
    SR_TRY(sr_shard_set_meta(w, "tokenizer_config", sr_tokenizer_config(t, &size)));
    return set_hash(w, "tokenizer_fingerprint", sr_tokenizer_fingerprint(t));
}

sr_status sr_carried_write(sr_shard_writer *w, const sr_tokenizer *t) {
    bool plain;
    sr_tokenizer_opts opts;
    char number[32];
    SR_TRY(sr_tokenizer_plain(&plain, &opts, t));
    SR_TRY(sr_shard_set_meta(w, "lowercase", sr_tokenizer_lowercase(t) ? "true" : "false"));
    snprintf(number, sizeof number, "%d", sr_tokenizer_size(t));
    SR_TRY(sr_shard_set_meta(w, "vocab_size", number));
    return plain ? write_vocab(w, sr_tokenizer_vocab(t), &opts) : write_json(w, t);
}

/* ---- reading ---- */

static bool is_true(const sr_shard *s, const char *key) {
    const char *value = sr_shard_meta(s, key);
    return value != NULL && strcmp(value, "true") == 0;
}

static sr_status parse(sr_tokenizer **out, sr_shard *s, const sr_column *c, void *bytes) {
    sr_tokenizer_opts opts = {.lowercase = is_true(s, "lowercase"),
                              .keep_accents = is_true(s, "keep_accents"),
                              .config = sr_shard_meta(s, "tokenizer_config")};
    if (opts.config != NULL) opts.config_size = strlen(opts.config);
    SR_TRY(sr_shard_read(s, c, bytes, 0, c->own)); /* of the first file: all have the same */
    return sr_tokenizer_parse(out, bytes, c->own, sr_shard_path(s), &opts);
}

sr_status sr_carried_read(sr_tokenizer **out, sr_shard *s) {
    const sr_column *c = sr_shard_column(s, "tokenizer");
    *out = NULL;
    if (c == NULL) c = sr_shard_column(s, "vocab");
    if (c == NULL || c->type != SR_COLUMN_BYTES || c->count == 0 ||
        c->own > SR_TOKENIZER_FILE_LIMIT)
        return sr_fail(SR_EDATA, "%s: it carries no tokenizer; prepare the data set again",
                       sr_shard_path(s));
    char *bytes;
    SR_TRY(sr_new(&bytes, c->own));
    sr_status st = parse(out, s, c, bytes);
    sr_free(bytes);
    return st;
}
