/* ops_loss.c - weighted cross entropy, on logits and over the tied decoder. */
#include "core/tensor/coarse.h"

/* The three results, and the gradient of the logits if it is needed. */
typedef struct results {
    sr_tensor *total, *nll, *correct, *dlogits;
} results;

static void drop_results(results *r) {
    sr_tensor_release(r->total);
    sr_tensor_release(r->nll);
    sr_tensor_release(r->correct);
    sr_tensor_release(r->dlogits);
}

/* (rows, classes) whose rows begin at multiples of `multiple` elements. */
static sr_status new_padded(sr_tensor **out, sr_device *device, sr_dtype dtype, int64_t rows,
                            int64_t classes, int multiple) {
    int64_t width = multiple > 1 ? (classes + multiple - 1) / multiple * multiple : classes;
    int64_t shape[2] = {rows, classes}, stride[2] = {width, 1};
    sr_tensor *whole;
    if (width == classes) return sr_tensor_new(out, device, dtype, 2, shape);
    SR_TRY(sr_tensor_new(&whole, device, dtype, 2, (int64_t[]){rows, width}));
    sr_status st = sr_tensor_view(out, whole, 2, shape, stride, whole->offset);
    sr_tensor_release(whole);
    return st;
}

/* For logits made from or like `x`; their gradient has its dtype, and padded rows. */
static sr_status new_results(results *r, const sr_tensor *x, int64_t classes, bool wanted,
                             int multiple) {
    sr_device *device = x->storage->device;
    int64_t rows = x->shape[0];
    sr_dtype dtype = sr_statistics_dtype(device);
    SR_TRY(sr_tensor_new(&r->total, device, dtype, 0, NULL));
    SR_TRY(sr_tensor_new(&r->nll, device, dtype, 1, &rows));
    SR_TRY(sr_tensor_new(&r->correct, device, dtype, 1, &rows));
    if (!wanted) return SR_OK;
    return new_padded(&r->dlogits, device, x->dtype, rows, classes, multiple);
}

/* Returns the results to the caller and frees the rest. */
static sr_status finish(results *r, sr_status st, sr_tensor **total, sr_tensor **nll,
                        sr_tensor **correct) {
    if (st == SR_OK) {
        *total = r->total;
        *nll = r->nll;
        *correct = r->correct;
        r->total = r->nll = r->correct = NULL;
    }
    drop_results(r);
    return st;
}

static sr_status check_targets(const char *op, int64_t rows, sr_tensor *labels,
                               sr_tensor *weights) {
    SR_TRY(sr_front_shape(op, "labels", labels, SR_I32, 1, &rows));
    return sr_front_shape(op, "weights", weights, weights->storage->device->real, 1, &rows);
}

/* ---- masked LM ------------------------------------------------------------------------------- */

enum { LOSS_DLOGITS, LOSS_X, LOSS_WORD };

static sr_status mlm_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, mlm_loss_backward);
    sr_tensor *dword, *dbias;
    SR_TRY(sr_coarse_dx(node, dx, 0));
    SR_TRY(sr_grad_sink(node, dx, 1, &dword));
    SR_TRY(sr_grad_sink(node, dx, 2, &dbias));
    return node->device->backend->mlm_loss_backward(
        dx[0], dword, dbias, node->dy[0], node->saved[LOSS_DLOGITS].tensor,
        node->saved[LOSS_X].tensor, node->saved[LOSS_WORD].tensor);
}
static const sr_rule mlm_rule = {"mlm_loss", mlm_back};

static sr_status compute_mlm(results *r, sr_tensor *const in[5]) {
    sr_device *device = in[0]->storage->device;
    SR_TRY(new_results(r, in[0], in[1]->shape[0], sr_grad_wanted(3, in),
                       device->backend->logit_multiple));
    SR_TRY(device->backend->mlm_loss(r->total, r->nll, r->correct, r->dlogits, in[0], in[1], in[2],
                                     in[3], in[4]));
    sr_node *node;
    SR_TRY(sr_front_record(&node, &mlm_rule, r->total, 3, in));
    if (node == NULL) return SR_OK;
    SR_TRY(sr_node_save(node, LOSS_DLOGITS, r->dlogits));
    SR_TRY(sr_node_save(node, LOSS_X, in[0]));
    return sr_node_save(node, LOSS_WORD, in[1]);
}

sr_status sr_op_mlm_loss(sr_tensor **total, sr_tensor **nll, sr_tensor **correct, sr_tensor *x,
                         sr_tensor *word, sr_tensor *bias, sr_tensor *labels, sr_tensor *weights) {
    *total = *nll = *correct = NULL;
    sr_tensor *given[5] = {x, word, bias, labels, weights}, *in[5];
    SR_TRY(sr_front_check("mlm_loss", 5, given));
    SR_NEED(x->storage->device, mlm_loss);
    SR_TRY(sr_front_real("mlm_loss", "word", word, 2, (int64_t[]){-1, -1}));
    SR_TRY(sr_front_real("mlm_loss", "x", x, 2, (int64_t[]){-1, word->shape[1]}));
    SR_TRY(sr_front_same("mlm_loss", "x", x, "word", word));
    if (bias != NULL) SR_TRY(sr_front_real("mlm_loss", "bias", bias, 1, word->shape));
    if (bias != NULL) SR_TRY(sr_front_same("mlm_loss", "bias", bias, "word", word));
    SR_TRY(check_targets("mlm_loss", x->shape[0], labels, weights));
    SR_TRY(sr_coarse_inputs(in, 5, given));
    results r = {0};
    sr_status st = compute_mlm(&r, in);
    sr_coarse_drop(in, 5);
    return finish(&r, st, total, nll, correct);
}

/* ---- cross entropy --------------------------------------------------------------------------- */

static sr_status cross_entropy_back(sr_node *node, sr_tensor **dx) {
    return sr_op_binary(&dx[0], node->saved[LOSS_DLOGITS].tensor, node->dy[0], SR_MUL);
}
static const sr_rule cross_entropy_rule = {"cross_entropy", cross_entropy_back};

static sr_status compute_cross_entropy(results *r, sr_tensor *const in[3]) {
    sr_device *device = in[0]->storage->device;
    SR_TRY(new_results(r, in[0], in[0]->shape[1], sr_grad_wanted(1, in), 1));
    SR_TRY(device->backend->cross_entropy(r->total, r->nll, r->correct, r->dlogits, in[0], in[1],
                                          in[2]));
    sr_node *node;
    SR_TRY(sr_front_record(&node, &cross_entropy_rule, r->total, 1, in));
    return node != NULL ? sr_node_save(node, LOSS_DLOGITS, r->dlogits) : SR_OK;
}

sr_status sr_op_cross_entropy(sr_tensor **total, sr_tensor **nll, sr_tensor **correct,
                              sr_tensor *logits, sr_tensor *labels, sr_tensor *weights) {
    *total = *nll = *correct = NULL;
    sr_tensor *given[3] = {logits, labels, weights}, *in[3];
    SR_TRY(sr_front_check("cross_entropy", 3, given));
    sr_device *device = logits->storage->device;
    SR_NEED(device, cross_entropy);
    SR_TRY(sr_front_real("cross_entropy", "logits", logits, 2, (int64_t[]){-1, -1}));
    SR_TRY(check_targets("cross_entropy", logits->shape[0], labels, weights));
    SR_TRY(sr_coarse_inputs(in, 3, given));
    results r = {0};
    sr_status st = compute_cross_entropy(&r, in);
    sr_coarse_drop(in, 3);
    return finish(&r, st, total, nll, correct);
}
