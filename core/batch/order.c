#include "core/batch/order.h"

#include <string.h>

#include "core/base/mem.h"

/* Arrays have room for the least power of two that holds what is in them. */
static int64_t room_for(int64_t count) {
    int64_t room = 1;
    while (room < count) room *= 2;
    return room;
}

#define MAKE_ROOM(array, count, more)                                                              \
    ((count) > 0 && room_for(count) >= (count) + (more)                                            \
         ? SR_OK                                                                                   \
         : sr_grow(&(array), room_for((count) + (more))))

sr_status sr_order_add(sr_order *o, const sr_pick *pick, int64_t n) {
    SR_TRY(MAKE_ROOM(o->pick, o->sequences, n));
    SR_TRY(MAKE_ROOM(o->group_end, o->groups, 1));
    if (n > 0) memcpy(o->pick + o->sequences, pick, (size_t)n * sizeof *pick);
    o->sequences += n;
    o->group_end[o->groups++] = o->sequences;
    return SR_OK;
}

sr_status sr_order_keep(sr_order *o, sr_epoch *e) {
    SR_TRY(MAKE_ROOM(o->epoch, o->epochs, 1));
    o->epoch[o->epochs++] = sr_epoch_retain(e);
    return SR_OK;
}

void sr_order_free(sr_order *o) {
    for (int64_t i = 0; i < o->epochs; i++) sr_epoch_release(o->epoch[i]);
    sr_free(o->epoch);
    sr_free(o->group_end);
    sr_free(o->pick);
    *o = (sr_order){0};
}
