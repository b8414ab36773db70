/* window.h - some consecutive updates of one length, whose sequences are arranged together.
 *
 * Few truncated sequences leave rows empty at the end of every batch; those of several updates fill
 * almost all (fill.h).  A window is decided once; the first worker that needs it arranges it.
 * Every update gets the same number of sequences and batches, and about equally many tokens.
 */
#ifndef SR_BATCH_WINDOW_H
#define SR_BATCH_WINDOW_H

#include "core/batch/cursor.h"
#include "core/batch/loader.h"
#include "core/batch/order.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_WINDOW_PIECES = 256 }; /* of a sequence, at most */

typedef struct sr_window_opts {
    const uint32_t *uid; /* (sequences) distinct */
    int64_t sequences, updates;
    int32_t max_len; /* longer sequences are truncated, or cut into pieces; 0: neither */
    bool pieces;
    double mask;     /* fraction of masked tokens; 0: the loader's */
    sr_cursor begin; /* of its first update */
} sr_window_opts;

typedef struct sr_window sr_window; /* reference-counted, thread-safe */

/* A window with one reference; uids are copied.
 *
 * Errors: SR_EINVAL  max_len or a uid out of range; fewer sequences than updates; pieces of pairs,
 *                    or too many of a sequence
 *         SR_ENOMEM */
sr_status sr_window_new(sr_window **out, sr_epoch *e, const sr_window_opts *opts);
sr_window *sr_window_retain(sr_window *w);
void sr_window_release(sr_window *w); /* may be NULL */

sr_cursor sr_window_end(const sr_window *w);
int64_t sr_window_updates(const sr_window *w);

/* The order of update `part` of the window, from 0: its groups are batches. */
sr_status sr_window_order(sr_order *out, sr_window *w, int64_t part, const sr_loader_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
