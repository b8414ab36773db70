#include "core/train/params.h"

#include <inttypes.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/mem.h"
#include "core/tensor/backend.h"

enum { ALIGN = 64 }; /* elements */

static int64_t rounded(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/* ---- the list -------------------------------------------------------------------------------- */

static sr_status check_spec(const sr_param_spec *spec) {
    if (spec->name == NULL || spec->name[0] == '\0')
        return sr_fail(SR_EINVAL, "params: a parameter has no name; give every one a name");
    if (spec->ndim < 1 || spec->ndim > SR_MAX_DIMS)
        return sr_fail(SR_EINVAL, "params: '%s' has %d dimensions; give 1 to %d", spec->name,
                       spec->ndim, SR_MAX_DIMS);
    for (int i = 0; i < spec->ndim; i++)
        if (spec->shape[i] < 1)
            return sr_fail(SR_EINVAL,
                           "params: '%s' has size %" PRId64 " in dimension %d; sizes "
                           "are at least 1",
                           spec->name, spec->shape[i], i + 1);
    if (spec->fuse != NULL && spec->pad_rows_to > 1)
        return sr_fail(SR_EINVAL,
                       "params: '%s' is fused and padded; a fused parameter must end "
                       "where the next begins",
                       spec->name);
    return SR_OK;
}

/* *out = product of shape[from..], at most 2^40 elements in a store. */
static sr_status product(int64_t *out, const sr_param_spec *spec, int64_t rows) {
    int64_t n = rows;
    for (int i = 1; i < spec->ndim; i++)
        if (__builtin_mul_overflow(n, spec->shape[i], &n) || n > INT64_C(1) << 40)
            return sr_fail(SR_EINVAL, "params: '%s' is too large", spec->name);
    *out = n;
    return SR_OK;
}

static sr_status add_param(sr_params *p, const sr_param_spec *spec) {
    SR_TRY(check_spec(spec));
    for (int64_t i = 0; i < p->count; i++)
        if (strcmp(p->list[i].name, spec->name) == 0)
            return sr_fail(SR_EINVAL, "params: the name '%s' is given twice", spec->name);
    sr_param *param = &p->list[p->count];
    SR_TRY(sr_strdup(&param->name, spec->name));
    p->count++;
    param->ndim = spec->ndim;
    memcpy(param->shape, spec->shape, sizeof param->shape);
    param->init = spec->init;
    param->std = spec->std;
    param->fused = -1;
    int64_t pad = spec->pad_rows_to > 1 ? spec->pad_rows_to : 1;
    SR_TRY(product(&param->size, spec, spec->shape[0]));
    SR_TRY(product(&param->stored, spec, rounded(spec->shape[0], pad)));
    return SR_OK;
}

static bool same_but_rows(const sr_param *a, const sr_param *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 1; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

/* Puts the last parameter of the list into the fuse group of this name. */
static sr_status join_group(sr_params *p, const char *name) {
    int64_t i = p->count - 1;
    sr_fused *last = p->fused_count > 0 ? &p->fused[p->fused_count - 1] : NULL;
    if (last != NULL && strcmp(last->name, name) == 0 && last->first + last->count == i) {
        if (!same_but_rows(&p->list[last->first], &p->list[i]))
            return sr_fail(SR_EINVAL,
                           "params: '%s' and '%s' are fused but differ in more than "
                           "rows",
                           p->list[last->first].name, p->list[i].name);
        last->count++;
    } else {
        if (sr_params_find_fused(p, name) != NULL)
            return sr_fail(SR_EINVAL,
                           "params: the members of fuse group '%s' do not follow each "
                           "other; list them one after another",
                           name);
        sr_fused *group = &p->fused[p->fused_count];
        SR_TRY(sr_strdup(&group->name, name));
        p->fused_count++;
        group->first = i;
        group->count = 1;
    }
    p->list[i].fused = p->fused_count - 1;
    return SR_OK;
}

static void place(sr_params *p) {
    int64_t at = 0;
    for (int64_t i = 0; i < p->count; i++) {
        sr_param *param = &p->list[i];
        bool follows = param->fused >= 0 && p->fused[param->fused].first < i;
        if (!follows) at = rounded(at, ALIGN);
        param->offset = at;
        at += param->stored;
        p->elements += param->size;
    }
    p->stored = rounded(at, ALIGN);
}

/* ---- the stores ------------------------------------------------------------------------------ */

sr_status sr_params_store(sr_tensor **out, sr_device *device, sr_dtype dtype, int64_t elements) {
    sr_scope *open = device->scope;
    device->scope = device->outside;
    sr_status st = sr_tensor_new(out, device, dtype, 1, &elements);
    device->scope = open;
    return st == SR_OK ? device->backend->fill(*out, 0.0) : st;
}

sr_status sr_params_flat(sr_tensor **out, sr_device *device, int64_t elements) {
    return sr_params_store(out, device, device->real, elements);
}

/* A leaf over `rows` rows of `like`'s shape at its offset; its grad is the same view of the
 * gradients. */
static sr_status new_leaf(sr_tensor **out, const sr_params *p, const sr_param *like, int64_t rows) {
    int64_t shape[SR_MAX_DIMS], stride[SR_MAX_DIMS];
    memcpy(shape, like->shape, sizeof shape);
    shape[0] = rows;
    stride[like->ndim - 1] = 1;
    for (int i = like->ndim - 1; i > 0; i--) stride[i - 1] = stride[i] * shape[i];
    SR_TRY(sr_tensor_view(out, p->value, like->ndim, shape, stride, like->offset));
    (*out)->requires_grad = true;
    return sr_tensor_view(&(*out)->grad, p->grad, like->ndim, shape, stride, like->offset);
}

static sr_status make_leaves(sr_params *p) {
    for (int64_t i = 0; i < p->count; i++)
        SR_TRY(new_leaf(&p->list[i].leaf, p, &p->list[i], p->list[i].shape[0]));
    for (int32_t g = 0; g < p->fused_count; g++) {
        sr_fused *group = &p->fused[g];
        int64_t rows = 0;
        for (int64_t i = 0; i < group->count; i++) rows += p->list[group->first + i].shape[0];
        SR_TRY(new_leaf(&group->leaf, p, &p->list[group->first], rows));
    }
    return SR_OK;
}

static sr_status build(sr_params *p, const sr_param_spec *specs, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        SR_TRY(add_param(p, &specs[i]));
        if (specs[i].fuse != NULL) SR_TRY(join_group(p, specs[i].fuse));
    }
    place(p);
    SR_TRY(sr_params_flat(&p->value, p->device, p->stored));
    SR_TRY(sr_params_flat(&p->grad, p->device, p->stored));
    return make_leaves(p);
}

sr_status sr_params_new(sr_params **out, sr_device *device, const sr_param_spec *specs,
                        int64_t count) {
    *out = NULL;
    if (count < 1)
        return sr_fail(SR_EINVAL, "params: the list is empty; give at least one parameter");
    sr_params *p;
    SR_TRY(sr_new(&p, 1));
    p->device = device;
    sr_status st = sr_new(&p->list, count);
    if (st == SR_OK) st = sr_new(&p->fused, count);
    if (st == SR_OK) st = build(p, specs, count);
    if (st != SR_OK) {
        sr_params_free(p);
        return st;
    }
    *out = p;
    return SR_OK;
}

void sr_params_free(sr_params *p) {
    if (p == NULL) return;
    for (int64_t i = 0; i < p->count; i++) {
        sr_tensor_release(p->list[i].leaf);
        sr_free(p->list[i].name);
    }
    for (int32_t g = 0; g < p->fused_count; g++) {
        sr_tensor_release(p->fused[g].leaf);
        sr_free(p->fused[g].name);
    }
    sr_tensor_release(p->value);
    sr_tensor_release(p->grad);
    sr_free(p->list);
    sr_free(p->fused);
    sr_free(p);
}

sr_fused *sr_params_find_fused(const sr_params *p, const char *name) {
    for (int32_t g = 0; g < p->fused_count; g++)
        if (strcmp(p->fused[g].name, name) == 0) return &p->fused[g];
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

sr_status sr_params_initialise_one(sr_params *p, sr_param *param, uint64_t seed) {
    const sr_backend *backend = p->device->backend;
    sr_tensor *leaf = param->leaf;
    leaf->storage->version++;
    switch (param->init) {
    case SR_INIT_ZEROS:
        return backend->fill(leaf, 0.0);
    case SR_INIT_ONES:
        return backend->fill(leaf, 1.0);
    case SR_INIT_NORMAL:
        break;
    }
    if (backend->random == NULL) return sr_backend_lacks(p->device, "random");
    /* 56 bits of the name's hash: the top byte of the last counter word counts attempts */
    uint64_t key = XXH3_64bits(param->name, strlen(param->name));
    return backend->random(leaf, SR_TRUNCATED_NORMAL, seed, SR_PURPOSE_INIT, (uint32_t)key,
                           (uint32_t)(key >> 32) & 0xFFFFFFu, 0.0, param->std);
}

sr_status sr_params_initialise(sr_params *p, uint64_t seed) {
    for (int64_t i = 0; i < p->count; i++) SR_TRY(sr_params_initialise_one(p, &p->list[i], seed));
    return SR_OK;
}

sr_status sr_params_zero_grad(sr_params *p) {
    p->grad->storage->version++;
    return p->device->backend->fill(p->grad, 0.0);
}
