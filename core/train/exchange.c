#include "core/train/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/loader/update.h"
#include "core/tensor/backend.h"
#include "core/tensor/grad.h"
#include "core/train/ready.h"

/* Neighbouring parameters whose gradients are sent together. */
typedef struct bucket {
    sr_range elements, params;
} bucket;

struct sr_exchange {
    sr_grad_watch watch; /* first: what backward passes call */
    sr_shares *shares;
    sr_comm *comm;
    sr_exchange_opts opts;
    sr_range *part;        /* (ranks) */
    bucket *bucket;        /* (buckets) from the end of the store, where backward passes begin */
    int64_t buckets, next; /* the first that was not sent */
    sr_ready ready;
    bool known; /* an earlier update has shown when gradients are complete */

    /* the current update */
    bool open, ended;    /* nodes are listed; the loop over batches has ended */
    int64_t last;        /* the share in params->grad, which joins others in buckets; -1: none */
    sr_share_node *node; /* (count) of all ranks; sum is a view of this rank's part */
    int64_t *first;      /* (ranks + 1) of each rank's in node */
    int64_t count;
    const sr_tensor *sum[SR_MOST_NODES]; /* of this rank's nodes, flat */
    sr_tensor *room;                     /* flat, for other ranks' nodes; NULL: none yet */
    uint64_t version;                    /* of params->grad after the last addition that was seen */
    int64_t changed;  /* a parameter that was added to after its bucket was sent; -1: none */
    sr_status failed; /* of a bucket that was sent during a backward pass */
    char why[1024];
};

static int64_t length_of(sr_range part) {
    return part.last - part.first;
}

static void cut_buckets(sr_exchange *x) {
    const sr_params *p = x->shares->params;
    sr_range elements = {p->stored, p->stored}, params = {p->count, p->count};
    while (params.first > 0) {
        elements.first = p->list[--params.first].offset;
        if (params.first > 0 && length_of(elements) < x->opts.bucket) continue;
        x->bucket[x->buckets++] = (bucket){elements, params};
        elements.last = elements.first;
        params.last = params.first;
    }
}

static void expects(sr_grad_watch *watch, sr_tensor *leaf);
static void added(sr_grad_watch *watch, sr_tensor *leaf);

static sr_status build(sr_exchange *x) {
    int ranks = x->comm->ranks;
    SR_TRY(sr_new(&x->part, ranks));
    SR_TRY(sr_new(&x->first, ranks + 1));
    SR_TRY(sr_new(&x->node, (int64_t)ranks * SR_MOST_NODES));
    SR_TRY(sr_new(&x->bucket, x->shares->params->count));
    for (int r = 0; r < ranks; r++) x->part[r] = sr_optim_cut(x->shares->params, r, ranks);
    cut_buckets(x);
    return sr_ready_init(&x->ready, x->shares->params);
}

sr_status sr_exchange_new(sr_exchange **out, sr_shares *shares, sr_comm *comm,
                          const sr_exchange_opts *opts) {
    *out = NULL;
    sr_exchange *x = NULL;
    SR_TRY(sr_new(&x, 1));
    x->watch = (sr_grad_watch){.expects = expects, .added = added};
    x->shares = shares;
    x->comm = comm;
    x->opts = *opts;
    x->last = x->changed = -1;
    sr_status st = build(x);
    return SR_GIVE(out, x, st, sr_exchange_free);
}

static void stop_watching(sr_exchange *x) {
    if (sr_grad_watched() == &x->watch) sr_grad_set_watch(NULL);
    x->comm->exchanging = false;
}

/* Releases the views of an update. */
static void drop_nodes(sr_exchange *x) {
    for (int64_t i = 0; i < x->count; i++) {
        sr_tensor_release(x->node[i].sum);
        x->node[i].sum = NULL;
    }
    x->count = 0;
}

static void end_update(sr_exchange *x) {
    stop_watching(x);
    drop_nodes(x);
    x->open = x->ended = false;
    x->last = x->changed = -1;
    x->failed = SR_OK;
}

void sr_exchange_free(sr_exchange *x) {
    if (x == NULL) return;
    end_update(x);
    sr_tensor_release(x->room);
    sr_ready_free(&x->ready);
    sr_free(x->bucket);
    sr_free(x->node);
    sr_free(x->first);
    sr_free(x->part);
    sr_free(x);
}

/* ---- before anything is sent ----------------------------------------------------------------- */

