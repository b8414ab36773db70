/* grad.h - the tape: what was computed from what, and the way back.
 *
 * An op whose inputs want gradients records a node with a number from one rising counter.
 * sr_grad_backward() takes the pending node of the highest number, so every node runs after all
 * that used its outputs, and frees it at once: saved tensors return to the pool on the way.
 *
 *   leaf     a tensor with requires_grad; its gradient is added to leaf->grad
 *   edge     where a node's input came from: a leaf, or an output of an earlier node; it knows the
 *            shape and the dtype of that input
 *   saved    tensors a rule needs, kept as views without history, with the version of their
 *            storage; a write between forward and backward is an error
 *
 * A rule reads dy and fills dx:
 *   - parameter gradients go straight into leaf->grad by sr_grad_sink();
 *   - other gradients are new tensors (or dy itself) that the framework takes over.
 * A gradient of a gradient is not recorded.
 *
 * The gradient of an activation has the activation's dtype.  The gradient of a leaf adds up in f32
 * (f64 on `ref`) even when the leaf is bf16: sr_grad_dtype().  A rule may hand over either; the
 * framework converts.
 *
 * Recording is on unless the calling thread has paused it (sr_grad_set_recording).
 */
#ifndef SR_TENSOR_GRAD_H
#define SR_TENSOR_GRAD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/backend.h"
#include "core/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_NODE_INPUTS = 6, SR_NODE_SAVED = 10, SR_NODE_OUTPUTS = 4 };

typedef struct sr_edge {
    sr_tensor *leaf; /* or */
    sr_node *node;   /* both NULL: no gradient is wanted */
    int output;      /* of node */
    int ndim;
    int64_t shape[SR_MAX_DIMS]; /* of the input */
    sr_dtype dtype;             /* of the input */
} sr_edge;

typedef struct sr_saved {
    sr_tensor *tensor;
    uint64_t version;
} sr_saved;

/* One backward pass under way. */
typedef struct sr_backward {
    bool retain; /* keep the graph for another pass */
    void *host;  /* the caller's, for rules written in a host language */
} sr_backward;

/* How an op goes back.  node->dy[k] is the gradient of output k, or NULL when nothing reached it
 * (at least one is not NULL); dx[i] is NULL on entry and stays so where node->edge[i] wants
 * nothing. */
typedef struct sr_rule {
    const char *name;
    sr_status (*backward)(sr_node *node, sr_tensor **dx, sr_backward *pass);
} sr_rule;

struct sr_node {
    struct sr_node *next; /* free list; nodes about to go */
    const sr_rule *rule;
    sr_device *device;
    uint64_t sequence;
    int32_t refs;
    bool queued, released;
    int outputs, inputs;
    sr_edge *edge;
    sr_edge few[SR_NODE_INPUTS]; /* edge points here unless there are more */
    sr_saved saved[SR_NODE_SAVED];
    sr_tensor *dy[SR_NODE_OUTPUTS];
    /* what the rule was told when the op ran */
    sr_layout *layout;
    sr_dropout drop;
    int op; /* sr_unary, sr_binary, sr_act, a dimension, a number of heads ... */
    int64_t number[SR_MAX_DIMS];
    double scalar;
    void *closure; /* of a rule written elsewhere */
    void (*free_closure)(void *closure);
};

/* True when recording is on and one of the tensors (NULLs allowed) is a leaf or recorded. */
bool sr_grad_wanted(int count, sr_tensor *const *inputs);
static inline bool sr_grad_tracks(const sr_tensor *t) {
    return t != NULL && (t->requires_grad || t->node != NULL);
}

bool sr_grad_recording(void);
bool sr_grad_set_recording(bool on); /* returns what it was before */

/* A node of `rule` over `inputs` (NULLs allowed), not yet attached to outputs; freed by
 * sr_node_release().  SR_ENOMEM. */
sr_status sr_node_new(sr_node **out, const sr_rule *rule, sr_device *device, int inputs,
                      sr_tensor *const *input);
/* Keeps `t` (NULL allowed) for backward as node->saved[slot]. */
sr_status sr_node_save(sr_node *node, int slot, const sr_tensor *t);
void sr_node_set_layout(sr_node *node, const sr_layout *layout); /* NULL is allowed */
/* Makes `y` output number `output` of the node. */
void sr_node_attach(sr_node *node, sr_tensor *y, int output);
void sr_node_release(sr_node *node); /* NULL is allowed */

static inline bool sr_node_wants(const sr_node *node, int input) {
    return node->edge[input].leaf != NULL || node->edge[input].node != NULL;
}

/* The dtype of a leaf's gradient: the leaf's own, but f32 (f64 on ref) for a bf16 leaf. */
sr_dtype sr_grad_dtype(const sr_tensor *leaf);

/* The dtype in which the gradient that goes along an edge is taken up. */
static inline sr_dtype sr_edge_grad_dtype(const sr_edge *e) {
    return e->leaf != NULL ? sr_grad_dtype(e->leaf) : e->dtype;
}

/* For rules: *sink is a tensor of input i's shape that a kernel may add (+=) to, of the device's
 * real dtype: the leaf's own gradient, then dx[i] stays NULL, or a new zero tensor that is also in
 * dx[i].  NULL when no gradient is wanted.  Not to be released by the rule. */
sr_status sr_grad_sink(sr_node *node, sr_tensor **dx, int i, sr_tensor **sink);

/* Runs back from `roots`, whose gradients are `seeds` (NULL: ones, the root must have one element).
 *
 * Errors: SR_EINVAL  a root has no history, the graph was released by an earlier pass, a saved
 * tensor was written to or has expired any failure of a rule; gradients of leaves are then partly
 * added up
 */
sr_status sr_grad_backward(int count, sr_tensor *const *roots, sr_tensor *const *seeds,
                           sr_backward *pass);

/* Makes the bytes of g (NULL: none) the gradient that passes add to.  SR_EINVAL unless g has the
 * leaf's device and shape, the dtype of its gradient, and every element a place of its own. */
sr_status sr_grad_set(sr_tensor *leaf, sr_tensor *g);

#ifdef __cplusplus
}
#endif
#endif
