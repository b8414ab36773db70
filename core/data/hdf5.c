#include "core/data/hdf5.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/hdf5_file.h"
#include "core/data/hdf5_filters.h"

/* Numbers of a row of chunks that are held in memory, at most: 32 MiB, and as much for a chunk. */
static const uint64_t BAND = 4 << 20;

typedef enum layout { COMPACT, CONTIGUOUS, CHUNKED, NO_LAYOUT } layout;

typedef struct chunk {
    uint64_t row, column, at;
    uint32_t size, skipped; /* bytes as stored; bits of filters that were not applied */
} chunk;

struct sr_hdf5_set {
    const sr_hdf5 *h;
    const char *name;
    int rank;
    uint64_t dim[2];
    int width;
    bool typed, is_signed, big; /* big: big-endian */
    layout layout;
    uint64_t at, size; /* contiguous, or the tree of chunks */
    uint8_t *compact;
    uint64_t side[2]; /* of a chunk; of what is read at once */
    int sides;
    sr_hdf5_filters filters;
    chunk *chunk; /* by row, then column */
    uint64_t chunks, chunk_room, nodes;
    int64_t *band; /* rows [first, first + side[0]) */
    uint64_t first;
    bool filled;
    uint8_t *stored, *plain; /* a chunk as it is stored, and unpacked */
    uint8_t fill_bytes[8];   /* of the number where nothing was written */
    uint32_t fill_size;      /* 0: zeros */
    int64_t fill;
};

static sr_status damaged(const sr_hdf5_set *s, const char *what) {
    return sr_fail(SR_EDATA, "%s: dataset '%s' is damaged: %s", s->h->path, s->name, what);
}

static sr_status refuse(const sr_hdf5_set *s, const char *what) {
    return sr_fail(
        SR_EDATA,
        "%s: dataset '%s' %s, which is not read; rewrite it with h5repack, or with h5py's "
        "defaults",
        s->h->path, s->name, what);
}

/* ---- what it is ---- */

static sr_status take_space(sr_hdf5_set *s, sr_reader *body) {
    uint8_t version, rank, flags, unused;
    const void *pad;
    SR_TRY(sr_read_u8(body, &version));
    SR_TRY(sr_read_u8(body, &rank));
    SR_TRY(sr_read_u8(body, &flags));
    SR_TRY(sr_read_u8(body, &unused));
    if (version == 1) SR_TRY(sr_read_claim(body, &pad, 4, 1));
    if (version < 1 || version > 2) return refuse(s, "has a shape of a later version");
    if (rank < 1 || rank > 2) return refuse(s, "does not have one or two dimensions");
    s->rank = rank;
    s->dim[1] = 1;
    for (int i = 0; i < rank; i++) SR_TRY(sr_read_u64(body, &s->dim[i]));
    if (s->dim[1] == 0 || s->dim[1] > BAND) return refuse(s, "has rows of an impossible length");
    return s->dim[0] <= UINT64_MAX / s->dim[1] / 8 ? SR_OK : damaged(s, "it is too large");
}

static sr_status take_type(sr_hdf5_set *s, sr_reader *body) {
    uint8_t class, bits[3];
    uint32_t width;
    uint16_t offset, precision;
    SR_TRY(sr_read_u8(body, &class));
    for (int i = 0; i < 3; i++) SR_TRY(sr_read_u8(body, &bits[i]));
    SR_TRY(sr_read_u32(body, &width));
    if ((class & 15) == 9) return refuse(s, "has rows of different lengths (variable-length)");
    if ((class & 15) != 0) return refuse(s, "is not of integers");
    SR_TRY(sr_read_u16(body, &offset));
    SR_TRY(sr_read_u16(body, &precision));
    bool known = width == 1 || width == 2 || width == 4 || width == 8;
    if (!known || offset != 0 || precision != width * 8)
        return refuse(s, "is of integers that do not have 8, 16, 32 or 64 bits");
    s->width = (int)width;
    s->big = (bits[0] & 1) != 0;
    s->is_signed = (bits[0] & 8) != 0;
    s->typed = true;
    return SR_OK;
}