static sr_status view(sr_tensor **out, const sr_tensor *flat, int64_t first, int64_t n) {
    return sr_tensor_view(out, flat, 1, (int64_t[]){n}, (int64_t[]){1}, first);
}

/* Lists the nodes of all ranks. */
static void list_nodes(sr_exchange *x, int64_t total) {
    int ranks = x->comm->ranks;
    drop_nodes(x);
    for (int r = 0; r < ranks; r++) {
        x->first[r] = x->count;
        x->count += sr_shares_nodes(x->node + x->count, total, sr_first_share(total, r, ranks),
                                    sr_first_share(total, r + 1, ranks));
    }
    x->first[ranks] = x->count;
}

static sr_status left_early(const sr_exchange *x, int64_t share) {
    return sr_fail(SR_EINVAL,
                   "ranks: share %" PRId64 " of rank %d was not computed; with several ranks the "
                   "loop over update:batches() must not be left early",
                   share + 1, x->comm->rank);
}

/* Finds the sums of this rank's nodes. */
static sr_status find_sums(sr_exchange *x) {
    int64_t first = x->first[x->comm->rank], own = x->first[x->comm->rank + 1] - first;
    for (int64_t i = 0; i < own; i++) {
        const sr_share_node *node = &x->node[first + i];
        bool last = x->last >= 0 && i == own - 1;
        x->sum[i] =
            last ? x->shares->params->grad : sr_shares_sum(x->shares, node->level, node->index);
        if (x->sum[i] == NULL) return left_early(x, node->index << node->level);
    }
    return SR_OK;
}

/* Room for this rank's part of nodes that other ranks computed. */
static sr_status reserve(sr_exchange *x, int64_t elements) {
    if (elements == 0 || (x->room != NULL && sr_tensor_elements(x->room) >= elements)) return SR_OK;
    sr_tensor_release(x->room);
    x->room = NULL;
    return sr_params_flat(&x->room, x->shares->params->device, elements);
}

/* Views of this rank's part of every node: in its own sums, or in the room for received ones. */
static sr_status view_part(sr_exchange *x) {
    int rank = x->comm->rank;
    sr_range own = x->part[rank];
    int64_t n = length_of(own), at = 0;
    if (n == 0) return SR_OK;
    SR_TRY(reserve(x, (x->count - (x->first[rank + 1] - x->first[rank])) * n));
    for (int64_t i = 0; i < x->count; i++) {
        if (i >= x->first[rank] && i < x->first[rank + 1]) {
            SR_TRY(view(&x->node[i].sum, x->sum[i - x->first[rank]], own.first, n));
        } else {
            SR_TRY(view(&x->node[i].sum, x->room, at, n));
            at += n;
        }
    }
    return SR_OK;
}

/* A gradient added outside of shares would be lost, or counted on one rank only. */
static sr_status check_unchanged(const sr_exchange *x) {
    if (x->shares->params->grad->storage->version == x->shares->version) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "ranks: rank %d changed gradients outside of its shares; with several ranks, "
                   "compute them all in the loop over update:batches(), and do not leave it early",
                   x->comm->rank);
}

static sr_status open_update(sr_exchange *x, int64_t total, int64_t last) {
    if (total < 1 || total > SR_MOST_SHARES)
        return sr_fail(SR_EINVAL, "ranks: an update of %" PRId64 " shares; choose 1 to %d", total,
                       SR_MOST_SHARES);
    x->last = last;
    x->next = 0;
    list_nodes(x, total);
    SR_TRY(find_sums(x));
    if (last < 0) /* no share of this rank will add to its gradients */
        SR_TRY(sr_params_settle_grad(x->shares->params, (sr_range){0, x->shares->params->stored}));
    if (last < 0) SR_TRY(check_unchanged(x));
    if (!x->opts.library) SR_TRY(view_part(x));
    if (x->opts.library && last < 0) SR_TRY(sr_shares_finish(x->shares));
    x->open = true;
    return SR_OK;
}

/* ---- a bucket -------------------------------------------------------------------------------- */

typedef sr_status (*transfer)(sr_comm *comm, sr_tensor *x, int other);

/* A call on elements [first, first + n) of a flat tensor. */
static sr_status call(sr_exchange *x, transfer start, const sr_tensor *flat, int64_t first,
                      int64_t n, int other) {
    sr_tensor *elements; /* an engine may hold it until wait() */
    SR_TRY(view(&elements, flat, first, n));
    sr_status st = start(x->comm, elements, other);
    sr_tensor_release(elements);
    return st;
}

