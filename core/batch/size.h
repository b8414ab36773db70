/* size.h - what a loader's updates will take, before anything of it is allocated.  For the inside
 * of core/batch. */
#ifndef SR_BATCH_SIZE_H
#define SR_BATCH_SIZE_H

#include "core/batch/feed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* SR_ENOMEM, with the bytes and what to lower, when the updates that are kept ready exceed the
 * memory of this machine, or a batch would have too many rows.  `packs` of an update, by packs. */
sr_status sr_feed_check_size(const sr_feed *f, const sr_epoch *e, double packs);

#ifdef __cplusplus
}
#endif
#endif
