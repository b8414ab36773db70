/* loader.h - yields updates in order from any position, prepared by worker threads.
 *
 * The unit is one update of the global batch: a number of packs, assigned by cost to the minimum
 * number of batches of at most `micro` packs, so that batches take about equally long.  Packs come
 * in the order of the epoch's keyed permutation; an update that reaches the end of an epoch
 * continues with the next one.  The content of an update is a function of the data, the options and
 * the cursor, not of the number of workers, how far they are ahead, or earlier updates.
 *
 * The arrangement decides the position of tokens only: packed, padded and single updates of one
 * plan have the same sequences with the same masks.  Conventional padding is the plan of the solver
 * "none".
 */
#pragma once

#include "core/loader/schedule.h"
#include "core/loader/epoch.h"
#include "core/loader/order.h"
#include "core/loader/update.h"
#include "core/pack/assign.h"

SR_BEGIN_C

/* Flops of attention for each len^2 over those of all products for each token: 4 H / 24 H^2, at the
 * hidden size of BERT-base. */
#define SR_PER_SQUARE (1.0 / (6 * 768))

/* The unit in which an update is measured. */
typedef enum sr_by {
    SR_BY_PACKS,     /* packs of the epoch's plan, in the order of a keyed permutation */
    SR_BY_SEQUENCES, /* a number of sequences in the order of a keyed permutation, packed
                       inside the update */
    SR_BY_ORDER      /* the orders given to sr_loader_push() */
} sr_by;

enum { SR_USUAL_SHARES = 8, SR_UPDATE_SHARES = 4096 };

typedef struct sr_loader_opts {
    sr_examples_opts examples; /* part, max_len, nsp, seed, ...; its epoch is the first */
    sr_pack_opts solve;
    sr_plan *plan;         /* a saved one, shared, used where it fits; NULL: none */
    const sr_stage *stage; /* (stages) copied */
    int stages;
    sr_by by;
    sr_arrange arrange;
    int64_t packs;     /* by packs: packs per update; 0: from `sequences` */
    int64_t sequences; /* by packs: packs = max(1, round(sequences / factor)), factor of the first
                          plan; by sequences: of every update but the last */
    int64_t micro;     /* packs per batch (padded: rows of one sequence); 0: all of the update */
    int64_t shares;    /* per update, with equally many batches if packs allow; 0: a share per
                          batch, at most SR_USUAL_SHARES */
    int32_t first_share, last_share; /* from 1: the shares to make, others are only counted;
                                        0, 0: all */
    int32_t rank, ranks; /* makes the shares of rank `rank` of `ranks` (sr_first_share()), or, with
                            a target that needs the whole update, all; 0, 0 or 0, 1: all */
    sr_balance balance;  /* how packs are assigned to batches */
    double per_square;   /* packs are assigned to batches by tokens + per_square sum len^2; 0: the
                            default */
    int64_t epochs;      /* number of epochs; 0: unlimited */
    const sr_target_opts *target; /* what to predict; NULL: sr_targets_usual() */
    int targets;
    bool keep_ids;    /* batches keep the tokens as they were before masking */
    bool mask;        /* false: the default targets have no masked-LM */
    double mask_prob; /* 0.15 */
    int32_t mask_max; /* maximum masked tokens per sequence */
    bool whole_word;
    sr_schedule mask_rate;     /* fraction of masked tokens by counter, at most mask_prob; copied */
    sr_concept_masks concepts; /* masked first; copied, but for the table, which outlives the
                                  loader */
    sr_mean mean;              /* of the default targets */
    int threads;               /* workers; 0: updates are made on request */
    int prefetch;              /* updates to prepare ahead, at least 1 if there are workers */
} sr_loader_opts;

typedef struct sr_loader sr_loader;

/* Builds the first epoch and starts the workers.  `d` must outlive the loader.
 * `threads` helps with the first epoch only; NULL: the caller's thread alone.
 *
 * Errors: SR_EINVAL for options out of range; those of sr_epoch_build(). */
sr_status sr_loader_open(sr_loader **out, const sr_dataset *d, const sr_loader_opts *opts,
                         sr_threads *threads);
void sr_loader_close(sr_loader *l); /* waits for the workers; may be NULL */

/* The next update, freed by sr_update_free(); NULL after the last of a finite number of epochs.
 * Errors: those of sr_batch_make() and sr_epoch_build(), for the update that they belong to.
 * Another call returns the same failure; after SR_ESTOP, once the stop was cleared, it returns the
 * update. */
sr_status sr_loader_next(sr_update **out, sr_loader *l);

/* By order: appends the order of the next update, which workers make while earlier ones are in use.
 * For a resume the caller keeps the pending orders: seeking drops them.
 *
 * Errors: those of sr_order_given(); SR_EINVAL unless the loader draws by order */
sr_status sr_loader_push(sr_loader *l, const sr_given *given);

/* By order: appends the updates of a window (window.h) from number `from` on, as if the earlier
 * ones had been delivered.  Its `begin` has the totals before the window and the epoch of its
 * examples; its other fields are ignored. *end gets the totals after it.
 *
 * Errors: those of sr_window_new(); SR_EINVAL unless the loader draws by order and the window is
 * next */
struct sr_window_opts;
sr_status sr_loader_push_window(sr_loader *l, const struct sr_window_opts *window, int64_t from,
                                sr_counters *end);

/* The position of the next update, and seeking to one: the updates that follow are the same as
 * without a stop.
 * SR_EINVAL if the cursor is outside its epoch. */
sr_cursor sr_loader_cursor(const sr_loader *l);
sr_status sr_loader_seek(sr_loader *l, const sr_cursor *cursor);

/* An update of these examples of an epoch, in this order, with concepts masked as in the first
 * update: for tests, inspection and serving. */
sr_status sr_loader_update_of(sr_update **out, sr_loader *l, const uint32_t *uids, int64_t n,
                              uint32_t epoch, sr_arrange arrange);

/* An epoch's examples and plan, retained for the caller; built if it is not cached. */
sr_status sr_loader_epoch(sr_epoch **out, sr_loader *l, uint32_t epoch);

const sr_loader_opts *sr_loader_options(const sr_loader *l);
double sr_loader_waited(const sr_loader *l); /* total seconds that sr_loader_next() has waited */

SR_END_C
