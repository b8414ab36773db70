/* window.h - some consecutive updates of one length, whose sequences are arranged together.
 *
 * A window is decided once; the first worker that needs it arranges it.
 *
 * Truncated sequences have nearly equal lengths, of which a pack of max_len tokens often holds no
 * whole number; a batch of several packs does, so here the unit is the batch.  Every update gets
 * the same number of sequences and of batches (give or take a sequence, if they do not divide), and
 * batches differ by at most one tile of SR_ROWS_UNIT rows.
 *
 * Longest first, most sequences go to the batch with most room, so that every batch has
 * sequences of all lengths; the shortest fill the gaps.  The number of tiles starts at its lower
 * bound, ceil(tokens / SR_ROWS_UNIT), and grows until everything fits: usually by one or two.
 */
#pragma once

#include "core/loader/cursor.h"
#include "core/loader/loader.h"
#include "core/loader/order.h"

SR_BEGIN_C

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

/* The order of update number `index` of the window, from 0: its groups are batches. */
sr_status sr_window_order(sr_order *out, sr_window *w, int64_t index, const sr_loader_opts *opts);

/* ---- the arrangement, for any lengths ---- */

typedef struct sr_window_pack_opts {
    int64_t updates; /* of the window, at most one per sequence */
    int64_t rows;    /* maximum rows of a batch, at least the longest sequence; 0: no limit */
    int64_t shares;  /* batches of an update are a multiple of it, if sequences allow; 0: any */
} sr_window_pack_opts;

typedef struct sr_window_packing {
    int32_t *batch; /* (sequences) batch b belongs to update b % updates */
    int64_t *rows;  /* (batches) multiples of SR_ROWS_UNIT */
    int64_t batches, tiles, bound;
} sr_window_packing;

/* Errors: SR_EINVAL  no sequences, or fewer than updates
 *         SR_ENOMEM
 * Cost:   about 1 ms for 1,000 sequences in 10 batches. */
sr_status sr_window_pack(sr_window_packing *out, const uint16_t *length, int64_t n,
                         const sr_window_pack_opts *opts);
void sr_window_packing_free(sr_window_packing *p); /* resets it to empty */

SR_END_C
