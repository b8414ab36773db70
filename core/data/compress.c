#include "core/data/compress.h"

#include <string.h>
#include <zlib.h>

#include "core/base/mem.h"

enum { LEVEL = 6, MEMORY = 8 };

static sr_status start(z_stream **out, sr_measuring *s) {
    if (s->deflate == NULL) {
        z_stream *z;
        SR_TRY(sr_new(&z, 1));
        z->zalloc = sr_zlib_alloc;
        z->zfree = sr_zlib_free;
        if (deflateInit2(z, LEVEL, Z_DEFLATED, -MAX_WBITS, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
            sr_free(z);
            return sr_fail(SR_ENOMEM, "out of memory for compression");
        }
        s->deflate = z;
    }
    *out = s->deflate;
    deflateReset(*out);
    return SR_OK;
}

void sr_compress_close(void *deflate) {
    if (deflate == NULL) return;
    deflateEnd(deflate);
    sr_free(deflate);
}

static sr_status make_room(sr_measuring *s, size_t need) {
    if (need <= s->room) return SR_OK;
    SR_TRY(sr_grow(&s->text, need * 2));
    s->room = need * 2;
    return SR_OK;
}

/* Appends the text of a segment at *at, as the tokenizer decodes it. */
static sr_status decode(sr_measuring *s, size_t *at, const sr_tokenizer *t, const int32_t *ids,
                        int32_t n) {
    char *text;
    size_t size;
    SR_TRY(sr_detokenize(&text, &size, t, ids, (size_t)n, true));
    sr_status st = make_room(s, *at + size);
    if (st == SR_OK && size > 0) memcpy(s->text + *at, text, size);
    *at += size;
    sr_free(text);
    return st;
}

/* Appends the tokens of a segment of BERT's WordPiece at *at. */
static sr_status spell(sr_measuring *s, size_t *at, const sr_vocab *vocab, const int32_t *ids,
                       int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        size_t size;
        const char *token = sr_vocab_token(vocab, ids[i], &size);
        bool goes_on = size > 2 && token[0] == '#' && token[1] == '#';
        SR_TRY(make_room(s, *at + size + 1));
        if (goes_on)
            token += 2, size -= 2;
        else if (*at > 0)
            s->text[(*at)++] = ' ';
        memcpy(s->text + *at, token, size);
        *at += size;
    }
    return SR_OK;
}

static sr_status add(sr_measuring *s, size_t *at, const sr_tokenizer *t, const int32_t *ids,
                     int32_t n) {
    const sr_vocab *v = sr_tokenizer_vocab(t);
    return v != NULL ? spell(s, at, v, ids, n) : decode(s, at, t, ids, n);
}

sr_status sr_compress_ratio(double *out, sr_measuring *s, const sr_tokenizer *tokenizer,
                            const sr_segments *t) {
    size_t size = 0;
    z_stream *z;
    unsigned char to[4096];
    SR_TRY(add(s, &size, tokenizer, t->a, t->a_count));
    SR_TRY(add(s, &size, tokenizer, t->b, t->b_count));
    SR_TRY(start(&z, s));
    z->next_in = (Bytef *)s->text;
    z->avail_in = (uInt)size; /* at most 65,535 tokens of 512 bytes */
    int state = Z_OK;
    while (state == Z_OK) {
        z->next_out = to;
        z->avail_out = sizeof to;
        state = deflate(z, Z_FINISH);
    }
    if (state != Z_STREAM_END) return sr_fail(SR_EINTERNAL, "deflate failed with %d", state);
    *out = size > 0 ? (double)z->total_out / (double)size : 1;
    return SR_OK;
}