static sr_status take_chunks(sr_hdf5_set *s, sr_reader *body) {
    uint8_t dims;
    SR_TRY(sr_read_u8(body, &dims));
    SR_TRY(sr_read_u64(body, &s->at));
    if (dims < 2 || dims > 3) return refuse(s, "does not have one or two dimensions");
    s->side[1] = 1;
    for (int i = 0; i < dims - 1; i++) {
        uint32_t side;
        SR_TRY(sr_read_u32(body, &side));
        if (side == 0) return damaged(s, "a chunk has no numbers");
        s->side[i] = side;
    }
    s->sides = dims - 1;
    s->layout = CHUNKED;
    return SR_OK;
}

static sr_status take_layout(sr_hdf5_set *s, sr_reader *body) {
    uint8_t version, class;
    SR_TRY(sr_read_u8(body, &version));
    SR_TRY(sr_read_u8(body, &class));
    if (version != 3) return refuse(s, "has a layout of another version than 3 (libver)");
    if (class == CHUNKED) return take_chunks(s, body);
    if (class == CONTIGUOUS) {
        SR_TRY(sr_read_u64(body, &s->at));
        SR_TRY(sr_read_u64(body, &s->size));
        s->layout = CONTIGUOUS;
        return SR_OK;
    }
    uint16_t size;
    const void *bytes;
    if (class != COMPACT || s->compact != NULL) return refuse(s, "has an unknown layout");
    SR_TRY(sr_read_u16(body, &size));
    SR_TRY(sr_read_claim(body, &bytes, size, 1));
    SR_TRY(sr_new(&s->compact, size + 1));
    memcpy(s->compact, bytes, size);
    s->size = size;
    s->layout = COMPACT;
    return SR_OK;
}

static sr_status take_filter(sr_hdf5_set *s, sr_reader *body, int version) {
    uint16_t id, name = 0, flags, values;
    const void *unused;
    SR_TRY(sr_read_u16(body, &id));
    if (version == 1 || id >= 256) SR_TRY(sr_read_u16(body, &name));
    SR_TRY(sr_read_u16(body, &flags));
    SR_TRY(sr_read_u16(body, &values));
    SR_TRY(sr_read_claim(body, &unused, version == 1 ? (name + 7u) / 8 * 8 : name, 1));
    SR_TRY(sr_read_claim(body, &unused, values, 4));
    if (version == 1 && values % 2 == 1) SR_TRY(sr_read_claim(body, &unused, 4, 1));
    if (id < SR_HDF5_DEFLATE || id > SR_HDF5_FLETCHER)
        return refuse(s, "is compressed by something else than gzip");
    s->filters.kind[s->filters.count++] = id;
    return SR_OK;
}

static sr_status take_filters(sr_hdf5_set *s, sr_reader *body) {
    uint8_t version, count;
    const void *unused;
    SR_TRY(sr_read_u8(body, &version));
    SR_TRY(sr_read_u8(body, &count));
    if (version < 1 || version > 2 || count > SR_HDF5_CHAIN || s->filters.count > 0)
        return refuse(s, "has filters of an unknown form");
    if (version == 1) SR_TRY(sr_read_claim(body, &unused, 6, 1));
    for (int i = 0; i < count; i++) SR_TRY(take_filter(s, body, version));
    return SR_OK;
}

