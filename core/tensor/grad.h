/* grad.h - the tape: records ops and computes gradients.
 *
 * An op whose inputs need gradients records a node, numbered by a counter.  sr_grad_backward()
 * always runs the pending node with the highest number, so every node runs after all nodes that
 * used its outputs, and frees it at once, which returns its saved tensors to the pool.
 *
 *   leaf     a tensor with requires_grad; its gradient is added to leaf->grad
 *   edge     the origin of a node's input: a leaf, or an output of an earlier node; with the shape
 *            and the dtype of that input
 *   saved    tensors a rule needs, kept as views without history, with the version of their
 *            storage; a write between forward and backward is an error
 *
 * A rule reads dy and fills dx:
 *   - parameter gradients go straight into leaf->grad by sr_grad_sink();
 *   - other gradients are new tensors (or dy itself), whose ownership passes to the framework.
 * Gradients of gradients are not supported.
 *
 * The gradient of an activation has the activation's dtype.  The gradient of a leaf adds up in f32
 * (f64 on `ref`) even if the leaf is bf16: sr_grad_dtype().  A rule may return either; the
 * framework converts.
 *
 * Recording is on unless the calling thread has paused it (sr_grad_set_recording).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/backend.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

enum { SR_NODE_INPUTS = 6, SR_NODE_SAVED = 10, SR_NODE_OUTPUTS = 4 };

typedef struct sr_edge {
    sr_tensor *leaf; /* or */
    sr_node *node;   /* both NULL: no gradient is needed */
    int output;      /* of node */
    int ndim;
    int64_t shape[SR_MAX_DIMS]; /* of the input */
    sr_dtype dtype;             /* of the input */
} sr_edge;

typedef struct sr_saved {
    sr_tensor *tensor;
    uint64_t version;
} sr_saved;

/* A backward pass in progress. */
typedef struct sr_backward {
    bool retain; /* keep the graph for another pass */
    void *host;  /* the caller's, for rules written in a host language */
} sr_backward;

/* The backward of an op.  node->dy[k] is the gradient of output k, or NULL if there is none (at
 * least one is not NULL); dx[i] is NULL on entry and stays NULL if node->edge[i] needs no gradient.
 */
typedef struct sr_rule {
    const char *name;
    sr_status (*backward)(sr_node *node, sr_tensor **dx);
} sr_rule;

struct sr_node {
    struct sr_node *next; /* free list; nodes to be freed */
    const sr_rule *rule;
    sr_device *device;
    uint64_t sequence;
    int32_t refs;
    bool queued, released;
    int outputs, inputs;
    int users; /* edges of other nodes to it, and passes that began at it */
    sr_edge *edge;
    sr_edge few[SR_NODE_INPUTS]; /* storage of `edge` if there are few */
    sr_saved saved[SR_NODE_SAVED];
    sr_tensor *dy[SR_NODE_OUTPUTS];
    /* arguments of the op for the rule */
    sr_layout *layout;
    sr_dropout drop;
    int op; /* sr_unary, sr_binary, sr_act, a dimension, a number of heads ... */
    int64_t number[SR_MAX_DIMS];
    double scalar;
    const sr_backward *pass; /* that runs the rule */
    void *closure;           /* of a rule in a host language */
    void (*free_closure)(void *closure);
};

/* True when recording is on and one of the tensors (NULLs allowed) is a leaf or recorded. */
bool sr_grad_wanted(int count, sr_tensor *const *inputs);
static inline bool sr_grad_tracks(const sr_tensor *t) {
    return t != NULL && (t->requires_grad || t->node != NULL);
}

bool sr_grad_recording(void);
bool sr_grad_set_recording(bool on); /* returns the previous value */

/* A node of `rule` over `inputs` (NULLs allowed), not yet attached to outputs; freed by
 * sr_node_release().  SR_ENOMEM. */
sr_status sr_node_new(sr_node **out, const sr_rule *rule, sr_device *device, int inputs,
                      sr_tensor *const *input);
/* Keeps `t` (NULL allowed) for backward as node->saved[slot]. */
sr_status sr_node_save(sr_node *node, int slot, const sr_tensor *t);
void sr_node_set_layout(sr_node *node, const sr_layout *layout); /* may be NULL */
/* Sets `y` as output number `output` of the node. */
void sr_node_attach(sr_node *node, sr_tensor *y, int output);
void sr_node_release(sr_node *node); /* may be NULL */

static inline bool sr_node_wants(const sr_node *node, int input) {
    return node->edge[input].leaf != NULL || node->edge[input].node != NULL;
}

/* The dtype of a leaf's gradient: the leaf's own, but f32 (f64 on ref) for a bf16 leaf. */
sr_dtype sr_grad_dtype(const sr_tensor *leaf);

/* The dtype in which the gradient of an edge is accumulated. */
static inline sr_dtype sr_edge_grad_dtype(const sr_edge *e) {
    return e->leaf != NULL ? sr_grad_dtype(e->leaf) : e->dtype;
}

/* For rules: *sink is a tensor of input i's shape that a kernel may add (+=) to, of the device's
 * compute dtype: the leaf's own gradient, then dx[i] stays NULL, or a new zero tensor that is also
 * in dx[i].  NULL if no gradient is needed.  The rule must not release it. */
sr_status sr_grad_sink(sr_node *node, sr_tensor **dx, int i, sr_tensor **sink);

/* The same for a kernel that can also write: *first, where the sink counts as zeros but holds
 * anything, so that it must be written. */
sr_status sr_grad_first_sink(sr_node *node, sr_tensor **dx, int i, sr_tensor **sink, bool *first);

/* For rules: the gradient that the origin of input i has from ops that were recorded later, of
 * sr_edge_grad_dtype(), if a kernel may add to it: the caller's from now on, to be returned in
 * dx[i].  NULL if there is none. */
sr_tensor *sr_grad_take(sr_node *node, int i);

/* Told what backward passes of this thread do to leaves. */
typedef struct sr_grad_watch {
    /* A pass begins that will add to this leaf: once for each time, as far as its graph shows.  The
     * passes that a rule runs itself (recomputation) announce themselves when they begin. */
    void (*expects)(struct sr_grad_watch *watch, sr_tensor *leaf);
    /* It has added to leaf->grad. */
    void (*added)(struct sr_grad_watch *watch, sr_tensor *leaf);
} sr_grad_watch;

sr_grad_watch *sr_grad_watched(void);         /* of the calling thread; NULL: none */
void sr_grad_set_watch(sr_grad_watch *watch); /* borrowed until another one is set */

/* Runs backward from `roots`, whose gradients are `seeds` (NULL: 1, for roots with one element).
 *
 * Errors: SR_EINVAL  a root has no history, the graph was released by an earlier pass, or a saved
 *                    tensor was written to or has expired
 *         and any failure of a rule; some gradients have then been added to leaves
 */
sr_status sr_grad_backward(int count, sr_tensor *const *roots, sr_tensor *const *seeds,
                           sr_backward *pass);

/* Makes the bytes of g (NULL: none) the gradient that passes add to.  SR_EINVAL unless g has the
 * leaf's device and shape, the dtype of its gradient, and no two elements in one place. */
sr_status sr_grad_set(sr_tensor *leaf, sr_tensor *g);

SR_END_C
