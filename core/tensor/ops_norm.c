/* ops_norm.c - residual norm and embedding: checks and rules.  See ops_coarse.c. */
#include "core/tensor/coarse.h"

/* What the norm saves for backward.  RMS norms have no mean. */
typedef struct norm_saved {
    sr_tensor *sum, *mean, *rstd;
} norm_saved;

static void drop_norm_saved(norm_saved *s) {
    sr_tensor_release(s->sum);
    sr_tensor_release(s->mean);
    sr_tensor_release(s->rstd);
}

/* `sum` is made like y on request; the statistics have one number per row. */
static sr_status new_norm_saved(norm_saved *s, const sr_tensor *y, bool sum, sr_norm norm) {
    sr_device *device = y->storage->device;
    sr_dtype dtype = sr_statistics_dtype(device);
    if (sum) SR_TRY(sr_tensor_like(&s->sum, y));
    if (!norm.rms) SR_TRY(sr_tensor_new(&s->mean, device, dtype, 1, y->shape));
    return sr_tensor_new(&s->rstd, device, dtype, 1, y->shape);
}

/* gamma has `hidden` elements, -1 for any; beta, which may be NULL, has as many. */
static sr_status check_weights(const char *op, const sr_tensor *gamma, const sr_tensor *beta,
                               int64_t hidden, sr_norm norm) {
    sr_dtype real = gamma->storage->device->real;
    SR_TRY(sr_front_shape(op, "gamma", gamma, real, 1, &hidden));
    if (beta == NULL) return SR_OK;
    if (norm.rms)
        return sr_fail(SR_EINVAL, "%s: an RMS norm has no beta; pass nil, or kind \"layer\"", op);
    return sr_front_shape(op, "beta", beta, real, 1, gamma->shape);
}

/* ---- residual norm --------------------------------------------------------------------------- */

enum { NORM_SUM, NORM_GAMMA, NORM_MEAN, NORM_RSTD };

/* The gradient of y: zeros where only the sum was used. */
static sr_status gradient_of_y(sr_node *node, sr_tensor **dy) {
    SR_TRY(sr_coarse_dy(node, dy, 0));
    if (*dy != NULL) return SR_OK;
    SR_TRY(sr_tensor_like(&node->dy[0], node->dy[1]));
    *dy = node->dy[0];
    return node->device->backend->fill(*dy, 0.0);
}

static sr_status residual_norm_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, residual_norm_backward);
    sr_tensor *dy, *dsum, *dgamma, *dbeta, *dbias;
    SR_TRY(sr_coarse_dy(node, &dsum, 1));
    SR_TRY(gradient_of_y(node, &dy));
    SR_TRY(sr_grad_sink(node, dx, 2, &dgamma));
    SR_TRY(sr_grad_sink(node, dx, 3, &dbeta));
    SR_TRY(sr_linear_bias_sink(node, 0, &dbias));
    SR_TRY(sr_coarse_dx(node, dx, 1));
    /* Without dropout both gradients are the same tensor. */
    bool shared = node->drop.keep >= 256 && dx[1] != NULL;
    if (!shared) SR_TRY(sr_coarse_dx(node, dx, 0));
    SR_TRY(node->device->backend->residual_norm_backward(
        dx[0], dx[1], dgamma, dbeta, dbias, dy, dsum, node->saved[NORM_SUM].tensor,
        node->saved[NORM_GAMMA].tensor, node->saved[NORM_MEAN].tensor,
        node->saved[NORM_RSTD].tensor, node->layout, node->drop));
    if (shared && sr_node_wants(node, 0)) dx[0] = sr_tensor_retain(dx[1]);
    return SR_OK;
}
static const sr_rule residual_norm_rule = {"residual_norm", residual_norm_back};

/* sum: it is a result as well. */
static sr_status record_norm(sr_tensor *y, const norm_saved *s, sr_tensor *const in[4],
                             const sr_layout *layout, sr_dropout drop, bool sum) {
    sr_node *node;
    SR_TRY(sr_front_record(&node, &residual_norm_rule, y, 4, in));
    if (node == NULL) return SR_OK;
    node->drop = drop;
    sr_node_set_layout(node, layout);
    SR_TRY(sr_node_save(node, NORM_SUM, s->sum != NULL ? s->sum : in[0]));
    SR_TRY(sr_node_save(node, NORM_GAMMA, in[2]));
    SR_TRY(sr_node_save(node, NORM_MEAN, s->mean));
    SR_TRY(sr_node_save(node, NORM_RSTD, s->rstd));
    if (sum && s->sum != NULL) sr_node_attach(node, s->sum, 1);
    return SR_OK;
}

