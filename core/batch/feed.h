/* feed.h - the state shared by a loader and its workers: options, masker and cached epochs.
 * Internal to core/batch.
 */
#ifndef SR_BATCH_FEED_H
#define SR_BATCH_FEED_H

#include <pthread.h>

#include "core/batch/loader.h"
#include "core/batch/order.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_FEED_EPOCHS = 3 }; /* cached: current, next, and one for inspection */

typedef struct sr_feed {
    const sr_dataset *d;
    sr_loader_opts opts;
    sr_plan *plan;     /* the saved one */
    bool fitted, told; /* it fitted some epoch; a misfit was reported */
    sr_stage *stage;   /* (opts.stages) */
    sr_masker masker;
    sr_course mask_rate; /* of updates; none: the masker's */
    uint8_t *continues;
    sr_collators collators;
    bool fixed; /* fixed examples: a single epoch */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    sr_epoch *epoch[SR_FEED_EPOCHS]; /* most recently used first */
    bool building;
} sr_feed;

/* Initialises an empty feed; `f` is zero except d and opts. */
sr_status sr_feed_open(sr_feed *f);
void sr_feed_close(sr_feed *f);

/* An epoch in a stage, retained; if it is not cached, one thread builds it while others wait. */
sr_status sr_feed_epoch(sr_epoch **out, sr_feed *f, uint32_t epoch, int stage, sr_threads *threads);

/* Orders the update at *cursor and advances the cursor.  An empty order means the end of the data.
 */
sr_status sr_feed_order(sr_order *order, sr_feed *f, sr_cursor *cursor);

/* Makes the update of an order, or of picks. */
sr_status sr_feed_make(sr_update **out, const sr_feed *f, const sr_order *order);
sr_status sr_feed_pick(sr_update **out, const sr_feed *f, const sr_pick *pick, int64_t n,
                       sr_arrange arrange);

#ifdef __cplusplus
}
#endif
#endif
