#include "core/tensor/grad.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/blank.h"
#include "core/tensor/ops.h"
#include "core/tensor/scope.h"
#include "core/tensor/storage.h"

/* Recording and the watch are properties of the calling thread, like errno.  One counter numbers
 * the nodes of all devices, so that a graph can span several. */
static _Thread_local bool paused;
static _Thread_local sr_grad_watch *watched;
static _Atomic uint64_t last_sequence;

bool sr_grad_recording(void) {
    return !paused;
}

bool sr_grad_set_recording(bool on) {
    bool before = !paused;
    paused = !on;
    return before;
}

sr_grad_watch *sr_grad_watched(void) {
    return watched;
}

void sr_grad_set_watch(sr_grad_watch *watch) {
    watched = watch;
}

bool sr_grad_wanted(int count, sr_tensor *const *inputs) {
    if (paused) return false;
    for (int i = 0; i < count; i++)
        if (sr_grad_tracks(inputs[i])) return true;
    return false;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void set_edge(sr_edge *e, sr_tensor *x) {
    e->ndim = x->ndim;
    memcpy(e->shape, x->shape, sizeof e->shape);
    e->dtype = x->dtype;
    if (x->node != NULL) {
        e->node = x->node;
        e->node->refs++;
        e->node->users++;
        e->output = x->output;
    } else if (x->requires_grad) {
        e->leaf = sr_tensor_retain(x);
    }
}

sr_status sr_node_new(sr_node **out, const sr_rule *rule, sr_device *device, int inputs,
                      sr_tensor *const *input) {
    *out = NULL;
    sr_node *node = NULL;
    SR_TRY(sr_spare_take((void **)&node, &device->spares->nodes, sizeof *node));
    node->edge = node->few;
    if (inputs > SR_NODE_INPUTS) {
        sr_status st = sr_new(&node->edge, inputs);
        if (st != SR_OK) {
            sr_spare_give(&device->spares->nodes, node);
            return st;
        }
    }
    node->rule = rule;
    node->device = sr_device_retain(device);
    node->sequence = ++last_sequence;
    node->refs = 1;
    node->inputs = inputs;
    for (int i = 0; i < inputs; i++)
        if (input[i] != NULL) set_edge(&node->edge[i], input[i]);
    *out = node;
    return SR_OK;
}

sr_status sr_node_save(sr_node *node, int slot, const sr_tensor *t) {
    if (t == NULL) return SR_OK;
    SR_TRY(sr_tensor_alias(&node->saved[slot].tensor, t));
    node->saved[slot].version = t->storage->version;
    return SR_OK;
}

void sr_node_set_layout(sr_node *node, const sr_layout *layout) {
    if (layout != NULL) node->layout = sr_layout_retain((sr_layout *)layout);
}

void sr_node_attach(sr_node *node, sr_tensor *y, int output) {
    node->refs++;
    y->node = node;
    y->output = output;
    if (output >= node->outputs) node->outputs = output + 1;
}

/* Releases everything the node holds; nodes without references are added to *dying. */
static void strip(sr_node *node, sr_node **dying) {
    for (int i = 0; i < node->inputs; i++) {
        sr_tensor_release(node->edge[i].leaf);
        sr_node *from = node->edge[i].node;
        node->edge[i].leaf = NULL;
        node->edge[i].node = NULL;
        if (from == NULL || --from->refs > 0) continue;
        from->next = *dying;
        *dying = from;
    }
    for (int i = 0; i < SR_NODE_SAVED; i++) {
        sr_tensor_release(node->saved[i].tensor);
        node->saved[i].tensor = NULL;
    }
    for (int i = 0; i < SR_NODE_OUTPUTS; i++) {
        sr_tensor_release(node->dy[i]);
        node->dy[i] = NULL;
    }
    sr_layout_release(node->layout);
    node->layout = NULL;
    if (node->free_closure != NULL) node->free_closure(node->closure);
    node->free_closure = NULL;
    node->closure = NULL;
}

static void free_all(sr_node *dying) {
    while (dying != NULL) {
        sr_node *node = dying;
        dying = node->next;
        strip(node, &dying);
        if (node->edge != node->few) sr_free(node->edge);
        sr_device *device = node->device;
        sr_spare_give(&device->spares->nodes, node);
        sr_device_release(device);
    }
}

void sr_node_release(sr_node *node) {
    if (node == NULL || --node->refs > 0) return;
    node->next = NULL;
    free_all(node);
}

/* After its rule has run, returns its saved tensors to the pool. */
static void retire(sr_node *node) {
    sr_node *dying = NULL;
    strip(node, &dying);
    node->released = true;
    free_all(dying);
}

/* ---- adding up ------------------------------------------------------------------------------- */

static sr_status need(const sr_device *device, const void *slot, const char *op) {
    return slot != NULL ? SR_OK : sr_backend_lacks(device, op);
}

static sr_status add_into(sr_tensor *sum, const sr_tensor *g) {
    sr_device *device = sum->storage->device;
    SR_TRY(need(device, (const void *)device->backend->axpby, "axpby"));
    sr_tensor_wrote(sum);
    return device->backend->axpby(sum, g, 1.0, 1.0);
}

sr_dtype sr_grad_dtype(const sr_tensor *leaf) {
    return leaf->dtype == SR_BF16 ? leaf->storage->device->real : leaf->dtype;
}

/* Creates a zero gradient of `leaf`, in the scope of the leaf, if it has none. */
static sr_status new_leaf_grad(sr_tensor *leaf) {
    if (leaf->grad != NULL) return sr_tensor_check("backward", leaf->grad);
    SR_TRY(sr_tensor_check("backward", leaf));
    sr_device *device = leaf->storage->device;
    sr_tensor *g = NULL;
    SR_TRY(
        sr_tensor_new_in(&g, leaf->storage->scope, sr_grad_dtype(leaf), leaf->ndim, leaf->shape));
    sr_status st = device->backend->fill(g, 0.0);
    if (st != SR_OK) {
        sr_tensor_release(g);
        return st;
    }
    leaf->grad = g;
    return SR_OK;
}

static bool alike(const sr_tensor *a, const sr_tensor *b) {
    return a->storage->device == b->storage->device && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

sr_status sr_grad_set(sr_tensor *leaf, sr_tensor *g) {
    char given[160], wanted[160];
    sr_dtype dtype = sr_grad_dtype(leaf);
    if (g != NULL) SR_TRY(sr_tensor_check("set_grad", g));
    if (g != NULL && (!alike(leaf, g) || g->dtype != dtype || sr_tensor_is_expanded(g)))
        return sr_fail(SR_EINVAL, "set_grad: the gradient is %s%s; expected %s for the tensor %s",
                       sr_tensor_is_expanded(g) ? "an expanded view of " : "",
                       sr_tensor_describe(g, given, sizeof given), sr_dtype_name(dtype),
                       sr_tensor_describe(leaf, wanted, sizeof wanted));
    sr_tensor *old = leaf->grad, *alias = NULL; /* the history of g might lead back to the leaf */
    if (g != NULL) SR_TRY(sr_tensor_alias(&alias, g));
    leaf->grad = alias;
    sr_tensor_release(old);
    return SR_OK;
}

static bool is_only_reference(const sr_tensor *t) {
    return t->refs == 1 && t->storage->refs == 1 && sr_tensor_is_contiguous(t);
}

/* *sum += g, where *sum may be NULL and may be shared with others.  Takes over g. */
static sr_status accumulate(sr_tensor **sum, sr_tensor *g) {
    if (*sum == NULL) {
        *sum = g;
        return SR_OK;
    }
    if (!is_only_reference(*sum) && is_only_reference(g)) {
        sr_tensor *swap = *sum;
        *sum = g;
        g = swap;
    }
    sr_status st = SR_OK;
    if (!is_only_reference(*sum)) {
        sr_tensor *own = NULL;
        st = sr_tensor_like(&own, *sum);
        if (st == SR_OK) st = own->storage->device->backend->copy(own, *sum);
        if (st != SR_OK) {
            sr_tensor_release(own);
        } else {
            sr_tensor_release(*sum);
            *sum = own;
        }
    }
    if (st == SR_OK) st = add_into(*sum, g);
    sr_tensor_release(g);
    return st;
}

sr_status sr_grad_sink(sr_node *node, sr_tensor **dx, int i, sr_tensor **sink) {
    *sink = NULL;
    if (!sr_node_wants(node, i)) return SR_OK;
    sr_edge *e = &node->edge[i];
    if (e->leaf != NULL) {
        SR_TRY(new_leaf_grad(e->leaf));
        if (sr_tensor_is_contiguous(e->leaf->grad) && e->leaf->grad->dtype == node->device->real) {
            sr_tensor_wrote(e->leaf->grad);
            *sink = e->leaf->grad;
            return SR_OK;
        }
    }
    SR_TRY(sr_tensor_new(&dx[i], node->device, node->device->real, e->ndim, e->shape));
    SR_TRY(node->device->backend->fill(dx[i], 0.0));
    *sink = dx[i];
    return SR_OK;
}

sr_status sr_grad_first_sink(sr_node *node, sr_tensor **dx, int i, sr_tensor **sink, bool *first) {
    const sr_tensor *leaf = node->edge[i].leaf;
    *first = leaf != NULL && leaf->grad != NULL && leaf->grad->storage->data != NULL &&
             leaf->grad->dtype == node->device->real && sr_blanks_take(leaf->grad);
    return sr_grad_sink(node, dx, i, sink);
}

sr_tensor *sr_grad_take(sr_node *node, int i) {
    const sr_edge *e = &node->edge[i];
    sr_tensor **from = e->leaf != NULL   ? &e->leaf->grad
                       : e->node != NULL ? &e->node->dy[e->output]
                                         : NULL;
    sr_tensor *g = from != NULL ? *from : NULL;
    if (g == NULL || !is_only_reference(g) || g->dtype != sr_edge_grad_dtype(e)) return NULL;
    if (g->storage->device != node->device || g->storage->data == NULL) return NULL;
    *from = NULL;
    sr_tensor_wrote(g);
    return g;
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Pending nodes: a heap with the highest number on top. */
typedef struct queue {
    sr_node **node;
    int64_t count, capacity;
} queue;

static sr_status push(queue *q, sr_node *node) {
    if (node->queued) return SR_OK;
    if (q->count == q->capacity) {
        int64_t capacity = q->capacity > 0 ? 2 * q->capacity : 64;
        SR_TRY(sr_grow(&q->node, capacity));
        q->capacity = capacity;
    }
    node->queued = true;
    node->refs++;
    int64_t i = q->count++;
    for (; i > 0 && q->node[(i - 1) / 2]->sequence < node->sequence; i = (i - 1) / 2)
        q->node[i] = q->node[(i - 1) / 2];
    q->node[i] = node;
    return SR_OK;
}

static sr_node *pop(queue *q) {
    sr_node *top = q->node[0], *last = q->node[--q->count];
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= q->count) break;
        if (child + 1 < q->count && q->node[child + 1]->sequence > q->node[child]->sequence)
            child++;
        if (q->node[child]->sequence <= last->sequence) break;
        q->node[i] = q->node[child];
        i = child;
    }
    if (q->count > 0) q->node[i] = last;
    top->queued = false;
    return top;
}

/* Releases the rest after a failure. */
static void empty(queue *q) {
    while (q->count > 0) {
        sr_node *node = pop(q);
        for (int k = 0; k < SR_NODE_OUTPUTS; k++) {
            sr_tensor_release(node->dy[k]);
            node->dy[k] = NULL;
        }
        sr_node_release(node);
    }
    sr_free(q->node);
}

static sr_status check_saved(const sr_node *node) {
    if (node->released)
        return sr_fail(SR_EINVAL,
                       "backward: the graph of this %s was freed by an earlier backward; call "
                       "that one with { retain = true }",
                       node->rule->name);
    for (int i = 0; i < SR_NODE_SAVED; i++) {
        const sr_saved *s = &node->saved[i];
        if (s->tensor == NULL) continue;
        SR_TRY(sr_tensor_check(node->rule->name, s->tensor));
        if (s->tensor->storage->version != s->version)
            return sr_fail(SR_EINVAL,
                           "backward: a tensor that %s needs was written to in place after the "
                           "forward pass; write to a clone() of it",
                           node->rule->name);
    }
    return SR_OK;
}

/* The first gradient of a leaf is used without a copy if it has no other owner.  Takes over g. */
static sr_status deliver_to_leaf(sr_tensor *leaf, sr_tensor *g) {
    sr_status st = SR_OK;
    bool takes = leaf->grad == NULL && g->dtype == sr_grad_dtype(leaf) && is_only_reference(g);
    if (takes && leaf->storage->data != NULL) {
        sr_storage_move(g->storage, leaf->storage->scope);
        leaf->grad = sr_tensor_retain(g);
    } else {
        st = new_leaf_grad(leaf);
        if (st == SR_OK) st = add_into(leaf->grad, g);
    }
    sr_tensor_release(g);
    return st;
}

/* Converts *g to the dtype of the edge.  *g stays owned by the caller. */
static sr_status fit_dtype(sr_tensor **g, const sr_edge *e) {
    if ((*g)->dtype == e->dtype) return SR_OK;
    sr_tensor *fitting = NULL;
    SR_TRY(sr_op_convert(&fitting, *g, e->dtype));
    sr_tensor_release(*g);
    *g = fitting;
    return SR_OK;
}

/* Passes the gradient of an input to its origin.  Takes over g. */
static sr_status deliver(queue *q, const sr_edge *e, sr_tensor *g) {
    if (e->leaf != NULL) return deliver_to_leaf(e->leaf, g);
    sr_status st = fit_dtype(&g, e);
    if (st == SR_OK) st = push(q, e->node);
    if (st == SR_OK) return accumulate(&e->node->dy[e->output], g);
    sr_tensor_release(g);
    return st;
}

static sr_status run_rule(queue *q, sr_node *node, sr_backward *pass) {
    sr_tensor *few[SR_NODE_INPUTS] = {NULL}, **dx = few;
    if (node->inputs > SR_NODE_INPUTS) SR_TRY(sr_new(&dx, node->inputs));
    node->pass = pass;
    sr_status st = node->rule->backward(node, dx);
    for (int i = 0; i < node->inputs; i++) {
        if (dx[i] == NULL) continue;
        if (st == SR_OK && sr_node_wants(node, i))
            st = deliver(q, &node->edge[i], dx[i]);
        else
            sr_tensor_release(dx[i]);
    }
    if (dx != few) sr_free(dx);
    return st;
}

static void tell_added(const sr_node *node) {
    for (int i = 0; i < node->inputs; i++) {
        sr_tensor *leaf = node->edge[i].leaf;
        if (leaf != NULL) leaf->reached = true;
        if (leaf != NULL && watched != NULL) watched->added(watched, leaf);
    }
}

static sr_status run_node(queue *q, sr_node *node, sr_backward *pass) {
    SR_TRY(check_saved(node));
    SR_TRY(run_rule(q, node, pass));
    tell_added(node);
    for (int k = 0; k < SR_NODE_OUTPUTS; k++) {
        sr_tensor_release(node->dy[k]);
        node->dy[k] = NULL;
    }
    if (!pass->retain) retire(node);
    return SR_OK;
}

static sr_status seed_of(sr_tensor **out, const sr_tensor *root, sr_tensor *given) {
    char text[160], other[160];
    if (given != NULL) {
        SR_TRY(sr_tensor_check("backward", given));
        if (!alike(root, given) || given->dtype != root->dtype)
            return sr_fail(SR_EINVAL,
                           "backward: the gradient is %s; it must have the shape and dtype of %s",
                           sr_tensor_describe(given, other, sizeof other),
                           sr_tensor_describe(root, text, sizeof text));
        return sr_tensor_alias(out, given);
    }
    if (sr_tensor_elements(root) != 1)
        return sr_fail(SR_EINVAL,
                       "backward: %s is not a scalar loss; sum() it, or pass a gradient of that "
                       "shape",
                       sr_tensor_describe(root, text, sizeof text));
    SR_TRY(sr_tensor_like(out, root));
    return root->storage->device->backend->fill(*out, 1.0);
}

static sr_status start(queue *q, sr_tensor *root, sr_tensor *given) {
    SR_TRY(sr_tensor_check("backward", root));
    if (!sr_grad_tracks(root))
        return sr_fail(SR_EINVAL, "backward: nothing was recorded for this tensor; set "
                                  "requires_grad on an input, and check for no_grad()");
    sr_tensor *g = NULL;
    sr_status st = seed_of(&g, root, given);
    if (st != SR_OK) {
        sr_tensor_release(g);
        return st;
    }
    sr_edge e = {.leaf = root->node == NULL ? root : NULL, .node = root->node};
    e.dtype = root->dtype;
    e.output = root->output;
    if (e.node != NULL) e.node->users++;
    return deliver(q, &e, g);
}

static sr_status push_inputs(queue *q, const sr_node *node) {
    for (int i = 0; i < node->inputs; i++) {
        const sr_edge *e = &node->edge[i];
        if (e->leaf != NULL) watched->expects(watched, e->leaf);
        if (e->node != NULL) SR_TRY(push(q, e->node));
    }
    return SR_OK;
}

/* Tells the watch of all leaves that the graph of the roots has. */
static sr_status tell_expected(int count, sr_tensor *const *roots) {
    queue q = {0};
    sr_status st = SR_OK;
    for (int i = 0; i < count && st == SR_OK; i++)
        if (roots[i]->node != NULL) st = push(&q, roots[i]->node);
    while (q.count > 0 && st == SR_OK) {
        sr_node *node = pop(&q);
        st = push_inputs(&q, node);
        sr_node_release(node);
    }
    empty(&q);
    return st;
}

sr_status sr_grad_backward(int count, sr_tensor *const *roots, sr_tensor *const *seeds,
                           sr_backward *pass) {
    queue q = {0};
    sr_status st = SR_OK;
    bool before = sr_grad_set_recording(false);
    if (watched != NULL) st = tell_expected(count, roots);
    for (int i = 0; i < count && st == SR_OK; i++)
        st = start(&q, roots[i], seeds != NULL ? seeds[i] : NULL);
    while (q.count > 0 && st == SR_OK) {
        sr_node *node = pop(&q);
        st = run_node(&q, node, pass);
        if (st != SR_OK) {
            for (int k = 0; k < SR_NODE_OUTPUTS; k++) {
                sr_tensor_release(node->dy[k]);
                node->dy[k] = NULL;
            }
        }
        sr_node_release(node);
    }
    empty(&q);
    sr_grad_set_recording(before);
    return st;
}
