#include "core/data/compress.h"

#include <string.h>
#include <zlib.h>

#include "core/base/mem.h"

enum { LEVEL = 6, MEMORY = 8 };

static voidpf zlib_alloc(voidpf opaque, uInt count, uInt size) {
    (void)opaque;
    return sr_mem_malloc((size_t)count * size);
}

static void zlib_free(voidpf opaque, voidpf block) {
    (void)opaque;
    sr_free(block);
}

static sr_status start(z_stream **out, sr_measuring *s) {
    if (s->deflate == NULL) {
        z_stream *z;
        SR_TRY(sr_new(&z, 1));
        z->zalloc = zlib_alloc;
        z->zfree = zlib_free;
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

/* Appends the text of a segment at *at. */
static sr_status spell(sr_measuring *s, size_t *at, const sr_vocab *vocab, const int32_t *ids,
                       int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        size_t size;
        const char *token = sr_vocab_token(vocab, ids[i], &size);
        bool goes_on = size > 2 && token[0] == '#' && token[1] == '#';
        if (*at + size + 1 > s->room) {
            size_t room = (*at + size + 1) * 2;
            SR_TRY(sr_grow(&s->text, room));
            s->room = room;
        }
        if (goes_on)
            token += 2, size -= 2;
        else if (*at > 0)
            s->text[(*at)++] = ' ';
        memcpy(s->text + *at, token, size);
        *at += size;
    }
    return SR_OK;
}

sr_status sr_compress_ratio(double *out, sr_measuring *s, const sr_vocab *vocab,
                            const sr_segments *t) {
    size_t size = 0;
    z_stream *z;
    unsigned char to[4096];
    SR_TRY(spell(s, &size, vocab, t->a, t->a_count));
    SR_TRY(spell(s, &size, vocab, t->b, t->b_count));
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
    *out = (double)z->total_out / (double)size;
    return SR_OK;
}
