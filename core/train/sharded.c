#include "core/train/sharded.h"

#include <inttypes.h>

#include "core/base/mem.h"
#include "core/tensor/backend.h"
#include "core/train/average.h"

static sr_status check_range(const sr_sharded *s) {
    sr_range own = s->parts[s->comm->rank], has = s->optim->range;
    if (own.first == has.first && own.last == has.last) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "optimizer: it owns elements %" PRId64 " to %" PRId64
                   "; rank %d of %d owns %" PRId64 " to %" PRId64,
                   has.first, has.last, s->comm->rank, s->comm->ranks, own.first, own.last);
}

static sr_status build(sr_sharded *s) {
    const sr_params *params = s->optim->params;
    int ranks = s->comm->ranks;
    SR_TRY(sr_new(&s->parts, ranks));
    SR_TRY(sr_new(&s->chunks, ranks));
    SR_TRY(sr_new(&s->slots, ranks));
    for (int r = 0; r < ranks; r++) {
        s->parts[r] = sr_optim_cut(params, r, ranks);
        s->chunks[r] = sr_optim_chunks(s->optim, s->parts[r]);
        s->slots[r] = (sr_range){r, r + 1};
    }
    SR_TRY(check_range(s));
    SR_TRY(sr_params_flat(&s->losses, params->device, ranks));
    return sr_params_flat(&s->loss, params->device, 1);
}

sr_status sr_sharded_new(sr_sharded **out, sr_comm *comm, sr_optim *optim) {
    *out = NULL;
    sr_sharded *s;
    SR_TRY(sr_new(&s, 1));
    s->comm = comm;
    s->optim = optim;
    sr_status st = build(s);
    return SR_GIVE(out, s, st, sr_sharded_free);
}

void sr_sharded_free(sr_sharded *s) {
    if (s == NULL) return;
    sr_tensor_release(s->losses);
    sr_tensor_release(s->loss);
    sr_free(s->parts);
    sr_free(s->chunks);
    sr_free(s->slots);
    sr_free(s);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Queues the all-gather of losses; `loss`, of this rank, may be NULL. */
static sr_status gather_losses(sr_sharded *s, const sr_tensor *loss) {
    const sr_backend *backend = s->comm->device->backend;
    sr_tensor own = *s->losses;
    own.shape[0] = 1;
    own.offset += s->comm->rank;
    if (loss == NULL) {
        SR_TRY(backend->fill(&own, 0.0));
    } else {
        sr_tensor flat = *loss;
        flat.ndim = 1;
        flat.shape[0] = flat.stride[0] = 1;
        SR_TRY(backend->copy(&own, &flat));
    }
    return sr_all_gather(s->comm, s->losses, s->slots, 1);
}

static sr_status wait(const sr_sharded *s) {
    return sr_comm_wait(s->comm);
}

/* Queues the all-gather of the weights that ops read in f32. */
static sr_status gather_f32(sr_sharded *s, sr_range *common) {
    const sr_params *p = s->optim->params;
    for (int64_t i = 0; i < p->count; i++) {
        if (!p->list[i].keep_f32) continue;
        sr_range whole = {p->list[i].offset, p->list[i].offset + p->list[i].stored};
        for (int r = 0; r < s->comm->ranks; r++) common[r] = sr_range_common(whole, s->parts[r]);
        SR_TRY(sr_all_gather(s->comm, p->value, common, 1));
    }
    return SR_OK;
}

static sr_status gather_values(sr_sharded *s) {
    sr_params *p = s->optim->params;
    if (p->bf16 == NULL) return sr_all_gather(s->comm, p->value, s->parts, 1);
    sr_range *common;
    SR_TRY(sr_all_gather(s->comm, p->bf16, s->parts, 1));
    SR_TRY(sr_new(&common, s->comm->ranks));
    sr_status st = gather_f32(s, common);
    sr_free(common);
    if (st != SR_OK || s->comm->ranks == 1) return st;
    s->scattered = true;
    if (!p->partial) sr_params_keep_only(p, s->optim->range);
    return SR_OK;
}

static sr_status update(sr_sharded *s, const sr_tensor *loss) {
    sr_optim *o = s->optim;
    SR_TRY(sr_all_gather(s->comm, o->squares, s->chunks, 1));
    SR_TRY(gather_losses(s, loss));
    SR_TRY(wait(s));
    SR_TRY(s->comm->device->backend->reduce(s->loss, s->losses, SR_SUM));
    SR_TRY(sr_optim_moments(o, s->loss));
    if (sr_optim_shares_norms(o)) {
        SR_TRY(sr_all_gather(s->comm, o->norms, s->chunks, 2));
        SR_TRY(wait(s));
    }
    SR_TRY(sr_optim_update(o));
    SR_TRY(gather_values(s));
    SR_TRY(wait(s));
    return sr_optim_finish(o);
}

sr_status sr_sharded_step(sr_sharded *s, double rate, double clip, const sr_tensor *loss) {
    SR_TRY(sr_optim_check_loss(s->optim, loss));
    SR_TRY(sr_optim_begin(s->optim, rate, clip));
    return update(s, loss);
}

sr_status sr_sharded_swap_average(sr_sharded *s) {
    SR_TRY(sr_optim_swap_average(s->optim));
    SR_TRY(gather_values(s));
    SR_TRY(wait(s));
    return sr_params_after_step(s->optim->params);
}

/* Queues the transfer of the masters of rank r to rank 0. */
static sr_status pass(sr_sharded *s, int r) {
    sr_tensor *value = s->optim->params->value, *part;
    int64_t n = s->parts[r].last - s->parts[r].first;
    bool sends = s->comm->rank == r;
    if (n == 0 || (!sends && s->comm->rank != 0)) return SR_OK;
    SR_TRY(sr_tensor_view(&part, value, 1, &n, (int64_t[]){1}, s->parts[r].first));
    sr_status st = sends ? sr_comm_send(s->comm, part, 0) : sr_comm_receive(s->comm, part, r);
    sr_tensor_release(part);
    return st;
}

sr_status sr_sharded_gather(sr_sharded *s) {
    if (!s->scattered) return SR_OK;
    for (int r = 1; r < s->comm->ranks; r++) SR_TRY(pass(s, r));
    SR_TRY(wait(s));
    s->scattered = false;
    if (s->comm->rank != 0) return SR_OK;
    s->optim->params->partial = false;
    return sr_params_after_step(s->optim->params);
}
