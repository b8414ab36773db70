/* fetcher.h - orders updates and makes them: what a loader and its workers share.  Internal to
 * core/loader.
 *
 * The options, the masker and the collators are constant once it is open; epochs are built when
 * first needed and cached.
 */
#pragma once

#include <pthread.h>

#include "core/loader/loader.h"
#include "core/loader/order.h"

SR_BEGIN_C

enum { SR_FETCHER_EPOCHS = 3 }; /* cached: current, next, and one for inspection */

typedef struct sr_fetcher {
    const sr_dataset *d;
    sr_loader_opts opts;
    sr_plan *plan;     /* the saved one */
    bool fitted, told; /* the plan was used for an epoch; that it no longer fits was reported */
    sr_stage *stage;   /* (opts.stages) */
    sr_masker masker;
    sr_schedule mask_rate; /* of updates; none: the masker's */
    sr_collators collators;
    bool fixed; /* fixed examples: a single epoch */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    sr_epoch *epoch[SR_FETCHER_EPOCHS]; /* most recently used first */
    bool building;
} sr_fetcher;

/* `f` is zero except d and opts. */
sr_status sr_fetcher_open(sr_fetcher *f);
void sr_fetcher_close(sr_fetcher *f);

/* An epoch in a stage, retained; if it is not cached, one thread builds it while others wait. */
sr_status sr_fetcher_epoch(sr_epoch **out, sr_fetcher *f, uint32_t epoch, int stage,
                           sr_threads *threads);

/* Orders the update at *cursor and advances the cursor.  An empty order means the end of the data.
 */
sr_status sr_fetcher_order(sr_order *order, sr_fetcher *f, sr_cursor *cursor);

/* SR_ENOMEM, with the bytes and what to lower, if the updates kept ready exceed the memory of this
 * machine, or a batch would have too many rows.  `packs` per update, by packs. */
sr_status sr_fetcher_check_size(const sr_fetcher *f, const sr_epoch *e, double packs);

/* Makes the update of an order, or of picks. */
sr_status sr_fetcher_make(sr_update **out, const sr_fetcher *f, const sr_order *order);
sr_status sr_fetcher_pick(sr_update **out, const sr_fetcher *f, const sr_pick *pick, int64_t n,
                          sr_arrange arrange);

SR_END_C
