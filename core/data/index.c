#include "core/data/index.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"
#include "core/base/reader.h"
#include "core/data/index_format.h"

static const char *const names[SR_INDEX_TYPES] = {"unknown", "u8",  "i8",  "i16", "i32",
                                                  "i64",     "u16", "u32", "u64"};

const char *sr_index_type_name(sr_index_type type) {
    return names[type > 0 && type < SR_INDEX_TYPES ? type : 0];
}

sr_index_type sr_index_narrowest(int64_t least, int64_t most) {
    if (least >= 0) {
        if (most <= UINT8_MAX) return SR_INDEX_U8;
        if (most <= UINT16_MAX) return SR_INDEX_U16;
        return most <= UINT32_MAX ? SR_INDEX_U32 : SR_INDEX_U64;
    }
    if (least >= INT8_MIN && most <= INT8_MAX) return SR_INDEX_I8;
    if (least >= INT16_MIN && most <= INT16_MAX) return SR_INDEX_I16;
    return least >= INT32_MIN && most <= INT32_MAX ? SR_INDEX_I32 : SR_INDEX_I64;
}

/* ---- opening ---- */

static sr_status damaged(const char *path, const char *what) {
    return sr_fail(SR_EDATA, "%s: %s; the index is truncated, damaged or not one of DeepSpeed",
                   path, what);
}

static sr_status read_header(sr_index *x, size_t size) {
    unsigned char header[SR_INDEX_HEADER];
    if (size < sizeof header) return damaged(x->idx_path, "less than a header");
    SR_TRY(sr_file_pread(x->idx, header, sizeof header, 0, x->idx_path));
    if (memcmp(header, "TNTIDX", 6) == 0)
        return sr_fail(
            SR_EDATA,
            "%s: an index of fairseq's or Megatron's older format (TNTIDX), which is not "
            "read; write one of DeepSpeed's (MMIDIDX)",
            x->idx_path);
    if (memcmp(header, sr_index_magic, sizeof sr_index_magic) != 0)
        return damaged(x->idx_path, "no MMIDIDX at byte 0");
    uint64_t version = 0;
    uint8_t type = 0;
    sr_reader r;
    sr_reader_init(&r, header + sizeof sr_index_magic, sizeof header - sizeof sr_index_magic,
                   x->idx_path);
    SR_TRY(sr_read_u64(&r, &version));
    SR_TRY(sr_read_u8(&r, &type));
    SR_TRY(sr_read_u64(&r, &x->rows));
    SR_TRY(sr_read_u64(&r, &x->documents));
    if (version == __builtin_bswap64(1))
        return sr_fail(SR_EDATA,
                       "%s: a big-endian index; write it again on a little-endian machine",
                       x->idx_path);
    if (version != 1)
        return sr_fail(SR_EDATA, "%s: version %" PRIu64 " of the index is not 1", x->idx_path,
                       version);
    if (type < 1 || type >= SR_INDEX_TYPES)
        return damaged(x->idx_path, "an unknown type (not one of 1 to 8)");
    x->type = (sr_index_type)type;
    uint64_t rest = size - sizeof header;
    if (x->rows > rest / SR_INDEX_ROW || x->documents > rest / 8 ||
        x->rows * SR_INDEX_ROW + x->documents * 8 != rest)
        return damaged(x->idx_path, "numbers of rows and documents that do not fit its size");
    return SR_OK;
}

static sr_status open_files(sr_index *x, const char *idx_path, const char *bin_path) {
    size_t size = 0, bytes = 0;
    SR_TRY(sr_strdup(&x->idx_path, idx_path));
    SR_TRY(sr_strdup(&x->bin_path, bin_path));
    SR_TRY(sr_file_open(&x->idx, &size, idx_path, INT64_MAX));
    SR_TRY(read_header(x, size));
    SR_TRY(sr_file_open(&x->bin, &bytes, bin_path, INT64_MAX));
    x->bytes = bytes;
    return SR_OK;
}

sr_status sr_index_open_files(sr_index **out, const char *idx_path, const char *bin_path) {
    *out = NULL;
    sr_index *x;
    SR_TRY(sr_new(&x, 1));
    x->idx = x->bin = -1;
    sr_status st = open_files(x, idx_path, bin_path);
    if (st != SR_OK) {
        sr_index_close(x);
        return st;
    }
    *out = x;
    return SR_OK;
}

