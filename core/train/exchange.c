#include "core/train/exchange.h"

#include <inttypes.h>

#include "core/base/mem.h"
#include "core/batch/part.h"
#include "core/tensor/backend.h"

struct sr_exchange {
    sr_shares *shares;
    sr_comm *comm;
    sr_range *piece;     /* (ranks) */
    sr_share_node *node; /* (count) of the update under way, in order of their shares; sum is a view
                            of the own piece */
    int64_t *first;      /* (ranks + 1) of each rank's in node */
    int64_t count;
    sr_tensor **out; /* (own nodes, ranks) views of what is sent */
    sr_tensor *room; /* flat, for the nodes of others; NULL: none yet */
};

static int64_t length_of(sr_range piece) {
    return piece.last - piece.first;
}

sr_range sr_exchange_piece(const sr_exchange *x, int rank) {
    return x->piece[rank];
}

static sr_status build(sr_exchange *x) {
    int ranks = x->comm->ranks;
    SR_TRY(sr_new(&x->piece, ranks));
    SR_TRY(sr_new(&x->first, ranks + 1));
    SR_TRY(sr_new(&x->node, (int64_t)ranks * SR_MOST_NODES));
    SR_TRY(sr_new(&x->out, (int64_t)ranks * SR_MOST_NODES));
    for (int r = 0; r < ranks; r++) x->piece[r] = sr_optim_cut(x->shares->params, r, ranks);
    return SR_OK;
}

sr_status sr_exchange_new(sr_exchange **out, sr_shares *shares, sr_comm *comm) {
    *out = NULL;
    sr_exchange *x = NULL;
    SR_TRY(sr_new(&x, 1));
    x->shares = shares;
    x->comm = comm;
    sr_status st = build(x);
    if (st != SR_OK) {
        sr_exchange_free(x);
        return st;
    }
    *out = x;
    return SR_OK;
}

/* Releases the views of an update. */
static void end_update(sr_exchange *x) {
    for (int64_t i = 0; x->node != NULL && i < x->count; i++) {
        sr_tensor_release(x->node[i].sum);
        x->node[i].sum = NULL;
    }
    x->count = 0;
    for (int64_t i = 0; x->out != NULL && i < (int64_t)x->comm->ranks * SR_MOST_NODES; i++) {
        sr_tensor_release(x->out[i]);
        x->out[i] = NULL;
    }
}

void sr_exchange_free(sr_exchange *x) {
    if (x == NULL) return;
    end_update(x);
    sr_tensor_release(x->room);
    sr_free(x->out);
    sr_free(x->node);
    sr_free(x->first);
    sr_free(x->piece);
    sr_free(x);
}

/* ---- before anything is sent ------------------------------------------------------------------
 */

static sr_status view(sr_tensor **out, const sr_tensor *flat, int64_t first, int64_t n) {
    return sr_tensor_view(out, flat, 1, (int64_t[]){n}, (int64_t[]){1}, first);
}

/* Whose nodes there are. */
static void list_nodes(sr_exchange *x, int64_t total) {
    int ranks = x->comm->ranks;
    x->count = 0;
    for (int r = 0; r < ranks; r++) {
        x->first[r] = x->count;
        x->count += sr_shares_nodes(x->node + x->count, total, sr_part_first(total, r, ranks),
                                    sr_part_first(total, r + 1, ranks));
    }
    x->first[ranks] = x->count;
}

static bool is_own(const sr_exchange *x, int64_t node) {
    int rank = x->comm->rank;
    return node >= x->first[rank] && node < x->first[rank + 1];
}

