#include "core/train/shares.h"

#include <inttypes.h>

#include "core/base/mem.h"
#include "core/tensor/backend.h"

sr_status sr_shares_new(sr_shares **out, sr_params *params) {
    SR_TRY(sr_new(out, 1));
    (*out)->params = params;
    (*out)->in_grad = -1;
    return SR_OK;
}

void sr_shares_free(sr_shares *s) {
    if (s == NULL) return;
    for (int64_t i = 0; i < s->room; i++) sr_tensor_release(s->node[i].sum);
    sr_free(s->node);
    sr_free(s);
}

sr_status sr_shares_begin(sr_shares *s, int64_t total) {
    if (total < 1 || total > SR_MOST_SHARES)
        return sr_fail(SR_EINVAL, "shares: an update of %" PRId64 " shares; choose 1 to %d", total,
                       SR_MOST_SHARES);
    SR_TRY(sr_shares_finish(s));
    s->total = total;
    s->version = s->params->grad->storage->version;
    return SR_OK;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static int64_t nodes_at(int64_t total, int level) {
    return (total + (INT64_C(1) << level) - 1) >> level;
}

static int64_t nodes_of(const sr_shares *s, int level) {
    return nodes_at(s->total, level);
}

/* The first share after a node. */
static int64_t end_of(int64_t total, int level, int64_t index) {
    int64_t end = (index + 1) << level;
    return end < total ? end : total;
}

int64_t sr_shares_nodes(sr_share_node *out, int64_t total, int64_t first, int64_t end) {
    int64_t n = 0;
    while (first < end) {
        int level = 0;
        int64_t index = first;
        for (; nodes_at(total, level) > 1; level++, index >>= 1) {
            bool alone = (index ^ 1) >= nodes_at(total, level);
            bool left = (index & 1) == 0;
            if (!alone && (!left || end_of(total, level, index + 1) > end)) break;
        }
        out[n++] = (sr_share_node){.level = level, .index = index};
        first = end_of(total, level, index);
    }
    return n;
}

int64_t sr_shares_most(int64_t total, int64_t first, int64_t end, bool joined) {
    sr_share_node node[SR_MOST_NODES];
    int64_t most = 0;
    for (int64_t share = first; share < end; share++) {
        bool last = share == end - 1;
        bool in_grad = last && (joined || (first == 0 && end == total));
        int64_t n = sr_shares_nodes(node, total, first, share) + (in_grad ? 0 : 1);
        if (n > most) most = n;
    }
    return most;
}

const sr_tensor *sr_shares_sum(const sr_shares *s, int level, int64_t index) {
    for (int64_t i = 0; i < s->count; i++)
        if (s->node[i].level == level && s->node[i].index == index) return s->node[i].sum;
    bool root = index == 0 && s->total == 0 && s->count == 0;
    bool left = s->in_grad == index && s->in_grad_level == level;
    return root || left ? s->params->grad : NULL;
}

static int64_t find(const sr_shares *s, int level, int64_t index) {
    for (int64_t i = 0; i < s->count; i++)
        if (s->node[i].level == level && s->node[i].index == index) return i;
    return -1;
}

/* Whether share `share` is part of a node that is held. */
static bool is_held(const sr_shares *s, int64_t share) {
    for (int64_t i = 0; i < s->count; i++)
        if (share >> s->node[i].level == s->node[i].index) return true;
    return s->in_grad >= 0 && share >> s->in_grad_level == s->in_grad;
}

static sr_status check_share(const sr_shares *s, int64_t i) {
    if (s->total == 0) return sr_fail(SR_EINVAL, "shares: no update has begun; begin one first");
    if (i < 0 || i >= s->total)
        return sr_fail(SR_EINVAL, "shares: an update of %" PRId64 " shares has no share %" PRId64,
                       s->total, i);
    if (is_held(s, i)) return sr_fail(SR_EINVAL, "shares: share %" PRId64 " was added before", i);
    return SR_OK;
}

/* Room for one more waiting sum, its tensor made. */
static sr_status reserve(sr_shares *s) {
    if (s->count == s->room) {
        SR_TRY(sr_grow(&s->node, s->room + 1));
        s->node[s->room++].sum = NULL;
    }
    sr_share_node *node = &s->node[s->count];
    if (node->sum != NULL) return SR_OK;
    return sr_params_flat(&node->sum, s->params->device, s->params->stored);
}

static sr_tensor part_of(const sr_tensor *flat, sr_range range) {
    sr_tensor part = *flat;
    part.offset += range.first;
    part.shape[0] = range.last - range.first;
    return part;
}

static sr_status add_part(sr_shares *s, int64_t i, sr_range range) {
    const sr_backend *backend = s->params->device->backend;
    if (backend->axpby == NULL) return sr_backend_lacks(s->params->device, "axpby");
    SR_TRY(sr_params_settle_grad(s->params, range));
    sr_tensor grad = part_of(s->params->grad, range), sum = part_of(s->node[i].sum, range);
    SR_TRY(backend->axpby(&grad, &sum, 1.0, 1.0));
    s->params->grad->storage->version++;
    return SR_OK;
}

/* Drops a node but keeps its store for the next one. */
static void forget(sr_shares *s, int64_t i) {
    sr_share_node used = s->node[i];
    s->node[i] = s->node[--s->count];
    s->node[s->count].sum = used.sum;
}

static sr_status add_to_grad(sr_shares *s, int64_t i) {
    SR_TRY(add_part(s, i, (sr_range){0, s->params->stored}));
    forget(s, i);
    return SR_OK;
}

/* Keeps params->grad as a node and clears it. */
static sr_status hold(sr_shares *s, int level, int64_t index) {
    SR_TRY(sr_params_settle_grad(s->params, (sr_range){0, s->params->stored}));
    SR_TRY(s->params->device->backend->copy(s->node[s->count].sum, s->params->grad));
    s->node[s->count].level = level;
    s->node[s->count].index = index;
    s->count++;
    return sr_params_zero_grad(s->params);
}

/* The neighbour whose sum would complete the parent of this node: -1 at the end of a level. */
static int64_t neighbour(const sr_shares *s, int level, int64_t index) {
    int64_t other = index ^ 1;
    return other < nodes_of(s, level) ? other : -1;
}

/* Whether the share in params->grad completes the update. */
static bool reaches_root(const sr_shares *s, int64_t index) {
    for (int level = 0; nodes_of(s, level) > 1; level++, index >>= 1) {
        int64_t other = neighbour(s, level, index);
        if (other >= 0 && find(s, level, other) < 0) return false;
    }
    return true;
}

/* params->grad holds this share: adds the neighbours that are waiting, level by level. */
static sr_status join(sr_shares *s, int64_t index) {
    int level = 0;
    if (!reaches_root(s, index)) SR_TRY(reserve(s));
    for (; nodes_of(s, level) > 1; level++, index >>= 1) {
        int64_t other = neighbour(s, level, index);
        if (other < 0) continue;
        int64_t at = find(s, level, other);
        if (at < 0) return hold(s, level, index);
        SR_TRY(add_to_grad(s, at));
    }
    s->total = 0; /* the root: the update is complete */
    return SR_OK;
}

sr_status sr_shares_end(sr_shares *s, int64_t index) {
    SR_TRY(check_share(s, index));
    sr_status st = join(s, index);
    s->version = s->params->grad->storage->version;
    return st;
}

/* ---- the last share of a rank, part by part -------------------------------------------------- */

/* The waiting neighbours of a node in params->grad, in order; returns how many, and the node that
 * they make with it. */
static int64_t partners(const sr_shares *s, int64_t *partner, int *level, int64_t *index) {
    int64_t n = 0;
    for (; nodes_of(s, *level) > 1; ++*level, *index >>= 1) {
        int64_t other = neighbour(s, *level, *index);
        if (other < 0) continue;
        int64_t at = find(s, *level, other);
        if (at < 0) return n;
        partner[n++] = at;
    }
    return n;
}

sr_status sr_shares_join(sr_shares *s, int64_t index, bool all, sr_range range) {
    int64_t partner[SR_MOST_NODES];
    int level = 0;
    SR_TRY(check_share(s, index));
    int64_t n = all ? s->count : partners(s, partner, &level, &index);
    for (int64_t i = 0; i < n; i++) SR_TRY(add_part(s, all ? i : partner[i], range));
    return SR_OK;
}

sr_status sr_shares_end_joined(sr_shares *s, int64_t index, bool all) {
    int64_t partner[SR_MOST_NODES];
    int level = 0;
    SR_TRY(check_share(s, index));
    if (all) {
        s->count = s->total = 0;
    } else {
        int64_t n = partners(s, partner, &level, &index);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = i + 1; j < n; j++)
                if (partner[j] == s->count - 1) partner[j] = partner[i];
            forget(s, partner[i]);
        }
        s->in_grad_level = level;
        s->in_grad = index;
        if (nodes_of(s, level) <= 1) s->total = 0;
    }
    s->version = s->params->grad->storage->version;
    return SR_OK;
}

sr_status sr_shares_finish(sr_shares *s) {
    while (s->count > 0) {
        int64_t last = 0;
        for (int64_t i = 1; i < s->count; i++)
            if (s->node[i].index << s->node[i].level > s->node[last].index << s->node[last].level)
                last = i;
        SR_TRY(add_to_grad(s, last));
    }
    s->total = 0;
    s->in_grad = -1;
    return SR_OK;
}

void sr_shares_drop(sr_shares *s) {
    s->count = 0;
    s->total = 0;
    s->in_grad = -1;
}
