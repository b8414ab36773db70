/* model_out.h - the tokens of one piece, and where each is in it. */
#ifndef SR_TOKENIZER_MODEL_OUT_H
#define SR_TOKENIZER_MODEL_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/mem.h"
#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_part {
    int32_t id;
    uint32_t first, last; /* in bytes of the piece */
} sr_part;

/* Zero-initialised; a model overwrites it. */
typedef struct sr_parts {
    sr_part *list;
    size_t count, room;
    uint64_t unknown; /* parts that are the unknown token, of all pieces so far */
} sr_parts;

static inline sr_status sr_parts_reserve(sr_parts *p, size_t room) {
    if (room <= p->room) return SR_OK;
    SR_TRY(sr_grow(&p->list, 2 * room + 64));
    p->room = 2 * room + 64;
    return SR_OK;
}

#ifdef __cplusplus
}
#endif
#endif
