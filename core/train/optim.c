#include "core/train/optim.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"

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
    return sr_params_flat(&o->result, o->params->device, 4);
}

sr_status sr_optim_new(sr_optim **out, sr_params *params, const sr_segment *segments,
                       const sr_optim_opts *opts) {
    *out = NULL;
    SR_TRY(check_opts(opts));
    sr_optim *o;
    SR_TRY(sr_new(&o, 1));
    o->params = params;
    o->opts = *opts;
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
    sr_free(o->segments);
    sr_free(o);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* result[1] = 0 when the loss is not finite.  Looks at the loss on the host. */
static sr_status check_loss(sr_optim *o, const sr_tensor *loss) {
    double value, result[4];
    SR_TRY(sr_tensor_check("optimizer step", loss));
    if (sr_tensor_elements(loss) != 1)
        return sr_fail(SR_EINVAL, "optimizer: the loss has %" PRId64 " elements; give a scalar",
                       sr_tensor_elements(loss));
    SR_TRY(sr_tensor_read(loss, &value, SR_F64));
    if (isfinite(value)) return SR_OK;
    SR_TRY(sr_tensor_read(o->result, result, SR_F64));
    result[1] = 0;
    return sr_tensor_write(o->result, result, SR_F64);
}

static sr_step describe(const sr_optim *o, double rate, double clip) {
    double beta1 = pow(o->opts.beta1, o->opts.power), beta2 = pow(o->opts.beta2, o->opts.power);
    double t = (double)(o->steps + 1);
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
        .correct1 = 1.0 - pow(beta1, t),
        .correct2 = 1.0 - pow(beta2, t),
        .clip = clip,
        .clip_eps = o->opts.clip_eps,
        .result = o->result,
    };
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
    SR_TRY(sr_optim_settle(NULL, o));
    SR_TRY(backend->fill(o->result, 0.0));
    SR_TRY(backend->grad_norm(o->result, o->params->grad, o->segments, o->params->count));
    if (loss != NULL) SR_TRY(check_loss(o, loss));
    sr_step step = describe(o, rate, clip);
    SR_TRY(backend->step(&step));
    o->params->value->storage->version++;
    o->serial++;
    o->pending = true;
    return SR_OK;
}

static void count_result(sr_optim *o, const double result[4]) {
    o->last = (sr_optim_result){
        .serial = o->serial,
        .norm = result[0],
        .finite = result[1] != 0,
        .applied = result[2] != 0,
    };
    if (o->last.applied) {
        o->steps++;
        o->in_a_row = 0;
    } else {
        o->skipped++;
        o->in_a_row++;
    }
}

sr_status sr_optim_settle(sr_optim_result *out, sr_optim *o) {
    if (o->pending) {
        double result[4];
        SR_TRY(sr_tensor_read(o->result, result, SR_F64));
        o->pending = false;
        count_result(o, result);
    }
    if (out != NULL) *out = o->last;
    if (o->in_a_row < o->opts.max_skipped) return SR_OK;
    return sr_fail(SR_ENUMERIC,
                   "optimizer: loss or gradient was not finite in %" PRId64 " updates in a row, "
                   "after %" PRId64 " good ones; lower the rate or the clip, or look at the data",
                   o->in_a_row, o->steps);
}