static sr_status take_fill(sr_hdf5_set *s, sr_reader *body) {
    uint8_t version, flags, defined = 1;
    const void *times, *bytes;
    SR_TRY(sr_read_u8(body, &version));
    if (version < 1 || version > 3) return refuse(s, "has a fill value of a later version");
    if (version == 3) {
        SR_TRY(sr_read_u8(body, &flags));
        defined = flags >> 5 & 1;
    } else {
        SR_TRY(sr_read_claim(body, &times, 2, 1)); /* of allocating, of filling */
        SR_TRY(sr_read_u8(body, &defined));
        if (version == 1) defined = 1;
    }
    s->fill_size = 0;
    if (defined == 0) return SR_OK;
    SR_TRY(sr_read_u32(body, &s->fill_size));
    if (s->fill_size == UINT32_MAX) s->fill_size = 0; /* version 1 says so that there is none */
    if (s->fill_size > sizeof s->fill_bytes) return damaged(s, "its fill value is no integer");
    SR_TRY(sr_read_claim(body, &bytes, s->fill_size, 1));
    memcpy(s->fill_bytes, bytes, s->fill_size);
    return SR_OK;
}

static sr_status take(void *context, int type, sr_reader *body) {
    sr_hdf5_set *s = context;
    switch (type) {
    case SR_HDF5_SPACE:
        return take_space(s, body);
    case SR_HDF5_TYPE:
        return take_type(s, body);
    case SR_HDF5_LAYOUT:
        return take_layout(s, body);
    case SR_HDF5_FILTERS:
        return take_filters(s, body);
    case SR_HDF5_FILL:
        return take_fill(s, body);
    default:
        return SR_OK;
    }
}

/* ---- the tree of chunks ---- */

static sr_status add_chunk(sr_hdf5_set *s, const chunk *c) {
    uint64_t across = (s->dim[1] + s->side[1] - 1) / s->side[1];
    uint64_t most = (s->dim[0] + s->side[0] - 1) / s->side[0] * across;
    if (c->row >= s->dim[0] || c->column >= s->dim[1] || c->row % s->side[0] != 0 ||
        c->column % s->side[1] != 0 || s->chunks == most)
        return damaged(s, "a chunk is outside of it");
    if (s->chunks > s->h->size / sizeof *c) return damaged(s, "it has more chunks than the file");
    if (s->chunks == s->chunk_room) {
        uint64_t room = s->chunk_room * 2 + 64;
        SR_TRY(sr_grow(&s->chunk, room));
        s->chunk_room = room;
    }
    s->chunk[s->chunks++] = *c;
    return SR_OK;
}

static sr_status read_key(sr_hdf5_set *s, sr_reader *r, chunk *c) {
    uint64_t offset;
    *c = (chunk){0};
    SR_TRY(sr_read_u32(r, &c->size));
    SR_TRY(sr_read_u32(r, &c->skipped));
    SR_TRY(sr_read_u64(r, &c->row));
    if (s->rank == 2) SR_TRY(sr_read_u64(r, &c->column));
    SR_TRY(sr_read_u64(r, &offset)); /* inside a number */
    return sr_read_u64(r, &c->at);
}

static sr_status read_tree(sr_hdf5_set *s, uint64_t at, int depth) {
    sr_reader r;
    uint8_t *block = NULL, type, level = 0;
    uint16_t entries = 0;
    const void *unused;
    uint64_t each = 8 + 8 * (uint64_t)(s->rank + 1) + 8;
    if (depth > SR_HDF5_DEPTH || s->nodes++ > s->chunks + 1024)
        return damaged(s, "the tree of its chunks is too deep");
    sr_status st = sr_hdf5_node(&r, &block, s->h, at, 24, "TREE");
    if (st == SR_OK) st = sr_read_u8(&r, &type);
    if (st == SR_OK) st = sr_read_u8(&r, &level);
    if (st == SR_OK) st = sr_read_u16(&r, &entries);
    if (st == SR_OK && type != 1) st = damaged(s, "its chunks are in a tree of another kind");
    if (st == SR_OK) st = sr_hdf5_node(&r, &block, s->h, at, 24 + each * entries, "TREE");
    if (st == SR_OK) st = sr_read_claim(&r, &unused, 20, 1);
    for (uint16_t i = 0; st == SR_OK && i < entries; i++) {
        chunk c;
        st = read_key(s, &r, &c);
        if (st == SR_OK) st = level > 0 ? read_tree(s, c.at, depth + 1) : add_chunk(s, &c);
    }
    sr_free(block);
    return st;
}