static sr_status start_send(sr_comm *comm, sr_tensor *x, int to) {
    return comm->engine->send(comm, x, to);
}

static sr_status start_receive(sr_comm *comm, sr_tensor *x, int from) {
    return comm->engine->receive(comm, x, from);
}

static sr_status start_reduce(sr_comm *comm, sr_tensor *x, int root) {
    return comm->engine->reduce(comm, x, root);
}

static sr_status start_all_reduce(sr_comm *comm, sr_tensor *x, int other) {
    (void)other;
    return comm->engine->all_reduce(comm, x);
}

static sr_status send_nodes(sr_exchange *x, sr_range elements, int to) {
    int64_t own = x->first[x->comm->rank + 1] - x->first[x->comm->rank];
    sr_range common = sr_range_common(elements, x->part[to]);
    for (int64_t i = 0; i < own && length_of(common) > 0; i++)
        SR_TRY(call(x, start_send, x->sum[i], common.first, length_of(common), to));
    return SR_OK;
}

static sr_status receive_nodes(sr_exchange *x, sr_range elements, int from) {
    sr_range own = x->part[x->comm->rank], common = sr_range_common(elements, own);
    if (length_of(common) == 0) return SR_OK;
    for (int64_t i = x->first[from]; i < x->first[from + 1]; i++) {
        const sr_tensor *sum = x->node[i].sum;
        SR_TRY(call(x, start_receive, sum, sum->offset + common.first - own.first,
                    length_of(common), from));
    }
    return SR_OK;
}

/* The lower rank sends first, so that blocking calls do not deadlock. */
static sr_status meet(sr_exchange *x, sr_range elements, int other) {
    if (other < x->comm->rank) {
        SR_TRY(receive_nodes(x, elements, other));
        return send_nodes(x, elements, other);
    }
    SR_TRY(send_nodes(x, elements, other));
    return receive_nodes(x, elements, other);
}

/* The partner in round r, from 1: ranks are paired the same way on both sides. */
static int rounds_of(const sr_comm *comm) {
    int rounds = 1;
    while (rounds < comm->ranks) rounds *= 2;
    return rounds;
}

static sr_status swap(sr_exchange *x, sr_range elements) {
    for (int round = 1; round < rounds_of(x->comm); round++) {
        int other = x->comm->rank ^ round;
        if (other < x->comm->ranks) SR_TRY(meet(x, elements, other));
    }
    return SR_OK;
}

/* Sums by the communication library: to the owner of each part, or to all ranks. */
static sr_status sum_up(sr_exchange *x, sr_range elements) {
    const sr_tensor *grad = x->shares->params->grad;
    if (!x->opts.sharded)
        return call(x, start_all_reduce, grad, elements.first, length_of(elements), 0);
    for (int r = 0; r < x->comm->ranks; r++) {
        sr_range common = sr_range_common(elements, x->part[r]);
        if (length_of(common) > 0)
            SR_TRY(call(x, start_reduce, grad, common.first, length_of(common), r));
    }
    return SR_OK;
}

static sr_status start_bucket(sr_exchange *x) {
    sr_range elements = x->bucket[x->next++].elements;
    SR_TRY(sr_params_settle_grad(x->shares->params, elements));
    if (x->last >= 0) SR_TRY(sr_shares_join(x->shares, x->last, x->opts.library, elements));
    SR_TRY(x->opts.library ? sum_up(x, elements) : swap(x, elements));
    x->version = x->shares->params->grad->storage->version;
    return x->comm->engine->progress(x->comm);
}

/* ---- during a backward pass ------------------------------------------------------------------ */

/* Whether these parameters are in a bucket that was sent. */
static bool is_under_way(const sr_exchange *x, sr_range params) {
    return x->open && x->next > 0 && params.last > x->bucket[x->next - 1].params.first;
}

static void expects(sr_grad_watch *watch, sr_tensor *leaf) {
    sr_exchange *x = (sr_exchange *)watch;
    sr_ready_expect(&x->ready, sr_ready_params(&x->ready, leaf->grad));
}

static sr_status start_ready(sr_exchange *x) {
    while (x->next < x->buckets && sr_ready_has(&x->ready, x->bucket[x->next].params))
        SR_TRY(start_bucket(x));
    return x->comm->engine->progress(x->comm);
}

