#include "core/tokenizer/pieces.h"

#include <string.h>
#include <sys/random.h>

#include "core/base/mem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

sr_status sr_pieces_init(sr_pieces *p, int32_t size, size_t count) {
    size_t slots = 64;
    while (slots < 2 * count) slots *= 2;
    if (getrandom(&p->seed, sizeof p->seed, GRND_NONBLOCK) != sizeof p->seed)
        p->seed = 0x9E3779B97F4A7C15u;
    SR_TRY(sr_new(&p->start, size > 0 ? size : 1));
    SR_TRY(sr_new(&p->length, size > 0 ? size : 1));
    SR_TRY(sr_new(&p->slots, slots));
    memset(p->start, 0xFF, (size_t)size * sizeof *p->start);
    p->size = size;
    p->room = size > 0 ? size : 1;
    p->mask = (uint32_t)slots - 1;
    return SR_OK;
}

void sr_pieces_free(sr_pieces *p) {
    sr_free(p->text);
    sr_free(p->start);
    sr_free(p->length);
    sr_free(p->slots);
    *p = (sr_pieces){0};
}

/* The slot of a string, or the empty one where it would be. */
static int32_t *probe(const sr_pieces *p, const void *bytes, size_t size) {
    uint32_t i = (uint32_t)XXH3_64bits_withSeed(bytes, size, p->seed) & p->mask;
    for (;; i = (i + 1) & p->mask) {
        int32_t id = p->slots[i] - 1;
        if (id < 0) return &p->slots[i];
        if (p->length[id] == size && memcmp(p->text + p->start[id], bytes, size) == 0)
            return &p->slots[i];
    }
}

static sr_status rehash(sr_pieces *p) {
    int32_t *old = p->slots;
    size_t count = (size_t)p->mask + 1;
    p->slots = NULL;
    sr_status st = sr_new(&p->slots, 2 * count);
    if (st != SR_OK) {
        p->slots = old;
        return st;
    }
    p->mask = (uint32_t)(2 * count - 1);
    for (size_t i = 0; i < count; i++)
        if (old[i] != 0) *probe(p, p->text + p->start[old[i] - 1], p->length[old[i] - 1]) = old[i];
    sr_free(old);
    return SR_OK;
}

sr_status sr_pieces_add(sr_pieces *p, const void *bytes, size_t size, int32_t id, int32_t *known) {
    if (2 * (uint64_t)p->count >= p->mask) SR_TRY(rehash(p));
    int32_t *slot = probe(p, bytes, size);
    *known = *slot - 1;
    if (*slot != 0) return SR_OK;
    if (p->text_size + size >= p->text_room) { /* also for an empty text, which comes first */
        size_t room = 2 * (p->text_size + size) + 64;
        if (room > UINT32_MAX / 2) return sr_fail(SR_ENOMEM, "the tokens do not fit in memory");
        SR_TRY(sr_grow(&p->text, room));
        p->text_room = room;
    }
    memcpy(p->text + p->text_size, bytes, size);
    p->start[id] = (uint32_t)p->text_size;
    p->length[id] = (uint32_t)size;
    p->text_size += size;
    p->count++;
    *slot = id + 1;
    return SR_OK;
}

sr_status sr_pieces_append(uint32_t *id, sr_pieces *p, const void *bytes, size_t size) {
    int32_t known;
    if (p->slots == NULL) SR_TRY(sr_pieces_init(p, 0, 0));
    if (p->size == p->room) {
        if (p->room > INT32_MAX / 4) return sr_fail(SR_ENOMEM, "too many different strings");
        SR_TRY(sr_grow(&p->start, 2 * p->room + 64));
        SR_TRY(sr_grow(&p->length, 2 * p->room + 64));
        p->room = 2 * p->room + 64;
    }
    SR_TRY(sr_pieces_add(p, bytes, size, p->size, &known));
    *id = (uint32_t)(known >= 0 ? known : p->size++);
    return SR_OK;
}

int32_t sr_pieces_find(const sr_pieces *p, const void *bytes, size_t size) {
    return *probe(p, bytes, size) - 1;
}

int32_t sr_pieces_find_byte(const sr_pieces *p, uint8_t byte) {
    static const char digits[] = "0123456789ABCDEF";
    char text[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
    return sr_pieces_find(p, text, sizeof text);
}