static int by_place(const void *a, const void *b) {
    const chunk *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return (x->column > y->column) - (x->column < y->column);
}

/* ---- opening ---- */

static int64_t number_of(const sr_hdf5_set *s, const uint8_t *bytes) {
    uint64_t x = 0;
    for (int i = 0; i < s->width; i++) x |= (uint64_t)bytes[s->big ? s->width - 1 - i : i] << 8 * i;
    int unused = 64 - 8 * s->width;
    return s->is_signed ? (int64_t)(x << unused) >> unused : (int64_t)x;
}

/* What is not in chunks is read like a row of chunks, a few rows at a time. */
static sr_status begin_plain(sr_hdf5_set *s) {
    s->side[1] = s->dim[1];
    s->side[0] = 65536 / s->dim[1] + 1;
    if (s->side[0] > s->dim[0]) s->side[0] = s->dim[0] > 0 ? s->dim[0] : 1;
    if (s->filters.count > 0) return damaged(s, "it has filters, but no chunks");
    bool written = s->layout == COMPACT || s->at != SR_HDF5_NOWHERE;
    if (written && s->dim[0] * s->dim[1] * (uint64_t)s->width > s->size)
        return damaged(s, "it is shorter than its shape");
    return SR_OK;
}

static sr_status begin(sr_hdf5_set *s) {
    if (s->rank == 0 || !s->typed || s->layout == NO_LAYOUT)
        return refuse(s, "has no shape, type or layout: it is no dataset");
    if (s->layout == CHUNKED && s->sides != s->rank)
        return damaged(s, "its chunks have other dimensions than it");
    if (s->fill_size > 0 && s->fill_size != (uint32_t)s->width)
        return damaged(s, "its fill value has another size than its numbers");
    s->fill = number_of(s, s->fill_bytes);
    s->filters.width = (size_t)s->width;
    if (s->layout != CHUNKED) SR_TRY(begin_plain(s));
    uint64_t width = (uint64_t)s->width;
    if (s->side[0] > BAND / s->dim[1] || s->side[1] > BAND / s->side[0])
        return refuse(s, "has rows of chunks of more than 4 million numbers");
    if (s->layout == CHUNKED && s->at != SR_HDF5_NOWHERE && s->dim[0] > 0)
        SR_TRY(read_tree(s, s->at, 0));
    if (s->chunks > 0) qsort(s->chunk, s->chunks, sizeof *s->chunk, by_place);
    for (uint64_t i = 1; i < s->chunks; i++)
        if (by_place(&s->chunk[i - 1], &s->chunk[i]) == 0)
            return damaged(s, "a chunk is there twice");
    SR_TRY(sr_new(&s->band, s->side[0] * s->dim[1]));
    return sr_new(&s->plain, s->side[0] * s->side[1] * width);
}

sr_status sr_hdf5_set_open(sr_hdf5_set **out, sr_hdf5 *h, const char *name) {
    *out = NULL;
    int i = 0;
    while (i < h->links && strcmp(h->link[i].name, name) != 0) i++;
    if (i == h->links) return SR_OK;
    sr_hdf5_set *s;
    SR_TRY(sr_new(&s, 1));
    s->h = h;
    s->name = h->link[i].name;
    s->layout = NO_LAYOUT;
    sr_status st = sr_hdf5_messages(h, h->link[i].at, take, s);
    if (st == SR_OK) st = begin(s);
    if (st != SR_OK) {
        sr_hdf5_set_close(s);
        return st;
    }
    *out = s;
    return SR_OK;
}

void sr_hdf5_set_close(sr_hdf5_set *s) {
    if (s == NULL) return;
    sr_free(s->compact);
    sr_free(s->chunk);
    sr_free(s->band);
    sr_free(s->stored);
    sr_free(s->plain);
    sr_free(s);
}

