/* decode.c - ids to text. */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tokenizer/parts.h"

/* Bytes that grow. */
typedef struct out {
    char *text;
    size_t size, room;
} out;

static sr_status add(out *o, const char *bytes, size_t size) {
    size_t need;
    SR_TRY(sr_add_size(&need, o->size, size));
    SR_TRY(sr_add_size(&need, need, 1));
    if (need > o->room) {
        SR_TRY(sr_grow(&o->text, 2 * need));
        o->room = 2 * need;
    }
    memcpy(o->text + o->size, bytes, size);
    o->size += size;
    o->text[o->size] = '\0';
    return SR_OK;
}

/* A token of WordPiece in running text: no space before ## and before . , ! ? */
static sr_status add_piece(out *o, const char *token, size_t size) {
    bool first = o->size == 0, continues = size > 2 && memcmp(token, "##", 2) == 0;
    bool mark = size == 1 && strchr(".,!?", token[0]) != NULL;
    if (!first && !continues && !mark) SR_TRY(add(o, " ", 1));
    if (!first && continues) token += 2, size -= 2;
    return add(o, token, size);
}

/* What decoding sees of a token: an added one that is found in normalized text is that text. */
static const char *shown_token(const sr_tokenizer *t, int32_t id, size_t *size) {
    const char *token = sr_tokenizer_token(t, id, size);
    int32_t added = token != NULL ? t->added.by_id[id] : 0;
    if (added == 0) return token;
    *size = t->added.tokens[added - 1].shown_size;
    return t->added.tokens[added - 1].shown;
}

/* By the decoder of the file. */
static sr_status run_decoder(char **text, size_t *size, const sr_tokenizer *t, const int32_t *ids,
                             size_t count, bool specials) {
    sr_decoded tokens = {0};
    sr_status st = SR_OK;
    for (size_t i = 0; st == SR_OK && i < count; i++) {
        size_t length;
        const char *token = shown_token(t, ids[i], &length);
        if (token == NULL || (!specials && sr_tokenizer_is_special(t, ids[i]))) continue;
        st = sr_decoded_add(&tokens, token, length);
    }
    if (tokens.count == 0 && st == SR_OK) {
        st = sr_decoded_add(&tokens, "", 0); /* an empty text, of no tokens */
        tokens.count = 0;
    }
    if (st == SR_OK) st = sr_decoder_run(&t->decoder, &tokens);
    if (st == SR_OK) {
        *text = tokens.text;
        *size = tokens.size;
        tokens.text = NULL;
    }
    sr_decoded_free(&tokens);
    return st;
}

sr_status sr_detokenize(char **text, size_t *size, const sr_tokenizer *t, const int32_t *ids,
                        size_t count, bool specials) {
    *text = NULL;
    *size = 0;
    if (t->fast == NULL) return run_decoder(text, size, t, ids, count, specials);
    out o = {0};
    sr_status st = add(&o, "", 0);
    for (size_t i = 0; st == SR_OK && i < count; i++) {
        size_t length;
        const char *token = sr_tokenizer_token(t, ids[i], &length);
        if (token == NULL || (!specials && sr_tokenizer_is_special(t, ids[i]))) continue;
        st = add_piece(&o, token, length);
    }
    if (st != SR_OK) sr_free(o.text), o = (out){0};
    *text = o.text;
    *size = o.size;
    return st;
}