static sr_status check_norm(sr_tensor *const given[4], const sr_layout *layout, sr_norm norm,
                            sr_dropout drop) {
    const char *op = "residual_norm";
    const sr_tensor *x = given[0], *residual = given[1], *gamma = given[2];
    SR_TRY(check_weights(op, gamma, given[3], -1, norm));
    SR_TRY(sr_front_real(op, "x", x, 2, (int64_t[]){-1, gamma->shape[0]}));
    if (residual != NULL) SR_TRY(sr_front_real(op, "residual", residual, 2, x->shape));
    if (residual != NULL) SR_TRY(sr_front_same(op, "x", x, "residual", residual));
    if (layout != NULL) SR_TRY(sr_front_rows(op, "x", x, layout));
    return sr_coarse_check_drop(op, drop, layout);
}

/* y and what it saves, whose sum is a result if `sum`. */
static sr_status compute_norm(sr_tensor **y, norm_saved *s, sr_tensor *const in[4],
                              const sr_layout *layout, sr_norm norm, sr_dropout drop, bool sum) {
    SR_TRY(sr_tensor_like(y, in[0]));
    SR_TRY(new_norm_saved(s, *y, in[1] != NULL || drop.keep < 256, norm));
    SR_TRY(in[0]->storage->device->backend->residual_norm(
        *y, s->sum, s->mean, s->rstd, in[0], in[1], in[2], in[3], layout, norm.eps, drop));
    return record_norm(*y, s, in, layout, drop, sum);
}

sr_status sr_op_residual_norm(sr_tensor **out, sr_tensor **sum, sr_tensor *x, sr_tensor *residual,
                              sr_tensor *gamma, sr_tensor *beta, const sr_layout *layout,
                              sr_norm norm, sr_dropout drop) {
    *out = NULL;
    if (sum != NULL) *sum = NULL;
    sr_tensor *given[4] = {x, residual, gamma, beta}, *in[4], *y = NULL;
    SR_TRY(sr_front_check("residual_norm", 4, given));
    SR_NEED(x->storage->device, residual_norm);
    SR_TRY(check_norm(given, layout, norm, drop));
    SR_TRY(sr_coarse_inputs(in, 4, given));
    norm_saved s = {0};
    sr_status st = compute_norm(&y, &s, in, layout, norm, drop, sum != NULL);
    if (st == SR_OK && sum != NULL) *sum = sr_tensor_retain(s.sum != NULL ? s.sum : x);
    drop_norm_saved(&s);
    sr_coarse_drop(in, 4);
    return SR_GIVE(out, y, st, sr_tensor_release);
}

/* ---- embedding ------------------------------------------------------------------------------- */

enum { EMBED_IDS = NORM_RSTD + 1, EMBED_TYPES, EMBED_POSITIONS };

/* The inputs of embed, of which the first five have gradients. */
enum { IN_WORD, IN_POSITION, IN_TYPE, IN_GAMMA, IN_BETA, IN_IDS, IN_TYPES, IN_POSITIONS, IN_COUNT };

static sr_status embed_back(sr_node *node, sr_tensor **dx) {
    SR_NEED(node->device, embed_backward);
    sr_tensor *dy, *sink[5];
    SR_TRY(sr_coarse_dy(node, &dy, 0));
    for (int i = 0; i < 5; i++) SR_TRY(sr_grad_sink(node, dx, i, &sink[i]));
    return node->device->backend->embed_backward(
        sink[0], sink[1], sink[2], sink[3], sink[4], dy, node->saved[EMBED_IDS].tensor,
        node->saved[EMBED_TYPES].tensor, node->saved[EMBED_POSITIONS].tensor,
        node->saved[NORM_SUM].tensor, node->saved[NORM_GAMMA].tensor, node->saved[NORM_MEAN].tensor,
        node->saved[NORM_RSTD].tensor, node->layout, node->drop);
}
static const sr_rule embed_rule = {"embed", embed_back};

/* A table of the width of `word`, and the indices (T) of its rows; either may be NULL. */
static sr_status check_table(const char *name, const sr_tensor *table, const char *indices,
                             const sr_tensor *index, const sr_tensor *word,
                             const sr_layout *layout) {
    if (table == NULL && index != NULL)
        return sr_fail(SR_EINVAL,
                       "embed: %s are given, but the %s table is missing; pass nil for "
                       "%s",
                       indices, name, indices);
    if (table == NULL) return SR_OK;
    SR_TRY(sr_front_real("embed", name, table, 2, (int64_t[]){-1, word->shape[1]}));
    SR_TRY(sr_front_same("embed", name, table, "word", word));
    if (index == NULL) return SR_OK;
    return sr_front_shape("embed", indices, index, SR_I32, 1, &layout->rows);
}

