#include "core/unicode/text_run.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/utf8.h"

sr_status sr_run_reserve(sr_run *r, size_t more) {
    size_t need;
    SR_TRY(sr_add_size(&need, r->size, more));
    if (need <= r->room && r->bytes != NULL) return SR_OK;
    SR_TRY(sr_add_size(&need, need, need / 2 + 256));
    SR_TRY(sr_grow(&r->bytes, need + SR_RUN_AFTER));
    if (r->aligned) SR_TRY(sr_grow(&r->from, need));
    if (r->aligned) SR_TRY(sr_grow(&r->to, need));
    r->room = need;
    return SR_OK;
}

void sr_run_free(sr_run *r) {
    sr_free(r->bytes);
    sr_free(r->from);
    sr_free(r->to);
    *r = (sr_run){0};
}

sr_status sr_run_copy(sr_run *r, const sr_run *other, size_t first, size_t last) {
    size_t size = last - first;
    SR_TRY(sr_run_reserve(r, size));
    memcpy(r->bytes + r->size, other->bytes + first, size);
    if (r->aligned) {
        memcpy(r->from + r->size, other->from + first, size * sizeof *r->from);
        memcpy(r->to + r->size, other->to + first, size * sizeof *r->to);
    }
    r->size += size;
    return SR_OK;
}

sr_status sr_run_add(sr_run *r, const void *bytes, size_t size, uint32_t from, uint32_t to) {
    SR_TRY(sr_run_reserve(r, size));
    memcpy(r->bytes + r->size, bytes, size);
    for (size_t i = r->size; r->aligned && i < r->size + size; i++)
        r->from[i] = from, r->to[i] = to;
    r->size += size;
    return SR_OK;
}

sr_status sr_changes_add(sr_changes *c, int32_t cp, int32_t change) {
    if (c->count == c->room) {
        size_t room = c->room > 0 ? 2 * c->room : 256;
        SR_TRY(sr_grow(&c->list, room));
        c->room = room;
    }
    c->list[c->count++] = (sr_change){cp, change};
    return SR_OK;
}

static size_t skip(const sr_run *in, size_t at) {
    if (at >= in->size) return at;
    at++;
    while (at < in->size && (in->bytes[at] & 0xC0) == 0x80) at++;
    return at;
}

sr_status sr_run_change(sr_run *out, const sr_run *in, const sr_changes *c, size_t removed) {
    size_t at = 0;
    while (removed-- > 0) at = skip(in, at);
    SR_TRY(sr_run_reserve(out, 4 * c->count));
    for (size_t i = 0; i < c->count; i++) {
        int32_t change = c->list[i].change;
        size_t place = change > 0 ? (at > 0 ? at - 1 : 0) : (at < in->size ? at : in->size - 1);
        int length = sr_utf8_encode(out->bytes + out->size, c->list[i].cp);
        for (int n = 0; out->aligned && n < length; n++) {
            out->from[out->size + (size_t)n] = in->size > 0 ? in->from[place] : 0;
            out->to[out->size + (size_t)n] = in->size == 0           ? 0
                                             : change > 0 && at == 0 ? in->from[place]
                                                                     : in->to[place];
        }
        out->size += (size_t)length;
        if (change > 0) continue;
        for (int32_t n = change; n <= 0; n++) at = skip(in, at);
    }
    return SR_OK;
}
