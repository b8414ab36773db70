/* load.c - tokenizers from text, from a vocabulary. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tokenizer/roles.h"
#include "core/tokenizer/tokenizer_json.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- what follows from vocabulary and roles ---- */

/* Sorts the special ids, with those of roles, each once. */
static sr_status collect_specials(sr_tokenizer *t) {
    SR_TRY(sr_grow(&t->specials, t->special_count + SR_TOKEN_SPECIALS));
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++)
        if (t->roles[i] >= 0) t->specials[t->special_count++] = t->roles[i];
    qsort(t->specials, t->special_count, sizeof *t->specials, sr_id_order);
    size_t kept = 0;
    for (size_t i = 0; i < t->special_count; i++)
        if (kept == 0 || t->specials[kept - 1] != t->specials[i])
            t->specials[kept++] = t->specials[i];
    t->special_count = kept;
    return SR_OK;
}

/* Specials, fingerprint and config, once all other parts are there. */
static sr_status finish(sr_tokenizer *t) {
    sr_roles_guess(t);
    SR_TRY(collect_specials(t));
    SR_TRY(sr_roles_write(&t->config, &t->config_size, t));
    uint64_t parts[] = {t->fingerprint, XXH3_64bits(t->roles, sizeof t->roles),
                        XXH3_64bits(t->specials, t->special_count * sizeof *t->specials),
                        XXH3_64bits(t->post.frames, sizeof t->post.frames)};
    t->fingerprint = XXH3_64bits(parts, sizeof parts);
    return SR_OK;
}

/* ---- WordPiece as BERT has it ---- */

/* [CLS] A [SEP] and [CLS] A [SEP] B [SEP] */
static void bert_frames(sr_tokenizer *t) {
    for (int pair = 0; pair < 2; pair++) {
        sr_frame *f = &t->post.frames[pair];
        sr_frame_add(&f->lead, t->roles[SR_TOKEN_CLS], 0);
        if (pair == 1) sr_frame_add(&f->middle, t->roles[SR_TOKEN_SEP], 0);
        sr_frame_add(&f->tail, t->roles[SR_TOKEN_SEP], pair);
        f->types[1] = (uint8_t)pair;
    }
}

static sr_status fill_wordpiece(sr_tokenizer *t, sr_vocab *vocab, const sr_tokenizer_opts *opts) {
    SR_TRY(sr_tokenizer_use_fast(t, vocab, opts));
    for (int i = 0; i < SR_TOKEN_SPECIALS; i++)
        t->roles[i] = sr_vocab_special(vocab, (sr_special)i);
    bert_frames(t);
    return finish(t);
}

sr_status sr_tokenizer_new(sr_tokenizer **out, sr_vocab *vocab, const sr_tokenizer_opts *opts) {
    *out = NULL;
    sr_tokenizer *t = NULL;
    SR_TRY(sr_tokenizer_blank(&t));
    sr_status st = fill_wordpiece(t, vocab, opts);
    return SR_GIVE(out, t, st, sr_tokenizer_release);
}

/* ---- from text ---- */

static bool is_json(const uint8_t *bytes, size_t size) {
    size_t at = size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (at < size &&
           (bytes[at] == ' ' || bytes[at] == '\n' || bytes[at] == '\r' || bytes[at] == '\t'))
        at++;
    return at < size && bytes[at] == '{';
}

static sr_status parse_json(sr_tokenizer **out, const void *bytes, size_t size, const char *name,
                            const sr_tokenizer_opts *opts) {
    sr_tokenizer *t = NULL;
    sr_status st;
    SR_TRY(sr_tokenizer_blank(&t));
    SR_GO(fail, st, sr_new(&t->text, size + 1));
    memcpy(t->text, bytes, size);
    t->text_size = size;
    t->json = true;
    SR_GO(fail, st, sr_tokenizer_read_json(t, bytes, size, name, opts));
    if (opts->config != NULL)
        SR_GO(fail, st, sr_roles_read(t, opts->config, opts->config_size, name));
    SR_GO(fail, st, finish(t));
    *out = t;
    return SR_OK;
fail:
    sr_tokenizer_release(t);
    return st;
}

sr_status sr_tokenizer_parse(sr_tokenizer **out, const void *bytes, size_t size, const char *name,
                             const sr_tokenizer_opts *opts) {
    *out = NULL;
    if (is_json(bytes, size)) return parse_json(out, bytes, size, name, opts);
    sr_vocab *vocab = NULL;
    SR_TRY(sr_vocab_parse(&vocab, bytes, size, name));
    sr_status st = sr_tokenizer_new(out, vocab, opts);
    sr_vocab_release(vocab);
    return st;
}

sr_status sr_tokenizer_plain(bool *plain, sr_tokenizer_opts *opts, const sr_tokenizer *t) {
    *plain = false;
    if (t->fast == NULL) return SR_OK;
    const sr_words_opts *words = &t->fast->words;
    *opts = (sr_tokenizer_opts){.lowercase = words->lowercase,
                                .keep_accents = words->lowercase && !words->strip_accents};
    sr_tokenizer *same; /* but for the roles, special tokens and frames of a tokenizer.json */
    SR_TRY(sr_tokenizer_new(&same, t->fast->vocab, opts));
    *plain = same->fingerprint == t->fingerprint;
    sr_tokenizer_release(same);
    return SR_OK;
}