static sr_status check_embed(sr_tensor *const in[IN_COUNT], const sr_layout *layout, sr_norm norm,
                             sr_dropout drop) {
    const sr_tensor *word = in[IN_WORD], *position = in[IN_POSITION], *type = in[IN_TYPE];
    SR_TRY(sr_front_real("embed", "word", word, 2, (int64_t[]){-1, -1}));
    SR_TRY(check_table("position", position, "positions", in[IN_POSITIONS], word, layout));
    SR_TRY(check_table("type", type, "types", in[IN_TYPES], word, layout));
    SR_TRY(sr_front_shape("embed", "ids", in[IN_IDS], SR_I32, 1, &layout->rows));
    if (in[IN_GAMMA] != NULL)
        SR_TRY(check_weights("embed", in[IN_GAMMA], in[IN_BETA], word->shape[1], norm));
    else if (in[IN_BETA] != NULL)
        return sr_fail(SR_EINVAL, "embed: beta without gamma; pass both, or neither for no norm");
    bool counts = position != NULL && in[IN_POSITIONS] == NULL;
    if (counts && layout->longest > position->shape[0])
        return sr_fail(SR_EINVAL,
                       "embed: a sequence has %d tokens, but the position table has %lld rows; "
                       "pack shorter sequences or enlarge the table",
                       layout->longest, (long long)position->shape[0]);
    if (type != NULL && in[IN_TYPES] == NULL && type->shape[0] < 1)
        return sr_fail(SR_EINVAL, "embed: the type table has no rows");
    return sr_coarse_check_drop("embed", drop, layout);
}

static sr_status record_embed(sr_tensor *y, const norm_saved *s, sr_tensor *const in[IN_COUNT],
                              const sr_layout *layout, sr_dropout drop) {
    sr_node *node;
    SR_TRY(sr_front_record(&node, &embed_rule, y, 5, in));
    if (node == NULL) return SR_OK;
    node->drop = drop;
    sr_node_set_layout(node, layout);
    SR_TRY(sr_node_save(node, NORM_SUM, s->sum));
    SR_TRY(sr_node_save(node, NORM_GAMMA, in[IN_GAMMA]));
    SR_TRY(sr_node_save(node, NORM_MEAN, s->mean));
    SR_TRY(sr_node_save(node, NORM_RSTD, s->rstd));
    SR_TRY(sr_node_save(node, EMBED_IDS, in[IN_IDS]));
    SR_TRY(sr_node_save(node, EMBED_TYPES, in[IN_TYPES]));
    return sr_node_save(node, EMBED_POSITIONS, in[IN_POSITIONS]);
}

static sr_status compute_embed(sr_tensor **y, norm_saved *s, sr_tensor *const in[IN_COUNT],
                               const sr_layout *layout, sr_norm norm, sr_dropout drop) {
    const sr_tensor *word = in[IN_WORD];
    sr_device *device = word->storage->device;
    SR_TRY(sr_tensor_new(y, device, word->dtype, 2, (int64_t[]){layout->rows, word->shape[1]}));
    if (in[IN_GAMMA] != NULL) SR_TRY(new_norm_saved(s, *y, true, norm));
    SR_TRY(device->backend->embed(*y, s->sum, s->mean, s->rstd, in[IN_IDS], in[IN_TYPES],
                                  in[IN_POSITIONS], word, in[IN_POSITION], in[IN_TYPE],
                                  in[IN_GAMMA], in[IN_BETA], layout, norm.eps, drop));
    return record_embed(*y, s, in, layout, drop);
}

sr_status sr_op_embed(sr_tensor **out, sr_tensor *ids, sr_tensor *types, sr_tensor *positions,
                      const sr_embeddings *tables, const sr_layout *layout, sr_norm norm,
                      sr_dropout drop) {
    *out = NULL;
    const sr_embeddings *t = tables;
    sr_tensor *given[IN_COUNT] = {t->word, t->position, t->type, t->gamma,
                                  t->beta, ids,         types,   positions};
    sr_tensor *in[IN_COUNT], *y = NULL;
    SR_TRY(sr_front_check("embed", IN_COUNT, given));
    SR_NEED(t->word->storage->device, embed);
    SR_TRY(check_embed(given, layout, norm, drop));
    SR_TRY(sr_coarse_inputs(in, IN_COUNT, given));
    norm_saved s = {0};
    sr_status st = compute_embed(&y, &s, in, layout, norm, drop);
    drop_norm_saved(&s);
    sr_coarse_drop(in, IN_COUNT);
    return SR_GIVE(out, y, st, sr_tensor_release);
}