uint64_t sr_hdf5_rows(const sr_hdf5_set *s) {
    return s->dim[0];
}

uint64_t sr_hdf5_columns(const sr_hdf5_set *s) {
    return s->dim[1];
}

/* ---- chunks to numbers ---- */

static sr_status unpack(sr_hdf5_set *s, const chunk *c, size_t wanted) {
    const char *problem = NULL;
    if (c->size > SR_HDF5_CHUNK) return damaged(s, "a chunk is too large");
    SR_TRY(sr_hdf5_block(&s->stored, s->h, c->at, c->size));
    sr_status st = sr_hdf5_unfilter(&s->stored, c->size, wanted, &s->filters, c->skipped, &problem);
    if (problem != NULL) return damaged(s, problem);
    if (st == SR_OK) memcpy(s->plain, s->stored, wanted);
    return st;
}

/* The rows of the band that the dataset has. */
static uint64_t band_rows(const sr_hdf5_set *s) {
    return s->dim[0] - s->first < s->side[0] ? s->dim[0] - s->first : s->side[0];
}

/* Copies what s->plain has of a chunk into the band. */
static void place(sr_hdf5_set *s, uint64_t column) {
    uint64_t columns = s->dim[1] - column < s->side[1] ? s->dim[1] - column : s->side[1];
    for (uint64_t i = 0, rows = band_rows(s); i < rows; i++) {
        const uint8_t *from = s->plain + i * s->side[1] * (uint64_t)s->width;
        int64_t *to = s->band + i * s->dim[1] + column;
        for (uint64_t k = 0; k < columns; k++) to[k] = number_of(s, from + k * (uint64_t)s->width);
    }
}

/* The first chunk of the band. */
static uint64_t find_chunk(const sr_hdf5_set *s) {
    uint64_t low = 0, high = s->chunks;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (s->chunk[middle].row < s->first)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What was never written is the fill value. */
static void fill_nothing(sr_hdf5_set *s) {
    uint64_t numbers = band_rows(s) * s->dim[1];
    for (uint64_t i = 0; i < numbers; i++) s->band[i] = s->fill;
}

static sr_status fill_chunks(sr_hdf5_set *s) {
    size_t wanted = (size_t)(s->side[0] * s->side[1]) * (size_t)s->width;
    fill_nothing(s);
    for (uint64_t i = find_chunk(s); i < s->chunks && s->chunk[i].row == s->first; i++) {
        SR_TRY(unpack(s, &s->chunk[i], wanted));
        place(s, s->chunk[i].column);
    }
    return SR_OK;
}

static sr_status fill_plain(sr_hdf5_set *s) {
    uint64_t rows = band_rows(s);
    uint64_t each = s->dim[1] * (uint64_t)s->width;
    if (s->layout == CONTIGUOUS && s->at == SR_HDF5_NOWHERE) {
        fill_nothing(s);
        return SR_OK;
    }
    if (s->layout == COMPACT) {
        memcpy(s->plain, s->compact + s->first * each, rows * each);
    } else {
        SR_TRY(sr_hdf5_block(&s->stored, s->h, s->at + s->first * each, rows * each));
        memcpy(s->plain, s->stored, rows * each);
    }
    place(s, 0);
    return SR_OK;
}

sr_status sr_hdf5_row(const int64_t **out, sr_hdf5_set *s, uint64_t row) {
    if (row >= s->dim[0]) return damaged(s, "it has fewer rows than others");
    if (!s->filled || row < s->first || row - s->first >= s->side[0]) {
        s->filled = false;
        s->first = row / s->side[0] * s->side[0];
        SR_TRY(s->layout == CHUNKED ? fill_chunks(s) : fill_plain(s));
        s->filled = true;
    }
    *out = s->band + (row - s->first) * s->dim[1];
    return SR_OK;
}