static sr_status view_own(sr_exchange *x, int64_t i) {
    const sr_share_node *node = &x->node[i];
    const sr_tensor *sum = sr_shares_sum(x->shares, node->level, node->index);
    if (sum == NULL)
        return sr_fail(SR_EINVAL,
                       "ranks: share %" PRId64 " of rank %d was not computed; with several ranks "
                       "the loop over update:batches() must not be left early",
                       (node->index << node->level) + 1, x->comm->rank);
    int64_t at = (i - x->first[x->comm->rank]) * x->comm->ranks;
    for (int r = 0; r < x->comm->ranks; r++)
        if (r != x->comm->rank && length_of(x->piece[r]) > 0)
            SR_TRY(view(&x->out[at + r], sum, x->piece[r].first, length_of(x->piece[r])));
    sr_range own = x->piece[x->comm->rank];
    return length_of(own) > 0 ? view(&x->node[i].sum, sum, own.first, length_of(own)) : SR_OK;
}

/* Memory for the own piece of so many nodes of others. */
static sr_status reserve(sr_exchange *x, int64_t elements) {
    if (elements == 0 || (x->room != NULL && sr_tensor_elements(x->room) >= elements)) return SR_OK;
    sr_tensor_release(x->room);
    x->room = NULL;
    return sr_params_flat(&x->room, x->shares->params->device, elements);
}

/* What is added to params->grad outside of shares would be lost, or be that of one rank. */
static sr_status check_unchanged(const sr_exchange *x) {
    if (x->shares->params->grad->storage->version == x->shares->version) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "ranks: rank %d changed gradients outside of its shares; with several ranks, "
                   "compute them all in the loop over update:batches(), and do not leave it early",
                   x->comm->rank);
}

static sr_status view_all(sr_exchange *x) {
    int64_t own = x->first[x->comm->rank + 1] - x->first[x->comm->rank];
    int64_t n = length_of(x->piece[x->comm->rank]), at = 0;
    SR_TRY(reserve(x, (x->count - own) * n));
    for (int64_t i = 0; i < x->count; i++) {
        if (is_own(x, i)) {
            SR_TRY(view_own(x, i));
        } else if (n > 0) {
            SR_TRY(view(&x->node[i].sum, x->room, at, n));
            at += n;
        }
    }
    return SR_OK;
}

/* ---- rounds -----------------------------------------------------------------------------------
 */

/* In round r, from 1, ranks meet in pairs, the same on both sides, so that calls that block end. */
static int rounds_of(const sr_comm *comm) {
    int rounds = 1;
    while (rounds < comm->ranks) rounds *= 2;
    return rounds;
}

static sr_status send_nodes(sr_exchange *x, int to) {
    int64_t own = x->first[x->comm->rank + 1] - x->first[x->comm->rank];
    if (length_of(x->piece[to]) == 0) return SR_OK;
    for (int64_t i = 0; i < own; i++)
        SR_TRY(x->comm->engine->send(x->comm, x->out[i * x->comm->ranks + to], to));
    return SR_OK;
}

static sr_status receive_nodes(sr_exchange *x, int from) {
    if (length_of(x->piece[x->comm->rank]) == 0) return SR_OK;
    for (int64_t i = x->first[from]; i < x->first[from + 1]; i++)
        SR_TRY(x->comm->engine->receive(x->comm, x->node[i].sum, from));
    return SR_OK;
}

static sr_status meet(sr_exchange *x, int other) {
    if (other < x->comm->rank) {
        SR_TRY(receive_nodes(x, other));
        return send_nodes(x, other);
    }
    SR_TRY(send_nodes(x, other));
    return receive_nodes(x, other);
}

static sr_status send_and_receive(sr_exchange *x) {
    sr_status st = SR_OK;
    for (int round = 1; round < rounds_of(x->comm) && st == SR_OK; round++)
        if ((x->comm->rank ^ round) < x->comm->ranks) st = meet(x, x->comm->rank ^ round);
    sr_status ended = x->comm->engine->wait(x->comm);
    return st != SR_OK ? st : ended;
}

/* ---- the sum ----------------------------------------------------------------------------------
 */

/* Adds the last two of the `n` nodes that wait while they are neighbours; a node without one moves
 * up.  The sum takes the place of the left one. */
