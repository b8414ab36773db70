/* certificate_text.c - the file of a certificate: tab-separated, see certificate.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/draft.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/pack/certificate.h"

sr_status sr_certificate_save(const sr_certificate *c, const sr_histogram *h, const char *path) {
    char *text, depth[16];
    if (h->capacity != c->capacity)
        return sr_fail(SR_EINVAL,
                       "pack: the certificate is for packs of %d tokens, the histogram for %d",
                       c->capacity, h->capacity);
    SR_TRY(sr_new(&text, (size_t)c->capacity * 32 + 512));
    if (c->max_seqs > 0)
        snprintf(depth, sizeof depth, "%d", c->max_seqs);
    else
        snprintf(depth, sizeof depth, "max");
    size_t at =
        (size_t)sprintf(text,
                        "# capacity\t%d\tmax_seqs_per_pack\t%s\tmax_weight_of_any_pack\t"
                        "%" PRId64 "\ttotal_weight\t%" PRId64 "\tlower_bound\t%" PRId64 "\n",
                        c->capacity, depth, c->heaviest, c->total, c->bound);
    for (int32_t l = 1; l <= c->capacity; l++)
        if (h->count[l] > 0) at += (size_t)sprintf(text + at, "%d\t%" PRId64 "\n", l, c->weight[l]);
    sr_status st = sr_file_replace(path, text, at);
    sr_free(text);
    return st;
}

/* ---- reading ---- */

typedef struct cursor {
    const char *at, *end, *name;
    int64_t line;
} cursor;

static sr_status bad(const cursor *c, const char *wanted) {
    return sr_fail(SR_EDATA, "%s:%" PRId64 ": not a certificate; expected %s", c->name, c->line,
                   wanted);
}

static sr_status word(cursor *c, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n) != 0) return bad(c, text);
    c->at += n;
    return SR_OK;
}

static sr_status number(cursor *c, int64_t *out) {
    const char *from = c->at;
    int64_t n = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(n, (int64_t)10, &n) ||
            __builtin_add_overflow(n, (int64_t)(*c->at - '0'), &n))
            return bad(c, "a number below 2^63");
    if (c->at == from) return bad(c, "an integer");
    *out = n;
    return SR_OK;
}

static sr_status field(cursor *c, const char *name, int64_t *out) {
    SR_TRY(word(c, name));
    return number(c, out);
}

static sr_status read_head(cursor *c, sr_certificate *out) {
    int64_t capacity, depth = 0;
    SR_TRY(field(c, "# capacity\t", &capacity));
    if (capacity < 1 || capacity > SR_MAX_LENGTH) return bad(c, "a capacity of 1 to 65535");
    SR_TRY(word(c, "\tmax_seqs_per_pack\t"));
    if (c->end - c->at >= 3 && memcmp(c->at, "max", 3) == 0)
        c->at += 3;
    else
        SR_TRY(number(c, &depth));
    if (depth > INT32_MAX) return bad(c, "a depth below 2^31");
    SR_TRY(field(c, "\tmax_weight_of_any_pack\t", &out->heaviest));
    SR_TRY(field(c, "\ttotal_weight\t", &out->total));
    SR_TRY(field(c, "\tlower_bound\t", &out->bound));
    SR_TRY(word(c, "\n"));
    c->line++;
    out->capacity = (int32_t)capacity;
    out->max_seqs = (int32_t)depth;
    return sr_new(&out->weight, capacity + 1);
}

static sr_status read_weights(cursor *c, sr_certificate *out) {
    for (int64_t before = 0, length, weight; c->at < c->end; c->line++, before = length) {
        SR_TRY(number(c, &length));
        if (length <= before || length > out->capacity)
            return bad(c, "a larger length, up to capacity");
        SR_TRY(field(c, "\t", &weight));
        if (c->at < c->end) SR_TRY(word(c, "\n"));
        out->weight[length] = weight;
    }
    return SR_OK;
}

sr_status sr_certificate_parse(sr_certificate *out, const void *bytes, size_t size,
                               const char *name) {
    cursor c = {bytes, (const char *)bytes + size, name, 1};
    memset(out, 0, sizeof *out);
    sr_status st = read_head(&c, out);
    if (st == SR_OK) st = read_weights(&c, out);
    if (st != SR_OK) sr_certificate_free(out);
    return st;
}

sr_status sr_certificate_load(sr_certificate *out, const char *path) {
    void *bytes;
    size_t size;
    memset(out, 0, sizeof *out);
    SR_TRY(sr_file_read(&bytes, &size, path, (size_t)4 << 20));
    sr_status st = sr_certificate_parse(out, bytes, size, path);
    sr_free(bytes);
    return st;
}
