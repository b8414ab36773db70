#include "core/tokenizer/strings.h"

#include <string.h>

#include "core/base/mem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint32_t *slot_of(const sr_strings *s, const void *bytes, size_t size) {
    size_t mask = s->slot_count - 1, i = XXH3_64bits(bytes, size) & mask;
    for (; s->slots[i] != 0; i = (i + 1) & mask) {
        size_t length;
        const uint8_t *other = sr_strings_get(s, s->slots[i] - 1, &length);
        if (length == size && memcmp(other, bytes, size) == 0) break;
    }
    return &s->slots[i];
}

static sr_status grow_slots(sr_strings *s) {
    sr_strings bigger = *s;
    bigger.slot_count = s->slot_count > 0 ? 2 * s->slot_count : 64;
    SR_TRY(sr_new(&bigger.slots, bigger.slot_count));
    for (uint32_t i = 0; i < s->count; i++) {
        size_t size;
        const uint8_t *bytes = sr_strings_get(s, i, &size);
        *slot_of(&bigger, bytes, size) = i + 1;
    }
    sr_free(s->slots);
    *s = bigger;
    return SR_OK;
}

static sr_status make_room(sr_strings *s, size_t size) {
    if (s->count == UINT32_MAX - 1)
        return sr_fail(SR_ENOMEM, "too many strings; the maximum is 2^32 - 2");
    size_t used = s->count > 0 ? s->start[s->count] : 0, need;
    SR_TRY(sr_add_size(&need, used, size));
    if (need > s->bytes_room) {
        size_t room = need + need / 2 + 256;
        SR_TRY(sr_grow(&s->bytes, room));
        s->bytes_room = room;
    }
    if ((size_t)s->count + 2 > s->start_room) {
        size_t room = s->start_room * 2 + 64;
        SR_TRY(sr_grow(&s->start, room));
        s->start_room = room;
    }
    if (2 * ((size_t)s->count + 1) > s->slot_count) SR_TRY(grow_slots(s));
    return SR_OK;
}

sr_status sr_strings_add(uint32_t *index, sr_strings *s, const void *bytes, size_t size) {
    SR_TRY(make_room(s, size));
    uint32_t *slot = slot_of(s, bytes, size);
    if (*slot == 0) {
        if (s->count == 0) s->start[0] = 0;
        size_t at = s->start[s->count];
        memcpy(s->bytes + at, bytes, size);
        s->start[++s->count] = at + size;
        *slot = s->count;
    }
    *index = *slot - 1;
    return SR_OK;
}

const uint8_t *sr_strings_get(const sr_strings *s, uint32_t index, size_t *size) {
    *size = s->start[index + 1] - s->start[index];
    return s->bytes + s->start[index];
}

void sr_strings_free(sr_strings *s) {
    sr_free(s->bytes);
    sr_free(s->start);
    sr_free(s->slots);
    *s = (sr_strings){0};
}
