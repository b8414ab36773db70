#include "core/train/optim.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"

enum { MOST_PENDING = 64 };

static sr_status check_opts(const sr_optim_opts *o) {
    if (!(o->beta1 >= 0 && o->beta1 < 1) || !(o->beta2 >= 0 && o->beta2 < 1))
        return sr_fail(SR_EINVAL, "optimizer: betas %g and %g; both must lie in [0, 1)", o->beta1,
                       o->beta2);
    if (!(o->eps > 0 && isfinite(o->eps)))
        return sr_fail(SR_EINVAL, "optimizer: eps is %g; it must be above 0", o->eps);
    if (!(o->power > 0 && isfinite(o->power)))
        return sr_fail(SR_EINVAL, "optimizer: the power of the betas is %g; it must be above 0",
                       o->power);
    if (o->max_skipped < 1)
        return sr_fail(SR_EINVAL, "optimizer: max_skipped is %d; it must be at least 1",
                       o->max_skipped);
    return SR_OK;
}

static sr_status check_segment(const sr_segment *s, const char *name) {
    if (!(s->rate >= 0 && isfinite(s->rate)) || !(s->decay >= 0 && isfinite(s->decay)))
        return sr_fail(SR_EINVAL,
                       "optimizer: '%s' has rate %g and decay %g; neither may be "
                       "negative",
                       name, s->rate, s->decay);
    return SR_OK;
}

static sr_status fill_segments(sr_optim *o, const sr_segment *segments) {
    const sr_params *p = o->params;
    SR_TRY(sr_new(&o->segments, p->count));
    for (int64_t i = 0; i < p->count; i++) {
        SR_TRY(check_segment(&segments[i], p->list[i].name));
        o->segments[i] = segments[i];
        o->segments[i].offset = p->list[i].offset;
        o->segments[i].size = p->list[i].size;
    }
    return SR_OK;
}

static sr_status build(sr_optim *o, const sr_segment *segments) {
    SR_TRY(fill_segments(o, segments));
    SR_TRY(sr_params_flat(&o->m, o->params->device, o->params->stored));
    SR_TRY(sr_params_flat(&o->v, o->params->device, o->params->stored));
    SR_TRY(sr_params_flat(&o->result, o->params->device, 4));
    SR_TRY(sr_params_flat(&o->history, o->params->device, 4 * o->room));
    return sr_new(&o->results, o->room);
}

sr_status sr_optim_new(sr_optim **out, sr_params *params, const sr_segment *segments,
                       const sr_optim_opts *opts) {
    *out = NULL;
    SR_TRY(check_opts(opts));
    sr_optim *o;
    SR_TRY(sr_new(&o, 1));
    o->params = params;
    o->opts = *opts;
    bool queued = params->device->backend->wait != NULL;
    o->room = !queued ? 1 : opts->max_skipped < MOST_PENDING ? opts->max_skipped : MOST_PENDING;
    sr_status st = build(o, segments);
    if (st != SR_OK) {
        sr_optim_free(o);
        return st;
    }
    *out = o;
    return SR_OK;
}

