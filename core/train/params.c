#include "core/train/params.h"

#include <inttypes.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "core/tensor/weight.h"

enum { ALIGN = 64 }; /* elements */

static int64_t rounded(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/* ---- the list -------------------------------------------------------------------------------- */

static sr_status check_spec(const sr_param_spec *spec) {
    if (spec->name == NULL || spec->name[0] == '\0')
        return sr_fail(SR_EINVAL, "params: a parameter has no name; every parameter needs one");
    if (spec->ndim < 1 || spec->ndim > SR_MAX_DIMS)
        return sr_fail(SR_EINVAL, "params: '%s' has %d dimensions; must be 1 to %d", spec->name,
                       spec->ndim, SR_MAX_DIMS);
    for (int i = 0; i < spec->ndim; i++)
        if (spec->shape[i] < 1)
            return sr_fail(SR_EINVAL,
                           "params: '%s' has size %" PRId64 " in dimension %d; sizes "
                           "must be >= 1",
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
            return sr_fail(SR_EINVAL, "params: duplicate name '%s'", spec->name);
    sr_param *param = &p->list[p->count];
    SR_TRY(sr_strdup(&param->name, spec->name));
    p->count++;
    param->ndim = spec->ndim;
    memcpy(param->shape, spec->shape, sizeof param->shape);
    param->init = spec->init;
    param->std = spec->std;
    param->keep_f32 = spec->keep_f32;
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

/* Adds the last parameter of the list to the fuse group of this name. */
static sr_status join_group(sr_params *p, const char *name) {
    int64_t i = p->count - 1;
    sr_fused *last = p->fused_count > 0 ? &p->fused[p->fused_count - 1] : NULL;
    if (last != NULL && strcmp(last->name, name) == 0 && last->first + last->count == i) {
        if (!same_but_rows(&p->list[last->first], &p->list[i]))
            return sr_fail(SR_EINVAL,
                           "params: '%s' and '%s' are fused but differ in more than "
                           "rows",
                           p->list[last->first].name, p->list[i].name);
        if (p->list[last->first].keep_f32 != p->list[i].keep_f32)
            return sr_fail(
                SR_EINVAL,
                "params: '%s' and '%s' are fused, but only one is kept in f32; give both "
                "the same 'keep'",
                p->list[last->first].name, p->list[i].name);
        last->count++;
    } else {
        if (sr_params_find_fused(p, name) != NULL)
            return sr_fail(SR_EINVAL,
                           "params: the members of fuse group '%s' are not consecutive; "
                           "list them one after another",
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
    SR_TRY(sr_tensor_new_in(out, device->outside, dtype, 1, &elements));
    return device->backend->fill(*out, 0.0);
}

sr_status sr_params_flat(sr_tensor **out, sr_device *device, int64_t elements) {
    return sr_params_store(out, device, device->real, elements);
}

/* `rows` rows of `like`'s shape at its offset in a store. */
static sr_status view_of(sr_tensor **out, const sr_tensor *store, const sr_param *like,
                         int64_t rows) {
    int64_t shape[SR_MAX_DIMS], stride[SR_MAX_DIMS];
    memcpy(shape, like->shape, sizeof shape);
    shape[0] = rows;
    stride[like->ndim - 1] = 1;
    for (int i = like->ndim - 1; i > 0; i--) stride[i - 1] = stride[i] * shape[i];
    return sr_tensor_view(out, store, like->ndim, shape, stride, like->offset);
}

/* A leaf over `rows` rows of `like`'s shape, number `id` of those that ops read; its grad is the
 * same view of the gradients. */
static sr_status new_leaf(sr_tensor **out, sr_params *p, const sr_param *like, int64_t rows,
                          int64_t id) {
    bool bf16 = p->bf16 != NULL && !like->keep_f32;
    SR_TRY(view_of(out, bf16 ? p->bf16 : p->value, like, rows));
    p->read[id] = *out;
    (*out)->requires_grad = true;
    if (like->ndim == 2)
        SR_TRY(sr_weight_new(&(*out)->weight, p->device, id, rows, like->shape[1]));
    return view_of(&(*out)->grad, p->grad, like, rows);
}

static sr_status make_leaves(sr_params *p) {
    SR_TRY(sr_new(&p->read, p->count + p->fused_count));
    for (int64_t i = 0; i < p->count; i++) {
        sr_param *param = &p->list[i];
        SR_TRY(new_leaf(&param->leaf, p, param, param->shape[0], i));
        if (param->leaf->dtype == p->value->dtype)
            param->master = sr_tensor_retain(param->leaf);
        else
            SR_TRY(view_of(&param->master, p->value, param, param->shape[0]));
    }
    for (int32_t g = 0; g < p->fused_count; g++) {
        sr_fused *group = &p->fused[g];
        int64_t rows = 0;
        for (int64_t i = 0; i < group->count; i++) rows += p->list[group->first + i].shape[0];
        SR_TRY(new_leaf(&group->leaf, p, &p->list[group->first], rows, p->count + g));
    }
    return SR_OK;
}

enum { BLANK_LEAST = 1024 }; /* elements */

/* The gradients of matrices, which a product may write, and what is between them. */
static sr_status find_blanks(sr_params *p) {
    SR_TRY(sr_new(&p->blanks.range, p->count));
    SR_TRY(sr_new(&p->clear, 2 * (p->count + 1)));
    int64_t n = 0;
    for (int64_t i = 0; i < p->count; i++) {
        const sr_param *param = &p->list[i];
        const sr_fused *group = param->fused >= 0 ? &p->fused[param->fused] : NULL;
        const sr_tensor *grad = (group != NULL ? group->leaf : param->leaf)->grad;
        int64_t size = sr_tensor_elements(grad);
        if ((group != NULL && group->first != i) || grad->ndim != 2 || size < BLANK_LEAST) continue;
        p->blanks.range[n] = (sr_blank){grad->offset, grad->offset + size, false};
        p->clear[2 * n + 1] = grad->offset;
        p->clear[2 * ++n] = grad->offset + size;
    }
    p->clear[2 * n + 1] = p->stored;
    p->blanks.count = n;
    p->grad->storage->blanks = &p->blanks;
    return SR_OK;
}

static sr_status build(sr_params *p, const sr_param_spec *specs, int64_t count,
                       sr_dtype precision) {
    for (int64_t i = 0; i < count; i++) {
        SR_TRY(add_param(p, &specs[i]));
        if (specs[i].fuse != NULL) SR_TRY(join_group(p, specs[i].fuse));
    }
    place(p);
    SR_TRY(sr_params_flat(&p->value, p->device, p->stored));
    SR_TRY(sr_params_flat(&p->grad, p->device, p->stored));
    if (precision != p->device->real)
        SR_TRY(sr_params_store(&p->bf16, p->device, precision, p->stored));
    SR_TRY(make_leaves(p));
    return p->device->backend->zero_ranges != NULL ? find_blanks(p) : SR_OK;
}

sr_status sr_params_new(sr_params **out, sr_device *device, const sr_param_spec *specs,
                        int64_t count, sr_dtype precision) {
    *out = NULL;
    if (!sr_device_computes(device, precision))
        return sr_fail(SR_EINVAL, "params: %s does not compute in %s; choose another precision",
                       device->name, sr_dtype_name(precision));
    if (count < 1)
        return sr_fail(SR_EINVAL, "params: the list is empty; at least one parameter is required");
    sr_params *p;
    SR_TRY(sr_new(&p, 1));
    p->device = device;
    sr_status st = sr_new(&p->list, count);
    if (st == SR_OK) st = sr_new(&p->fused, count);
    if (st == SR_OK) st = build(p, specs, count, precision);
    return SR_GIVE(out, p, st, sr_params_free);
}

void sr_params_free(sr_params *p) {
    if (p == NULL) return;
    for (int64_t i = 0; i < p->count; i++) {
        sr_tensor_release(p->list[i].leaf);
        sr_tensor_release(p->list[i].master);
        sr_free(p->list[i].name);
    }
    for (int32_t g = 0; g < p->fused_count; g++) {
        sr_tensor_release(p->fused[g].leaf);
        sr_free(p->fused[g].name);
    }
    sr_tensor_release(p->value);
    if (p->grad != NULL) {
        sr_tensor_check("params", p->grad); /* a caller may have retained a gradient */
        p->grad->storage->blanks = NULL;
    }
    sr_tensor_release(p->grad);
    sr_free(p->blanks.range);
    sr_free(p->clear);
    sr_tensor_release(p->bf16);
    sr_free(p->read);
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

static sr_status write_initial(sr_params *p, sr_param *param, uint64_t seed) {
    const sr_backend *backend = p->device->backend;
    sr_tensor *to = param->master;
    sr_tensor_wrote(to);
    switch (param->init) {
    case SR_INIT_ZEROS:
        return backend->fill(to, 0.0);
    case SR_INIT_ONES:
        return backend->fill(to, 1.0);
    case SR_INIT_NORMAL:
        break;
    }
    if (backend->random == NULL) return sr_backend_lacks(p->device, "random");
    /* 56 bits of the name's hash: the top byte of the last counter word counts attempts */
    uint64_t key = XXH3_64bits(param->name, strlen(param->name));
    return backend->random(to, SR_TRUNCATED_NORMAL, seed, SR_PURPOSE_INIT, (uint32_t)key,
                           (uint32_t)(key >> 32) & 0xFFFFFFu, 0.0, param->std);
}

sr_status sr_params_initialise(sr_params *p, uint64_t seed) {
    for (int64_t i = 0; i < p->count; i++) SR_TRY(write_initial(p, &p->list[i], seed));
    return sr_params_refresh(p);
}

sr_status sr_params_initialise_one(sr_params *p, sr_param *param, uint64_t seed) {
    SR_TRY(write_initial(p, param, seed));
    return sr_params_refresh(p);
}

/* ---- what ops read --------------------------------------------------------------------------- */

static sr_status refresh_layouts(sr_params *p) {
    for (int64_t i = 0; i < p->count + p->fused_count; i++) SR_TRY(sr_weight_refresh(p->read[i]));
    return SR_OK;
}

static void note_versions(sr_params *p) {
    p->bf16_version = p->bf16->storage->version;
    p->value_version = p->value->storage->version;
}

sr_status sr_params_check_whole(const sr_params *p) {
    if (!p->partial) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "params: each rank has the f32 values of its own part only; read them on rank "
                   "0, after optimizer:gather() on all ranks");
}

sr_status sr_params_refresh(sr_params *p) {
    SR_TRY(sr_params_check_whole(p));
    if (p->bf16 != NULL) {
        sr_tensor_wrote(p->bf16);
        SR_TRY(p->device->backend->copy(p->bf16, p->value));
        note_versions(p);
    }
    return refresh_layouts(p);
}

sr_status sr_params_sync_bf16(sr_params *p) {
    if (p->bf16 == NULL) return SR_OK;
    if (p->bf16->storage->version != p->bf16_version)
        return sr_fail(
            SR_EINVAL,
            "params: the bf16 copy of a parameter was written to; write to the parameter "
            "with params:set(name, values)");
    return p->value->storage->version != p->value_version ? sr_params_refresh(p) : SR_OK;
}

void sr_params_before_step(sr_params *p) {
    sr_tensor_wrote(p->value);
    if (p->bf16 != NULL) sr_tensor_wrote(p->bf16);
}

sr_status sr_params_after_step(sr_params *p) {
    if (p->bf16 != NULL) note_versions(p); /* what came from other ranks bumped them */
    return refresh_layouts(p);
}

sr_status sr_params_zero_grad(sr_params *p) {
    p->grad->storage->version++;
    if (p->blanks.count == 0) return p->device->backend->fill(p->grad, 0.0);
    sr_blanks_begin(&p->blanks);
    return p->device->backend->zero_ranges(p->grad, p->clear, p->blanks.count + 1);
}

sr_status sr_params_settle_grad(const sr_params *p, sr_range elements) {
    sr_tensor part = *p->grad;
    part.offset += elements.first;
    part.shape[0] = elements.last - elements.first;
    return sr_tensor_check("params", &part);
}

/* Gives back the memory of masters [first, last) that lie outside of `own`. */
static void discard(const sr_params *p, int64_t first, int64_t last, sr_range own) {
    char *data = sr_tensor_data(p->value);
    size_t size = sr_dtype_size(p->value->dtype);
    int64_t before = last < own.first ? last : own.first;
    int64_t after = first > own.last ? first : own.last;
    if (first < before)
        sr_mem_discard(data + (size_t)first * size, (size_t)(before - first) * size);
    if (after < last) sr_mem_discard(data + (size_t)after * size, (size_t)(last - after) * size);
}

void sr_params_keep_only(sr_params *p, sr_range own) {
    int64_t first = 0; /* of a run of masters that ops do not read */
    p->partial = true;
    if (!p->device->backend->host) return;
    for (int64_t i = 0; i < p->count; i++) {
        if (!p->list[i].keep_f32) continue;
        discard(p, first, p->list[i].offset, own);
        first = p->list[i].offset + p->list[i].stored;
    }
    discard(p, first, p->stored, own);
}
