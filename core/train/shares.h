/* shares.h - the gradient of an update, summed the same way however its micro-batches are grouped.
 *
 * An update is cut into shares.  A share accumulates its micro-batches in order into params->grad,
 * which starts at zero; shares are then summed in a binary tree by index: neighbours (0, 1), (2, 3)
 * ... make the nodes of the next level, and a node without a neighbour moves up as it is.  Node i
 * of level l is the sum of shares [i 2^l, (i + 1) 2^l), so its bits do not depend on who computed
 * it: a rank computes some shares, sends their nodes, and receives those of other ranks.
 *
 * One share costs nothing: its sum is already in params->grad.  With n shares at most ceil(log2 n)
 * further stores are held; they are kept for the next update.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/train/params.h"

SR_BEGIN_C

enum { SR_MOST_SHARES = 4096, SR_MOST_NODES = 32 };

/* The sum of one subtree, waiting for its neighbour. */
typedef struct sr_share_node {
    int level;
    int64_t index;
    sr_tensor *sum; /* flat, as params->grad */
} sr_share_node;

typedef struct sr_shares {
    sr_params *params;   /* borrowed: outlives this */
    int64_t total;       /* shares of the update; 0: none has begun */
    int in_grad_level;   /* the node that sr_shares_end_joined() left in params->grad; */
    int64_t in_grad;     /* -1: none */
    sr_share_node *node; /* held, in no order */
    int64_t count, room;
    uint64_t version; /* of params->grad when the update began, or its last share here ended */
} sr_shares;

sr_status sr_shares_new(sr_shares **out, sr_params *params);
void sr_shares_free(sr_shares *shares); /* may be NULL */

/* Begins an update of `total` shares.  What params->grad holds already is added to its first share;
 * what is left of an unfinished update is first summed into it.
 *
 * Errors: SR_EINVAL  total outside [1, SR_MOST_SHARES] */
sr_status sr_shares_begin(sr_shares *shares, int64_t total);

/* Share `index` (from 0) is complete in params->grad: adds it to the tree.  Afterwards
 * params->grad is zero, or holds the sum of the update when nothing is missing.
 *
 * Errors: SR_EINVAL  no update has begun, or this share was added before
 *         SR_ENOMEM  params->grad still holds the share */
sr_status sr_shares_end(sr_shares *shares, int64_t index);

/* Adds the sums that wait for the last share `index` of a rank to the elements `range` of
 * params->grad, in the order of the tree, or with `all` everything that is waiting.  To be called
 * once for each element, also while the share is computed. */
sr_status sr_shares_join(sr_shares *shares, int64_t index, bool all, sr_range range);

/* As sr_shares_end(), after sr_shares_join() on all elements: the sum stays in params->grad. */
sr_status sr_shares_end_joined(sr_shares *shares, int64_t index, bool all);

/* Adds all waiting sums to params->grad, the highest shares first, and ends the update.  Does
 * nothing after a complete update. */
sr_status sr_shares_finish(sr_shares *shares);

/* The nodes that remain when shares [first, end) of `total` have ended: the fewest that cover them,
 * in order, with sum = NULL.  Returns how many, at most SR_MOST_NODES. */
int64_t sr_shares_nodes(sr_share_node *out, int64_t total, int64_t first, int64_t end);

/* Stores that a rank needs beside params->grad for shares [first, end) of `total`: the most sums
 * that wait at once.  joined: its last share ends by sr_shares_end_joined(). */
int64_t sr_shares_most(int64_t total, int64_t first, int64_t end, bool joined);

/* The sum of a node: NULL unless this rank holds it.  params->grad has the root of a complete
 * update, and the node that sr_shares_end_joined() left there. */
const sr_tensor *sr_shares_sum(const sr_shares *shares, int level, int64_t index);

/* Drops what is waiting and ends the update; params->grad is left as it is. */
void sr_shares_drop(sr_shares *shares);

SR_END_C
