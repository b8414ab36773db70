#include "core/text/unpack.h"

#include <stdbool.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "core/base/mem.h"

struct sr_unpack {
    const char *path;
    z_stream gzip;
    ZSTD_DStream *zstd; /* NULL: the data is gzip's */
    bool between;       /* a member has ended; another one may follow */
    bool any;           /* a member has ended */
};

static bool is_gzip(const uint8_t *bytes, size_t size) {
    return size >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

/* A frame, or one that decoders skip: pzstd begins with it. */
static bool is_zstd(const uint8_t *bytes, size_t size) {
    if (size < 4) return false;
    if (memcmp(bytes, "\x28\xB5\x2F\xFD", 4) == 0) return true;
    return bytes[0] >> 4 == 5 && memcmp(bytes + 1, "\x2A\x4D\x18", 3) == 0;
}

static sr_status no_memory(const sr_unpack *u) {
    return sr_fail(SR_ENOMEM, "%s: out of memory for decompression", u->path);
}

static sr_status damaged(const sr_unpack *u, const char *how) {
    return sr_fail(SR_EDATA, "%s: the compressed data is damaged: %s", u->path, how);
}

static sr_status followed(const sr_unpack *u) {
    return sr_fail(SR_EDATA, "%s: unexpected data after the compressed data", u->path);
}

static sr_status start(sr_unpack *u, bool zstd) {
    if (!zstd) {
        u->gzip = (z_stream){.zalloc = sr_zlib_alloc, .zfree = sr_zlib_free};
        return inflateInit2(&u->gzip, 15 + 16) == Z_OK ? SR_OK : no_memory(u);
    }
    u->zstd = ZSTD_createDStream();
    if (u->zstd == NULL) return no_memory(u);
    size_t set = ZSTD_DCtx_setParameter(u->zstd, ZSTD_d_windowLogMax, SR_UNPACK_WINDOW);
    return ZSTD_isError(set) ? sr_fail(SR_EINTERNAL, "zstd: %s", ZSTD_getErrorName(set)) : SR_OK;
}

sr_status sr_unpack_open(sr_unpack **out, const uint8_t *bytes, size_t size, const char *path) {
    *out = NULL;
    bool zstd = is_zstd(bytes, size);
    if (!zstd && !is_gzip(bytes, size)) return SR_OK;
    sr_unpack *u;
    SR_TRY(sr_new(&u, 1));
    u->path = path;
    sr_status st = start(u, zstd);
    return SR_GIVE(out, u, st, sr_unpack_close);
}

void sr_unpack_close(sr_unpack *u) {
    if (u == NULL) return;
    if (u->zstd != NULL)
        ZSTD_freeDStream(u->zstd);
    else
        inflateEnd(&u->gzip);
    sr_free(u);
}

/* After a member: another one, zero padding, or the end. */
static sr_status next_member(sr_unpacked *out, sr_unpack *u, const uint8_t *from, size_t size) {
    while (out->used < size && from[out->used] == 0) out->used++;
    if (out->used == size) return SR_OK;
    if (from[out->used] != 0x1F) return followed(u);
    inflateReset(&u->gzip);
    u->between = false;
    return SR_OK;
}

static sr_status gunzip(sr_unpacked *out, sr_unpack *u, uint8_t *to, size_t room,
                        const uint8_t *from, size_t size) {
    z_stream *z = &u->gzip;
    if (u->between) SR_TRY(next_member(out, u, from, size));
    if (u->between) return SR_OK;
    z->next_in = (Bytef *)(from + out->used);
    z->avail_in = (uInt)(size - out->used);
    z->next_out = to;
    z->avail_out = (uInt)room;
    int rc = inflate(z, Z_NO_FLUSH);
    out->used = size - z->avail_in;
    out->got = room - z->avail_out;
    if (rc == Z_MEM_ERROR) return no_memory(u);
    if (rc == Z_STREAM_END) u->between = u->any = true;
    if (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR) return SR_OK;
    return damaged(u, z->msg != NULL ? z->msg : "gzip");
}

static sr_status zstd_failed(const sr_unpack *u, size_t code) {
    switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_memory_allocation:
        return no_memory(u);
    case ZSTD_error_frameParameter_windowTooLarge:
        return sr_fail(SR_EDATA,
                       "%s: compressed with a window of more than %d MiB (zstd --ultra --long); "
                       "compress it again without that option: zstd -dc --long=31 FILE | zstd -9",
                       u->path, 1 << (SR_UNPACK_WINDOW - 20));
    case ZSTD_error_dictionary_wrong:
        return sr_fail(SR_EDATA,
                       "%s: compressed with a dictionary, which is not in it; decompress it with "
                       "zstd -d -D DICTIONARY",
                       u->path);
    case ZSTD_error_prefix_unknown:
        return u->any ? followed(u) : damaged(u, "no frame of zstd");
    default:
        return damaged(u, ZSTD_getErrorName(code));
    }
}

static sr_status unzstd(sr_unpacked *out, sr_unpack *u, uint8_t *to, size_t room,
                        const uint8_t *from, size_t size) {
    if (size == 0 && u->between) return SR_OK; /* asking would begin another frame */
    ZSTD_inBuffer in = {.src = from, .size = size};
    ZSTD_outBuffer text = {.dst = to, .size = room};
    size_t left = ZSTD_decompressStream(u->zstd, &text, &in);
    if (ZSTD_isError(left)) return zstd_failed(u, left);
    out->used = in.pos;
    out->got = text.pos;
    u->between = left == 0;
    u->any |= u->between;
    return SR_OK;
}

sr_status sr_unpack_some(sr_unpacked *out, sr_unpack *u, uint8_t *to, size_t room,
                         const uint8_t *from, size_t size) {
    *out = (sr_unpacked){0};
    if (u->zstd != NULL) return unzstd(out, u, to, room, from, size);
    return gunzip(out, u, to, room, from, size);
}

sr_status sr_unpack_end(const sr_unpack *u) {
    if (u->between) return SR_OK;
    return sr_fail(SR_EDATA, "%s: truncated: the compressed data ends early", u->path);
}