static void added(sr_grad_watch *watch, sr_tensor *leaf) {
    sr_exchange *x = (sr_exchange *)watch;
    sr_range params = sr_ready_params(&x->ready, leaf->grad);
    if (length_of(params) == 0) return;
    sr_ready_add(&x->ready, params);
    x->version = x->shares->params->grad->storage->version;
    if (is_under_way(x, params)) x->changed = params.last - 1;
    if (!x->open || x->changed >= 0 || x->failed != SR_OK) return;
    x->failed = start_ready(x);
    if (x->failed != SR_OK) snprintf(x->why, sizeof x->why, "%s", sr_message());
}

sr_status sr_exchange_batch(sr_exchange *x, int64_t total, int64_t last) {
    if (!x->opts.overlap || x->comm->ranks == 1) return SR_OK;
    sr_ready_begin(&x->ready);
    sr_grad_set_watch(&x->watch);
    x->version = x->shares->params->grad->storage->version;
    if (last < 0 || !x->known) return SR_OK;
    SR_TRY(open_update(x, total, last));
    x->comm->exchanging = true;
    return SR_OK;
}

/* ---- after the loop -------------------------------------------------------------------------- */

static sr_status check_early(const sr_exchange *x) {
    if (x->failed != SR_OK) return sr_fail(x->failed, "%s", x->why);
    if (x->changed >= 0)
        return sr_fail(SR_EINVAL,
                       "ranks: '%s' got a gradient on rank %d after that of earlier backward "
                       "passes had been sent; set ranks.overlap=false",
                       x->shares->params->list[x->changed].name, x->comm->rank);
    if (x->open && x->next > 0 && x->version != x->shares->params->grad->storage->version)
        return sr_fail(SR_EINVAL,
                       "ranks: rank %d changed gradients after the backward pass, while they were "
                       "being sent; set ranks.overlap=false",
                       x->comm->rank);
    return SR_OK;
}

sr_status sr_exchange_rest(sr_exchange *x, int64_t total, int64_t last) {
    stop_watching(x);
    SR_TRY(check_early(x));
    if (x->open && x->last != last) return left_early(x, x->last);
    if (!x->open) SR_TRY(open_update(x, total, last));
    while (x->next < x->buckets) SR_TRY(start_bucket(x));
    if (last >= 0) SR_TRY(sr_shares_end_joined(x->shares, last, x->opts.library));
    x->ended = true;
    return SR_OK;
}

/* ---- the sum --------------------------------------------------------------------------------- */

/* Adds the last two of the `n` waiting nodes while they are neighbours; a node without a neighbour
 * moves up one level.  The sum replaces the left node. */
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

/* Nodes come in order, so the waiting ones are at most a path of the tree.  They reuse the places
 * of nodes that were added already. */
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
    sr_tensor *grad = x->shares->params->grad, *part = NULL;
    sr_range own = x->part[x->comm->rank];
    SR_TRY(view(&part, grad, own.first, length_of(own)));
    sr_status st = SR_OK;
    if (sr_tensor_data(x->node[0].sum) != sr_tensor_data(part))
        st = x->shares->params->device->backend->copy(part, x->node[0].sum);
    sr_tensor_wrote(grad);
    sr_tensor_release(part);
    return st;
}

static sr_status reduce(sr_exchange *x, int64_t total) {
    if (!x->ended) SR_TRY(sr_exchange_rest(x, total, -1));
    SR_TRY(check_unchanged(x));
    SR_TRY(x->comm->engine->wait(x->comm));
    x->known = true;
    if (x->opts.library) sr_tensor_wrote(x->shares->params->grad);
    if (x->opts.library || length_of(x->part[x->comm->rank]) == 0) return SR_OK;
    SR_TRY(add_nodes(x, total));
    return put_sum(x);
}

sr_status sr_exchange_reduce(sr_exchange *x, int64_t total) {
    sr_status st = reduce(x, total);
    end_update(x);
    if (st == SR_OK) sr_shares_drop(x->shares);
    return st;
}

/* ---- to all ---------------------------------------------------------------------------------- */

sr_status sr_exchange_gather(sr_exchange *x) {
    sr_tensor *grad = x->shares->params->grad;
    if (x->opts.library && !x->opts.sharded) return SR_OK;
    SR_TRY(sr_all_gather(x->comm, grad, x->part, 1));
    SR_TRY(x->comm->engine->wait(x->comm));
    sr_tensor_wrote(grad);
    return SR_OK;
}
