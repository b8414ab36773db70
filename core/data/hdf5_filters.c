#include "core/data/hdf5_filters.h"

#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#include "core/base/mem.h"

enum { CHECK = 4 /* bytes of a checksum, at the end */ };

typedef struct bytes {
    uint8_t **at;
    size_t size;
    const char **problem;
} bytes;

static sr_status damaged(bytes *b, const char *what) {
    *b->problem = what;
    return sr_fail(SR_EDATA, "%s", what);
}

static void replace(bytes *b, uint8_t *by) {
    sr_free(*b->at);
    *b->at = by;
}

/* Inflates to exactly `wanted` bytes. */
static sr_status inflate_all(bytes *b, size_t wanted) {
    uint8_t *out;
    z_stream z = {.zalloc = sr_zlib_alloc, .zfree = sr_zlib_free, .next_in = *b->at};
    SR_TRY(sr_new(&out, wanted + 1));
    z.avail_in = (uInt)b->size;
    z.next_out = out;
    z.avail_out = (uInt)wanted;
    int rc = inflateInit(&z);
    if (rc == Z_OK) {
        rc = inflate(&z, Z_FINISH);
        inflateEnd(&z);
    }
    replace(b, out);
    b->size = wanted;
    if (rc == Z_MEM_ERROR) return sr_fail(SR_ENOMEM, "out of memory for decompression");
    if (rc != Z_STREAM_END || z.avail_out > 0) return damaged(b, "a chunk does not decompress");
    return SR_OK;
}

/* Bytes of equal rank stand together; they become numbers again. */
static sr_status unshuffle(bytes *b, size_t width) {
    uint8_t *out;
    const uint8_t *from = *b->at;
    size_t count = b->size / width;
    SR_TRY(sr_new(&out, b->size + 1));
    for (size_t k = 0; k < width; k++)
        for (size_t i = 0; i < count; i++) out[i * width + k] = from[k * count + i];
    memcpy(out + count * width, from + count * width, b->size - count * width);
    replace(b, out);
    return SR_OK;
}

/* Adds with the carry around the end. */
static uint32_t add_around(uint32_t a, uint32_t b) {
    uint32_t sum = a + b;
    return (sum & 0xFFFF) + (sum >> 16);
}

/* Fletcher's checksum over big-endian words of 16 bits; an odd byte is the high one of a word. */
static uint32_t checksum(const uint8_t *from, size_t size) {
    uint32_t sum = 0, of_sums = 0;
    for (size_t i = 0; i < size; i += 2) {
        uint32_t low = i + 1 < size ? from[i + 1] : 0;
        sum = add_around(sum, (uint32_t)from[i] << 8 | low);
        of_sums = add_around(of_sums, sum);
    }
    return of_sums << 16 | sum;
}

/* The checksum that early versions of the library wrote on little-endian machines. */
static uint32_t swapped(uint32_t x) {
    return (x & 0x00FF00FF) << 8 | (x >> 8 & 0x00FF00FF);
}

static sr_status check(bytes *b) {
    if (b->size < CHECK) return damaged(b, "a chunk has no checksum");
    b->size -= CHECK;
    const uint8_t *end = *b->at + b->size;
    uint32_t stored = 0, found = checksum(*b->at, b->size);
    for (int i = 0; i < CHECK; i++) stored |= (uint32_t)end[i] << 8 * i;
    if (stored == found || stored == swapped(found)) return SR_OK;
    return damaged(b, "a chunk does not match its checksum");
}

/* Bytes of the checksums that were added before filter `i`. */
static size_t checks_before(const sr_hdf5_filters *f, int i, uint32_t skipped) {
    size_t size = 0;
    for (int k = 0; k < i; k++)
        size += f->kind[k] == SR_HDF5_FLETCHER && (skipped >> k & 1) == 0 ? CHECK : 0;
    return size;
}

sr_status sr_hdf5_unfilter(uint8_t **at, size_t size, size_t wanted, const sr_hdf5_filters *f,
                           uint32_t skipped, const char **problem) {
    bytes b = {.at = at, .size = size, .problem = problem};
    for (int i = f->count - 1; i >= 0; i--) {
        if ((skipped >> i & 1) != 0) continue;
        if (f->kind[i] == SR_HDF5_DEFLATE)
            SR_TRY(inflate_all(&b, wanted + checks_before(f, i, skipped)));
        if (f->kind[i] == SR_HDF5_SHUFFLE) SR_TRY(unshuffle(&b, f->width));
        if (f->kind[i] == SR_HDF5_FLETCHER) SR_TRY(check(&b));
    }
    return b.size == wanted ? SR_OK : damaged(&b, "a chunk has another size than its shape");
}
