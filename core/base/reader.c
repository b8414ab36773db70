#include "core/base/reader.h"

#include <inttypes.h>
#include <string.h>

void sr_reader_init(sr_reader *r, const void *bytes, size_t size, const char *name) {
    *r = (sr_reader){.bytes = bytes, .size = size, .name = name};
}

sr_status sr_read_claim(sr_reader *r, const void **out, uint64_t count, size_t size) {
    *out = NULL;
    size_t bytes;
    if (r->failed || count > SIZE_MAX || __builtin_mul_overflow((size_t)count, size, &bytes) ||
        bytes > r->size - r->at) {
        r->failed = true;
        return sr_fail(SR_EDATA,
                       "%s: expected at byte %zu of %zu another %" PRIu64 " x %zu bytes; "
                       "the file is truncated or corrupt",
                       r->name, r->at, r->size, count, size);
    }
    *out = r->bytes + r->at;
    r->at += bytes;
    return SR_OK;
}

#define READ_NUMBER(name, type)                                                                    \
    sr_status name(sr_reader *r, type *out) {                                                      \
        const void *p;                                                                             \
        *out = 0;                                                                                  \
        SR_TRY(sr_read_claim(r, &p, 1, sizeof *out));                                              \
        memcpy(out, p, sizeof *out); /* little-endian hosts only: x86-64 */                        \
        return SR_OK;                                                                              \
    }
READ_NUMBER(sr_read_u8, uint8_t)
READ_NUMBER(sr_read_u16, uint16_t)
READ_NUMBER(sr_read_u32, uint32_t)
READ_NUMBER(sr_read_u64, uint64_t)

sr_status sr_read_end(sr_reader *r) {
    if (r->failed || r->at == r->size) return r->failed ? SR_EDATA : SR_OK;
    return sr_fail(SR_EDATA, "%s: %zu unexpected bytes at the end, from byte %zu", r->name,
                   r->size - r->at, r->at);
}
