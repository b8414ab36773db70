/* size.h - the memory of a loader's updates, computed before anything is allocated.  Internal to
 * core/batch. */
#ifndef SR_BATCH_SIZE_H
#define SR_BATCH_SIZE_H

#include "core/batch/feed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* SR_ENOMEM, with the bytes and what to lower, if the updates kept ready exceed the memory of this
 * machine, or a batch would have too many rows.  `packs` per update, by packs. */
sr_status sr_feed_check_size(const sr_feed *f, const sr_epoch *e, double packs);

#ifdef __cplusplus
}
#endif
#endif