sr_status sr_index_path(char **out, const char *name, const char *ending) {
    size_t size = strlen(name) + strlen(ending) + 1;
    SR_TRY(sr_new(out, size));
    snprintf(*out, size, "%s%s", name, ending);
    return SR_OK;
}

sr_status sr_index_open(sr_index **out, const char *name) {
    char *idx = NULL, *bin = NULL;
    *out = NULL;
    sr_status st = sr_index_path(&idx, name, ".idx");
    if (st == SR_OK) st = sr_index_path(&bin, name, ".bin");
    if (st == SR_OK) st = sr_index_open_files(out, idx, bin);
    sr_free(idx);
    sr_free(bin);
    return st;
}

void sr_index_close(sr_index *x) {
    if (x == NULL) return;
    if (x->idx >= 0) sr_io_now.close(x->idx);
    if (x->bin >= 0) sr_io_now.close(x->bin);
    sr_free(x->idx_path);
    sr_free(x->bin_path);
    sr_free(x);
}

/* ---- rows ---- */

/* The span of a row: its first byte, and its number of values. */
static sr_status find_row(uint64_t *first, int64_t *count, const sr_index *x, uint64_t row) {
    int32_t size;
    int64_t at;
    if (row >= x->rows)
        return sr_fail(SR_EINVAL, "%s: row %" PRIu64 " is outside its %" PRIu64 " rows",
                       x->idx_path, row, x->rows);
    SR_TRY(sr_file_pread(x->idx, &size, sizeof size, SR_INDEX_HEADER + row * sizeof size,
                         x->idx_path));
    SR_TRY(sr_file_pread(x->idx, &at, sizeof at,
                         SR_INDEX_HEADER + x->rows * sizeof size + row * sizeof at, x->idx_path));
    if (size < 0 || at < 0 || (uint64_t)at > x->bytes ||
        (uint64_t)size > (x->bytes - (uint64_t)at) / sr_index_width(x->type))
        return sr_fail(SR_EDATA,
                       "%s: row %" PRIu64 " has %d values at byte %" PRId64 ", outside the %" PRIu64
                       " bytes of %s",
                       x->idx_path, row, size, at, x->bytes, x->bin_path);
    *first = (uint64_t)at;
    *count = size;
    return SR_OK;
}

sr_status sr_index_size(int64_t *count, const sr_index *x, uint64_t row) {
    uint64_t first;
    return find_row(&first, count, x, row);
}

/* Widens `count` values of a type. */
static sr_status widen(int64_t *out, const sr_index *x, const unsigned char *raw, int64_t count) {
    size_t width = sr_index_width(x->type);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, raw + (size_t)i * width, width); /* little-endian */
        switch (x->type) {
        case SR_INDEX_I8:
            out[i] = (int64_t)bits - (bits > INT8_MAX ? 256 : 0);
            break;
        case SR_INDEX_I16:
            out[i] = (int16_t)bits;
            break;
        case SR_INDEX_I32:
            out[i] = (int32_t)bits;
            break;
        case SR_INDEX_U64:
            if (bits > INT64_MAX)
                return sr_fail(SR_EDATA, "%s: the value %" PRIu64 " exceeds 2^63 - 1", x->bin_path,
                               bits);
            out[i] = (int64_t)bits;
            break;
        default:
            out[i] = (int64_t)bits;
        }
    }
    return SR_OK;
}

sr_status sr_index_read(int64_t *out, const sr_index *x, uint64_t row, int64_t first,
                        int64_t count) {
    uint64_t at;
    int64_t size;
    size_t width = sr_index_width(x->type);
    SR_TRY(find_row(&at, &size, x, row));
    if (first < 0 || count < 0 || first > size || count > size - first)
        return sr_fail(SR_EINVAL,
                       "%s: values %" PRId64 " + %" PRId64 " are outside row %" PRIu64
                       " of %" PRId64,
                       x->bin_path, first, count, row, size);
    at += (uint64_t)first * width;
    for (int64_t done = 0; done < count; done += SR_INDEX_SPAN) {
        unsigned char raw[SR_INDEX_SPAN * 8];
        int64_t n = count - done < SR_INDEX_SPAN ? count - done : SR_INDEX_SPAN;
        SR_TRY(sr_file_pread(x->bin, raw, (size_t)n * width, at + (uint64_t)done * width,
                             x->bin_path));
        SR_TRY(widen(out + done, x, raw, n));
    }
    return SR_OK;
}
