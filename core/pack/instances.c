#include "core/pack/instances.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/permute.h"

typedef struct bucket { /* the sequences of one length */
    sr_domain slots;    /* n: slots of this length in the plan */
    uint32_t first;     /* uid[first .. first + have) */
    uint32_t have;
} bucket;

typedef struct slot_part { /* a part of a pattern */
    uint16_t length, copies;
    uint32_t offset; /* slots of this length in earlier patterns */
} slot_part;

struct sr_packing {
    uint64_t seed;
    int32_t deepest;
    uint32_t patterns;
    sr_domain order;
    uint32_t *pack; /* pattern p has packs pack[p] .. pack[p + 1] */
    uint32_t *part; /* and parts part[p] .. part[p + 1] */
    slot_part *slot;
    bucket *bucket; /* by length */
    uint32_t *uid;  /* by length, uids ascending within a length */
};

/* ---- building ---- */

static sr_status allocate(sr_packing *k, const sr_plan *plan) {
    SR_TRY(sr_new(&k->pack, plan->strategies + 1));
    SR_TRY(sr_new(&k->part, plan->strategies + 1));
    SR_TRY(sr_new(&k->slot, plan->parts));
    SR_TRY(sr_new(&k->bucket, plan->capacity + 1));
    return sr_new(&k->uid, plan->histogram.sequences);
}

/* Copies the patterns and counts the slots of each length in `used`. */
static sr_status lay_out_slots(sr_packing *k, const sr_plan *plan) {
    int64_t packs = 0, *used;
    SR_TRY(sr_new(&used, plan->capacity + 1));
    for (size_t p = 0; p < plan->strategies; p++) {
        const sr_plan_pattern *q = &plan->pattern[p];
        k->pack[p] = (uint32_t)packs;
        k->part[p] = q->first;
        packs += q->count;
        for (uint32_t j = q->first; j < q->first + q->parts; j++) {
            sr_plan_part part = plan->part[j];
            k->slot[j] = (slot_part){part.length, part.copies, (uint32_t)used[part.length]};
            used[part.length] += part.copies * q->count;
        }
    }
    k->pack[plan->strategies] = (uint32_t)packs;
    k->part[plan->strategies] = (uint32_t)plan->parts;
    uint32_t first = 0;
    for (int32_t l = 1; l <= plan->capacity; l++) {
        k->bucket[l] =
            (bucket){sr_domain_of((uint32_t)used[l]), first, (uint32_t)plan->histogram.count[l]};
        first += k->bucket[l].have;
    }
    sr_free(used);
    return SR_OK;
}

static sr_status other_lengths(int64_t uid, uint32_t length) {
    return sr_fail(SR_EDATA,
                   "pack: sequence %" PRId64 " of %u tokens has no slot: the plan is for other "
                   "lengths; pack these again",
                   uid, length);
}

/* Counting sort of the uids by length. */
static sr_status fill_index(sr_packing *k, const sr_plan *plan, const sr_lengths *lengths) {
    uint32_t *at;
    const uint32_t capacity = (uint32_t)plan->capacity;
    const bool truncated = plan->histogram.lost > 0;
    SR_TRY(sr_new(&at, capacity + 1));
    for (uint32_t l = 1; l <= capacity; l++) at[l] = k->bucket[l].first;
    sr_status st = SR_OK;
    for (int64_t uid = 0; uid < lengths->count; uid++) {
        uint32_t length = sr_length_at(lengths, uid);
        if (length > capacity && truncated) length = capacity;
        const bucket *b = &k->bucket[length <= capacity ? length : 0];
        if (length == 0 || at[length <= capacity ? length : 0] == b->first + b->have) {
            st = other_lengths(uid, length);
            break;
        }
        k->uid[at[length]++] = (uint32_t)uid;
    }
    sr_free(at);
    return st;
}

sr_status sr_packing_new(sr_packing **out, const sr_plan *plan, const sr_lengths *lengths,
                         uint64_t seed) {
    *out = NULL;
    int64_t slots = plan->histogram.sequences + plan->unfilled;
    if (slots >= UINT32_MAX || plan->packs >= UINT32_MAX)
        return sr_fail(SR_EDATA,
                       "pack: a plan of %" PRId64 " sequences; the maximum is "
                       "2^32 - 2",
                       plan->histogram.sequences);
    bool split = plan->histogram.longer > 0 && plan->histogram.lost == 0;
    if (lengths->count != plan->histogram.sequences)
        return sr_fail(SR_EDATA,
                       "pack: the plan is for %" PRId64 " %s, the list has %" PRId64 "; %s",
                       plan->histogram.sequences, split ? "pieces" : "sequences", lengths->count,
                       split ? "give the lengths of the pieces, see sr.pack.split()"
                             : "pack these lengths again");
    sr_packing *k;
    SR_TRY(sr_new(&k, 1));
    k->seed = seed;
    k->deepest = plan->deepest;
    k->patterns = (uint32_t)plan->strategies;
    k->order = sr_domain_of((uint32_t)plan->packs);
    sr_status st = allocate(k, plan);
    if (st == SR_OK) st = lay_out_slots(k, plan);
    if (st == SR_OK) st = fill_index(k, plan, lengths);
    return SR_GIVE(out, k, st, sr_packing_free);
}

void sr_packing_free(sr_packing *k) {
    if (k == NULL) return;
    sr_free(k->pack);
    sr_free(k->part);
    sr_free(k->slot);
    sr_free(k->bucket);
    sr_free(k->uid);
    sr_free(k);
}

/* ---- asking ---- */

int64_t sr_packing_packs(const sr_packing *k) {
    return k->order.n;
}

int32_t sr_packing_deepest(const sr_packing *k) {
    return k->deepest;
}

/* The pattern of a pack: the last p with pack[p] <= pack. */
static uint32_t pattern_of(const sr_packing *k, uint32_t pack) {
    uint32_t low = 0, high = k->patterns;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (k->pack[mid] <= pack)
            low = mid;
        else
            high = mid;
    }
    return low;
}

sr_status sr_packing_at(const sr_packing *k, uint32_t epoch, int64_t i, uint32_t *uids,
                        int32_t *n) {
    *n = 0;
    if (i < 0 || i >= k->order.n)
        return sr_fail(SR_EINVAL,
                       "pack: index %" PRId64 " is out of range; an epoch has %u packs, from 0", i,
                       k->order.n);
    uint32_t pack = sr_permute(&k->order, (uint32_t)i, k->seed, SR_PURPOSE_PACK_ORDER, 0, epoch);
    uint32_t p = pattern_of(k, pack), repeat = pack - k->pack[p];
    for (uint32_t j = k->part[p]; j < k->part[p + 1]; j++) {
        const slot_part *s = &k->slot[j];
        const bucket *b = &k->bucket[s->length];
        for (uint32_t c = 0; c < s->copies; c++) {
            uint32_t slot = s->offset + repeat * s->copies + c;
            uint32_t e =
                sr_permute(&b->slots, slot, k->seed, SR_PURPOSE_PARTNERS, s->length, epoch);
            if (e < b->have) uids[(*n)++] = k->uid[b->first + e];
        }
    }
    return SR_OK;
}

int64_t sr_packing_pattern(const sr_packing *k, uint32_t epoch, int64_t i) {
    if (i < 0 || i >= k->order.n) return -1;
    return pattern_of(k,
                      sr_permute(&k->order, (uint32_t)i, k->seed, SR_PURPOSE_PACK_ORDER, 0, epoch));
}