void sr_optim_free(sr_optim *o) {
    if (o == NULL) return;
    sr_tensor_release(o->m);
    sr_tensor_release(o->v);
    sr_tensor_release(o->result);
    sr_tensor_release(o->history);
    sr_free(o->results);
    sr_free(o->segments);
    sr_free(o);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static sr_status check_loss(const sr_optim *o, const sr_tensor *loss) {
    if (loss == NULL) return SR_OK;
    SR_TRY(sr_tensor_check("optimizer step", loss));
    if (sr_tensor_elements(loss) != 1)
        return sr_fail(SR_EINVAL, "optimizer: the loss has %" PRId64 " elements; give a scalar",
                       sr_tensor_elements(loss));
    if (loss->storage->device != o->params->device || loss->dtype != o->result->dtype)
        return sr_fail(SR_EINVAL, "optimizer: the loss is %s on %s; give one in %s on %s",
                       sr_dtype_name(loss->dtype), loss->storage->device->name,
                       sr_dtype_name(o->result->dtype), o->params->device->name);
    return SR_OK;
}

static sr_step describe(const sr_optim *o, double rate, double clip) {
    double beta1 = pow(o->opts.beta1, o->opts.power), beta2 = pow(o->opts.beta2, o->opts.power);
    return (sr_step){
        .lamb = o->opts.lamb,
        .value = o->params->value,
        .grad = o->params->grad,
        .m = o->m,
        .v = o->v,
        .segments = o->segments,
        .count = o->params->count,
        .rate = rate,
        .beta1 = beta1,
        .beta2 = beta2,
        .eps = o->opts.eps,
        .clip = clip,
        .clip_eps = o->opts.clip_eps,
        .result = o->result,
    };
}

/* Puts the result of the step into the history. */
static sr_status remember(sr_optim *o) {
    sr_tensor row = *o->history;
    row.shape[0] = 4;
    row.offset += o->serial % o->room * 4;
    SR_TRY(o->params->device->backend->copy(&row, o->result));
    o->serial++;
    o->pending++;
    return SR_OK;
}

sr_status sr_optim_step(sr_optim *o, double rate, double clip, const sr_tensor *loss) {
    if (!(rate >= 0 && isfinite(rate)))
        return sr_fail(SR_EINVAL, "optimizer: the rate is %g; it must be finite and not negative",
                       rate);
    if (!(clip >= 0))
        return sr_fail(SR_EINVAL, "optimizer: clip is %g; give a norm above 0, or 0 for none",
                       clip);
    const sr_backend *backend = o->params->device->backend;
    if (backend->grad_norm == NULL) return sr_backend_lacks(o->params->device, "grad_norm");
    if (backend->step == NULL) return sr_backend_lacks(o->params->device, "step");
    SR_TRY(check_loss(o, loss));
    if (o->pending == o->room) SR_TRY(sr_optim_settle(o));
    SR_TRY(backend->grad_norm(o->result, o->params->grad, loss, o->segments, o->params->count));
    sr_step step = describe(o, rate, clip);
    SR_TRY(backend->step(&step));
    o->params->value->storage->version++;
    return remember(o);
}

/* ---- what came of it ------------------------------------------------------------------------- */

static void count_result(sr_optim *o, int64_t serial, const double result[4]) {
    bool applied = result[2] != 0;
    o->results[(serial - 1) % o->room] = (sr_optim_result){
        .serial = serial, .norm = result[0], .finite = result[1] != 0, .applied = applied};
    o->steps += applied;
    o->skipped += !applied;
    if (!applied)
        o->in_a_row++;
    else if (o->in_a_row < o->opts.max_skipped) /* else it was time to stop */
        o->in_a_row = 0;
}

static sr_status read_history(sr_optim *o) {
    double history[4 * MOST_PENDING];
    SR_TRY(sr_tensor_read(o->history, history, SR_F64));
    int64_t first = o->serial - o->pending + 1;
    for (int64_t n = first; n <= o->serial; n++)
        count_result(o, n, history + (n - 1) % o->room * 4);
    o->pending = 0;
    return SR_OK;
}

sr_status sr_optim_settle(sr_optim *o) {
    if (o->pending > 0) SR_TRY(read_history(o));
    if (o->in_a_row < o->opts.max_skipped) return SR_OK;
    return sr_fail(SR_ENUMERIC,
                   "optimizer: loss or gradient was not finite in %" PRId64 " updates in a row, "
                   "after %" PRId64 " good ones; lower the rate or the clip, or look at the data",
                   o->in_a_row, o->steps);
}

sr_optim_result sr_optim_result_of(const sr_optim *o, int64_t serial) {
    sr_optim_result none = {0};
    if (serial < 1 || serial > o->serial) return none;
    sr_optim_result found = o->results[(serial - 1) % o->room];
    return found.serial == serial ? found : none;
}

sr_status sr_optim_set_counts(sr_optim *o, int64_t steps, int64_t skipped, int64_t in_a_row) {
    double result[4] = {[3] = (double)steps};
    SR_TRY(sr_optim_settle(o));
    SR_TRY(sr_tensor_write(o->result, result, SR_F64));
    o->steps = steps;
    o->skipped = skipped;
    o->in_a_row = in_a_row;
    return SR_OK;
}
