#include "core/store/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/store/append.h"

struct sr_events {
    sr_append *file;
    unsigned char *record; /* the record under construction */
    size_t size, room;
    sr_status failure; /* of building it */
};

/* ---- checksum -------------------------------------------------------------------------------- */

uint32_t sr_crc32c(const void *bytes, size_t size) {
    static const uint32_t nibble[16] = {
        0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3,
        0x61C69362, 0x7198540D, 0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
        0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
    };
    const unsigned char *p = bytes;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return ~crc;
}

static uint32_t masked(const void *bytes, size_t size) {
    uint32_t crc = sr_crc32c(bytes, size);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

/* ---- protobuf --------------------------------------------------------------------------------
 *
 * Fields are appended to the record.  A message inside a message is written first, and its tag and
 * length are then put in front of it.
 */

static void put(sr_events *e, const void *bytes, size_t size) {
    if (e->failure != SR_OK) return;
    if (e->size + size > e->room) {
        size_t room = (e->size + size) * 2 + 256;
        e->failure = sr_grow(&e->record, room);
        if (e->failure != SR_OK) return;
        e->room = room;
    }
    memcpy(e->record + e->size, bytes, size);
    e->size += size;
}

static size_t varint(unsigned char out[10], uint64_t x) {
    size_t n = 0;
    for (; x >= 128; x >>= 7) out[n++] = (unsigned char)(x | 128);
    out[n++] = (unsigned char)x;
    return n;
}

static void put_varint(sr_events *e, uint64_t x) {
    unsigned char bytes[10];
    put(e, bytes, varint(bytes, x));
}

enum { VARINT = 0, EIGHT = 1, BYTES = 2, FOUR = 5 }; /* wire types */

static void put_tag(sr_events *e, int field, int wire) {
    put_varint(e, (uint64_t)(field << 3 | wire));
}

static void put_double(sr_events *e, int field, double x) {
    put_tag(e, field, EIGHT);
    put(e, &x, sizeof x);
}

static void put_float(sr_events *e, int field, float x) {
    put_tag(e, field, FOUR);
    put(e, &x, sizeof x);
}

static void put_number(sr_events *e, int field, int64_t x) {
    put_tag(e, field, VARINT);
    put_varint(e, (uint64_t)x);
}

static void put_string(sr_events *e, int field, const char *text) {
    put_tag(e, field, BYTES);
    put_varint(e, strlen(text));
    put(e, text, strlen(text));
}

/* The bytes from `start` on become the message of `field`. */
static void wrap(sr_events *e, int field, size_t start) {
    unsigned char head[20];
    size_t size = e->size - start, n = varint(head, (uint64_t)(field << 3 | BYTES));
    n += varint(head + n, size);
    put(e, head, n); /* reserves space; moved to the front below */
    if (e->failure != SR_OK) return;
    memmove(e->record + start + n, e->record + start, size);
    memcpy(e->record + start, head, n);
}

/* ---- records --------------------------------------------------------------------------------- */

enum { HEAD = 12 }; /* length and its checksum */

static void begin(sr_events *e, double wall, int64_t step) {
    static const unsigned char zeros[HEAD];
    e->size = 0;
    e->failure = SR_OK;
    put(e, zeros, HEAD);
    put_double(e, 1, wall);
    if (step != 0) put_number(e, 2, step);
}

static sr_status finish(sr_events *e) {
    if (e->failure != SR_OK) return e->failure;
    uint64_t length = e->size - HEAD;
    uint32_t crc = masked(&length, sizeof length), tail = masked(e->record + HEAD, length);
    memcpy(e->record, &length, sizeof length); /* little-endian hosts only */
    memcpy(e->record + 8, &crc, sizeof crc);
    put(e, &tail, sizeof tail);
    if (e->failure != SR_OK) return e->failure;
    return sr_append_write(e->file, e->record, e->size);
}

static sr_status write_start(sr_events *e, double wall, int64_t first_step) {
    begin(e, wall, 0);
    put_string(e, 3, "brain.Event:2");
    SR_TRY(finish(e));
    if (first_step < 0) return SR_OK;
    begin(e, wall, first_step);
    size_t start = e->size;
    put_number(e, 1, 1); /* SessionLog.status = START */
    wrap(e, 7, start);
    return finish(e);
}

sr_status sr_events_open(sr_events **out, const char *folder, double wall, int64_t first_step) {
    static int64_t opened; /* distinguishes files of one second */
    char host[65] = "host", path[4200];
    *out = NULL;
    gethostname(host, sizeof host - 1);
    for (char *p = host; *p != '\0'; p++)
        if (*p == '/') *p = '-';
    int n = snprintf(path, sizeof path, "%s/events.out.tfevents.%010" PRId64 ".%s.%d.%" PRId64,
                     folder, (int64_t)wall, host, (int)getpid(), opened++);
    if (n < 0 || (size_t)n >= sizeof path)
        return sr_fail(SR_EINVAL, "events: the directory's path is too long");
    sr_events *e;
    SR_TRY(sr_new(&e, 1));
    sr_status st = sr_append_open(&e->file, path, UINT64_MAX);
    if (st == SR_OK) st = write_start(e, wall, first_step);
    return SR_GIVE(out, e, st, sr_events_close);
}

void sr_events_close(sr_events *e) {
    if (e == NULL) return;
    sr_append_close(e->file);
    sr_free(e->record);
    sr_free(e);
}

sr_status sr_events_scalars(sr_events *e, double wall, int64_t step, const char *const *tags,
                            const double *values, size_t count) {
    begin(e, wall, step);
    size_t summary = e->size;
    for (size_t i = 0; i < count; i++) {
        size_t value = e->size;
        put_string(e, 1, tags[i]);
        put_float(e, 2, (float)values[i]);
        wrap(e, 1, value);
    }
    wrap(e, 5, summary);
    return finish(e);
}

/* Summary.Value { tag = 1, tensor = 8 { dtype = 1: DT_STRING (7), tensor_shape = 2 { dim = 2 { size
 * = 1 } }, string_val = 8 }, metadata = 9 { plugin_data = 1 { plugin_name = 1 } } } */
sr_status sr_events_text(sr_events *e, double wall, int64_t step, const char *tag,
                         const char *text) {
    begin(e, wall, step);
    size_t summary = e->size, value = e->size;
    put_string(e, 1, tag);
    size_t tensor = e->size;
    put_number(e, 1, 7);
    size_t shape = e->size;
    put_number(e, 1, 1);
    wrap(e, 2, shape);
    wrap(e, 2, shape);
    put_string(e, 8, text);
    wrap(e, 8, tensor);
    size_t metadata = e->size;
    put_string(e, 1, "text");
    wrap(e, 1, metadata);
    wrap(e, 9, metadata);
    wrap(e, 1, value);
    wrap(e, 5, summary);
    return finish(e);
}
