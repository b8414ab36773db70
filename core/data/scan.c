#include "core/data/scan.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/mem.h"

enum { SPAN = 16384 };

static sr_status count_span(uint64_t *count, const sr_dataset *d, uint64_t first, uint64_t last,
                            int32_t *ids) {
    for (; first < last; first += SPAN) {
        uint64_t n = last - first < SPAN ? last - first : SPAN;
        SR_TRY(sr_dataset_ids(d, ids, first, n));
        for (uint64_t i = 0; i < n; i++) count[ids[i]]++;
    }
    return SR_OK;
}

sr_status sr_scan_tokens(uint64_t *count, const sr_dataset *d, sr_data_part part) {
    const sr_portion *p = &d->part[part];
    int32_t *ids;
    SR_TRY(sr_new(&ids, SPAN));
    sr_status st = SR_OK;
    for (int64_t i = 0; st == SR_OK && i < p->count;
         i++) { /* adjacent examples are read as one span */
        int64_t first = i;
        while (i + 1 < p->count && p->unit[i + 1] == p->unit[i] + 1) i++;
        st =
            count_span(count, d, d->unit_token[p->unit[first]], d->unit_token[p->unit[i] + 1], ids);
    }
    sr_free(ids);
    return st;
}

typedef struct digest {
    XXH128_hash_t hash; /* first: compared by by_hash() */
} digest;

static int by_hash(const void *a, const void *b) {
    return XXH128_cmp(a, b);
}

typedef struct scratch {
    int32_t *ids;
    size_t room;
} scratch;

static sr_status hash_span(digest *out, const sr_dataset *d, uint64_t first, uint64_t last,
                           scratch *s) {
    size_t n = (size_t)(last - first);
    if (n > s->room) {
        SR_TRY(sr_grow(&s->ids, n * 2));
        s->room = n * 2;
    }
    SR_TRY(sr_dataset_ids(d, s->ids, first, n));
    out->hash = XXH3_128bits(s->ids, n * sizeof *s->ids);
    return SR_OK;
}

static int64_t count_repeats(digest *list, int64_t n) {
    int64_t repeats = 0;
    qsort(list, (size_t)n, sizeof *list, by_hash);
    for (int64_t i = 1; i < n; i++) repeats += XXH128_isEqual(list[i].hash, list[i - 1].hash);
    return repeats;
}

static sr_status hash_all(digest *list, const sr_dataset *d, bool documents, scratch *s) {
    int64_t n = documents ? d->units : d->sentences;
    uint64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t first = documents ? d->unit_token[i] : at;
        at = documents ? d->unit_token[i + 1] : at + d->sentence_tokens[i];
        SR_TRY(hash_span(&list[i], d, first, at, s));
    }
    return SR_OK;
}

sr_status sr_scan_repeats(sr_repeats *out, const sr_dataset *d) {
    *out = (sr_repeats){0};
    scratch s = {0};
    digest *list;
    SR_TRY(sr_new(&list, d->sentences > d->units ? d->sentences : d->units));
    sr_status st = hash_all(list, d, true, &s);
    if (st == SR_OK) out->documents = count_repeats(list, d->units);
    if (st == SR_OK && d->kind == SR_DATA_TEXT) {
        st = hash_all(list, d, false, &s);
        if (st == SR_OK) out->sentences = count_repeats(list, d->sentences);
    }
    sr_free(s.ids);
    sr_free(list);
    return st;
}

/* ---- two data sets ---- */

typedef struct place {
    XXH128_hash_t hash; /* first: compared by by_hash() */
    int64_t unit;
} place;

/* The hash of an example: of where A ends, and of its tokens. */
static sr_status hash_unit(XXH128_hash_t *out, const sr_dataset *d, int64_t unit, scratch *s) {
    digest tokens;
    SR_TRY(hash_span(&tokens, d, d->unit_token[unit], d->unit_token[unit + 1], s));
    uint64_t a = d->kind == SR_DATA_EXAMPLES ? d->a_tokens[unit] : 0;
    *out = XXH3_128bits_withSeed(&tokens.hash, sizeof tokens.hash, a);
    return SR_OK;
}

static sr_status hash_units(place *list, const sr_dataset *d, scratch *s) {
    for (int64_t i = 0; i < d->units; i++) {
        list[i].unit = i;
        SR_TRY(hash_unit(&list[i].hash, d, i, s));
    }
    qsort(list, (size_t)d->units, sizeof *list, by_hash);
    return SR_OK;
}

static sr_status count_shared(sr_overlap *out, const place *list, const sr_dataset *first,
                              const sr_dataset *second, scratch *s) {
    for (int64_t i = 0; i < second->units; i++) {
        place wanted;
        SR_TRY(hash_unit(&wanted.hash, second, i, s));
        const place *twin = bsearch(&wanted, list, (size_t)first->units, sizeof *list, by_hash);
        if (twin == NULL) continue;
        if (out->count == 0) out->first = i, out->twin = twin->unit;
        out->count++;
    }
    return SR_OK;
}

sr_status sr_scan_overlap(sr_overlap *out, const sr_dataset *first, const sr_dataset *second) {
    *out = (sr_overlap){.first = -1, .twin = -1};
    scratch s = {0};
    place *list;
    SR_TRY(sr_new(&list, first->units));
    sr_status st = hash_units(list, first, &s);
    if (st == SR_OK) st = count_shared(out, list, first, second, &s);
    sr_free(s.ids);
    sr_free(list);
    return st;
}

sr_status sr_scan_hashes(sr_unit_hash *out, const sr_dataset *d) {
    scratch s = {0};
    sr_status st = SR_OK;
    for (int64_t i = 0; st == SR_OK && i < d->units; i++) {
        XXH128_hash_t hash;
        st = hash_unit(&hash, d, i, &s);
        out[i] = (sr_unit_hash){hash.low64, hash.high64};
    }
    sr_free(s.ids);
    return st;
}

sr_longer sr_scan_longer(const sr_dataset *d, int64_t max_len) {
    sr_longer out = {.first = -1};
    for (int64_t i = 0; i < d->units && d->kind == SR_DATA_EXAMPLES; i++) {
        int64_t tokens = (int64_t)(d->unit_token[i + 1] - d->unit_token[i]);
        int64_t length = tokens + sr_frame_size(sr_dataset_frame(d, tokens - d->a_tokens[i]));
        if (length > out.longest) out.longest = length;
        if (length <= max_len) continue;
        if (out.count == 0) out.first = i;
        out.count++;
    }
    return out;
}