static sr_status join(sr_exchange *x, sr_share_node *wait, int64_t *n, int64_t total) {
    const sr_backend *backend = x->shares->params->device->backend;
    for (;;) {
        sr_share_node *last = &wait[*n - 1];
        int64_t width = (total + (INT64_C(1) << last->level) - 1) >> last->level;
        if (width <= 1) return SR_OK;
        if ((last->index ^ 1) < width) {
            if (*n < 2) return SR_OK;
            sr_share_node *left = last - 1;
            if (left->level != last->level || left->index != (last->index ^ 1)) return SR_OK;
            SR_TRY(backend->axpby(left->sum, last->sum, 1.0, 1.0));
            sr_tensor_release(last->sum);
            last->sum = NULL;
            last = left;
            (*n)--;
        }
        last->level++;
        last->index >>= 1;
    }
}

/* The nodes come in order, so that those that wait for a neighbour are at most a path of the tree;
 * they take the places of nodes that were added up before. */
static sr_status add_nodes(sr_exchange *x, int64_t total) {
    int64_t n = 0;
    for (int64_t i = 0; i < x->count; i++) {
        sr_share_node node = x->node[i];
        x->node[i].sum = NULL;
        x->node[n++] = node;
        SR_TRY(join(x, x->node, &n, total));
    }
    return SR_OK;
}

static sr_status put_sum(sr_exchange *x) {
    sr_tensor *grad = x->shares->params->grad, *piece = NULL;
    sr_range own = x->piece[x->comm->rank];
    SR_TRY(view(&piece, grad, own.first, length_of(own)));
    sr_status st = SR_OK;
    if (sr_tensor_data(x->node[0].sum) != sr_tensor_data(piece))
        st = x->shares->params->device->backend->copy(piece, x->node[0].sum);
    sr_tensor_wrote(grad);
    sr_tensor_release(piece);
    return st;
}

static sr_status reduce(sr_exchange *x, int64_t total) {
    SR_TRY(view_all(x));
    SR_TRY(check_unchanged(x));
    SR_TRY(send_and_receive(x));
    if (length_of(x->piece[x->comm->rank]) == 0) return SR_OK;
    SR_TRY(add_nodes(x, total));
    return put_sum(x);
}

sr_status sr_exchange_reduce(sr_exchange *x, int64_t total) {
    if (total < 1 || total > SR_MOST_SHARES)
        return sr_fail(SR_EINVAL, "ranks: an update of %" PRId64 " shares; choose 1 to %d", total,
                       SR_MOST_SHARES);
    list_nodes(x, total);
    sr_status st = reduce(x, total);
    end_update(x);
    if (st == SR_OK) sr_shares_drop(x->shares);
    return st;
}

/* ---- to all -----------------------------------------------------------------------------------
 */

sr_status sr_exchange_gather(sr_exchange *x) {
    sr_tensor *grad = x->shares->params->grad;
    sr_status st = SR_OK;
    for (int r = 0; r < x->comm->ranks && st == SR_OK; r++) {
        if (length_of(x->piece[r]) == 0) continue;
        st = view(&x->out[r], grad, x->piece[r].first, length_of(x->piece[r]));
        if (st == SR_OK) st = x->comm->engine->broadcast(x->comm, x->out[r], r);
    }
    sr_status ended = x->comm->engine->wait(x->comm);
    end_update(x);
    sr_tensor_wrote(grad);
    return st != SR_OK ? st : ended;
}

sr_status sr_exchange_library(sr_exchange *x) {
    sr_tensor *grad = x->shares->params->grad;
    SR_TRY(check_unchanged(x));
    SR_TRY(sr_shares_finish(x->shares));
    SR_TRY(x->comm->engine->all_reduce(x->comm, grad));
    sr_tensor_wrote(grad);
    return x->comm->engine->wait(x->comm);
}
