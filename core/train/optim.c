#include "core/train/optim.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/train/muon.h"

enum { MOST_PENDING = 64 };

static sr_status check_opts(const sr_optim_opts *o) {
    if (!(o->beta1 >= 0 && o->beta1 < 1) || !(o->beta2 >= 0 && o->beta2 < 1))
        return sr_fail(SR_EINVAL, "optimizer: betas are %g and %g; both must be in [0, 1)",
                       o->beta1, o->beta2);
    if (!(o->eps > 0 && isfinite(o->eps)))
        return sr_fail(SR_EINVAL, "optimizer: eps is %g; must be > 0", o->eps);
    if (!(o->power > 0 && isfinite(o->power)))
        return sr_fail(SR_EINVAL, "optimizer: the power of the betas is %g; must be > 0", o->power);
    if (!(o->momentum >= 0 && o->momentum < 1))
        return sr_fail(SR_EINVAL, "optimizer: momentum is %g; must be in [0, 1)", o->momentum);
    if (!(o->average >= 0 && o->average < 1))
        return sr_fail(SR_EINVAL, "optimizer: the decay of the average is %g; must be in [0, 1)",
                       o->average);
    if (o->max_skipped < 1)
        return sr_fail(SR_EINVAL, "optimizer: max_skipped is %d; must be >= 1", o->max_skipped);
    return SR_OK;
}

/* Checks a segment that has the next `left` elements of p, or with `several` rows of them, and
 * tells its size. */
static sr_status check_segment(const sr_segment *s, const sr_param *p, int64_t left, bool several,
                               int64_t *size) {
    const char *name = p->name;
    bool matrix = s->rows > 0 || s->columns > 0;
    bool fits = !matrix || (s->rows > 0 && s->columns > 0 && s->rows <= left / s->columns);
    *size = matrix && fits ? s->rows * s->columns : left;
    if (matrix && (!fits || (!several && *size != left) || !p->whole))
        return sr_fail(SR_EINVAL,
                       "optimizer: '%s' has %" PRId64 " elements, not a matrix of %" PRId64
                       " x %" PRId64 " that is kept whole",
                       name, left, s->rows, s->columns);
    if (!isfinite(s->scale))
        return sr_fail(SR_EINVAL, "optimizer: '%s' has scale %g; must be finite", name, s->scale);
    if (!(s->rate >= 0 && isfinite(s->rate)) || !(s->decay >= 0 && isfinite(s->decay)))
        return sr_fail(SR_EINVAL,
                       "optimizer: '%s' has rate %g and decay %g; neither may be "
                       "negative",
                       name, s->rate, s->decay);
    return SR_OK;
}

/* The segments of parameter i, from *next on. */
static sr_status fill_parameter(sr_optim *o, const sr_segment *segments, int64_t i, int64_t *next) {
    const sr_param *p = &o->params->list[i];
    bool several = o->segment_count > o->params->count;
    o->segment_of[i] = *next;
    for (int64_t from = 0, size = 0; from < p->size; from += size) {
        if (*next == o->segment_count)
            return sr_fail(SR_EINVAL, "optimizer: the segments end before '%s' does", p->name);
        SR_TRY(check_segment(&segments[*next], p, p->size - from, several, &size));
        o->segments[*next] = segments[*next];
        o->segments[*next].offset = p->offset + from;
        o->segments[*next].size = size;
        ++*next;
    }
    return SR_OK;
}

static sr_status fill_segments(sr_optim *o, const sr_segment *segments) {
    int64_t next = 0, count = o->params->count;
    o->segment_count = o->opts.segment_count > 0 ? o->opts.segment_count : count;
    SR_TRY(sr_new(&o->segments, o->segment_count));
    SR_TRY(sr_new(&o->segment_of, count));
    for (int64_t i = 0; i < count; i++) SR_TRY(fill_parameter(o, segments, i, &next));
    if (next == o->segment_count) return SR_OK;
    return sr_fail(SR_EINVAL, "optimizer: %" PRId64 " segments, but the parameters have %" PRId64,
                   o->segment_count, next);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static int64_t chunks_of(int64_t size) {
    return (size + SR_CHUNK - 1) / SR_CHUNK;
}

/* The work of a parameter beyond an element's of AdamW for each of its elements. */
static int64_t extra_work(const sr_param *p) {
    int64_t rows = p->shape[0], columns = p->size / p->shape[0];
    return p->whole ? p->stored * ((rows < columns ? rows : columns) / 8) : 0;
}

/* The first place in parameter p to cut at or after `goal`, both in elements of work from its
 * start; -1: behind p. */
static int64_t cut_inside(const sr_param *p, int64_t goal) {
    bool behind =
        p->offset == 0 || goal > (p->stored + extra_work(p)) / 2; /* not before the first */
    if (p->whole) return behind ? -1 : 0;
    int64_t c = goal > 0 ? chunks_of(goal) : 0;
    return c < chunks_of(p->size) ? c * SR_CHUNK : -1;
}

/* The place to cut after `goal` elements of work. */
static int64_t cut_at(const sr_params *p, int64_t goal) {
    int64_t extra = 0;
    for (int64_t i = 0; i < p->count; i++) {
        const sr_param *param = &p->list[i];
        int64_t at = cut_inside(param, goal - extra - param->offset);
        if (at >= 0) return param->offset + at;
        extra += extra_work(param);
    }
    return p->stored;
}

sr_range sr_optim_cut(const sr_params *p, int part, int parts) {
    int64_t all = p->stored;
    for (int64_t i = 0; i < p->count; i++) all += extra_work(&p->list[i]);
    return (sr_range){part == 0 ? 0 : cut_at(p, all / parts * part),
                      part + 1 == parts ? p->stored : cut_at(p, all / parts * (part + 1))};
}

static sr_status cut_chunks(sr_optim *o) {
    int64_t n = 0;
    for (int64_t s = 0; s < o->segment_count; s++)
        if (!o->segments[s].frozen) n += chunks_of(o->segments[s].size);
    SR_TRY(sr_new(&o->chunks, n));
    for (int64_t s = 0; s < o->segment_count; s++) {
        const sr_segment *segment = &o->segments[s];
        for (int64_t at = 0; !segment->frozen && at < segment->size; at += SR_CHUNK) {
            int64_t left = segment->size - at;
            o->chunks[o->chunk_count++] =
                (sr_chunk){segment->offset + at, left < SR_CHUNK ? left : SR_CHUNK, s};
        }
    }
    return SR_OK;
}

sr_range sr_optim_chunks(const sr_optim *o, sr_range elements) {
    sr_range chunks = {0, 0};
    for (int64_t c = 0; c < o->chunk_count; c++) {
        chunks.first += o->chunks[c].from < elements.first;
        chunks.last += o->chunks[c].from < elements.last;
    }
    return chunks;
}

/* Finds the chunks of the range, which must not cut one. */
static sr_status set_range(sr_optim *o, sr_range range) {
    bool whole = range.first == 0 && range.last == 0;
    o->range = whole ? (sr_range){0, o->params->stored} : range;
    if (o->range.first < 0 || o->range.last < o->range.first || o->range.last > o->params->stored)
        return sr_fail(SR_EINVAL,
                       "optimizer: elements %" PRId64 " to %" PRId64 " of a store of %" PRId64,
                       range.first, range.last, o->params->stored);
    for (int64_t c = 0; c < o->chunk_count; c++) {
        const sr_chunk *chunk = &o->chunks[c];
        bool begins = chunk->from >= o->range.first && chunk->from < o->range.last;
        bool ends = chunk->from + chunk->size > o->range.first &&
                    chunk->from + chunk->size <= o->range.last;
        if (begins != ends)
            return sr_fail(SR_EINVAL,
                           "optimizer: elements %" PRId64 " to %" PRId64 " cut a chunk; use "
                           "sr_optim_cut()",
                           range.first, range.last);
    }
    sr_range chunks = sr_optim_chunks(o, o->range);
    o->from = chunks.first;
    o->upto = chunks.last;
    return SR_OK;
}

static bool owns_any(const sr_optim *o, const sr_segment *s) {
    return !s->frozen && s->offset < o->range.last && s->offset + s->size > o->range.first;
}

/* Muon: room for the largest matrix of the range, which must not cut one. */
static sr_status set_work(sr_optim *o) {
    int64_t most = 0;
    for (int64_t i = 0; i < o->segment_count; i++) {
        const sr_segment *s = &o->segments[i];
        if (s->rows == 0 || !owns_any(o, s)) continue;
        if (s->offset < o->range.first || s->offset + s->size > o->range.last)
            return sr_fail(SR_EINVAL,
                           "optimizer: elements %" PRId64 " to %" PRId64 " cut a matrix of %" PRId64
                           " x %" PRId64 "; use sr_optim_cut()",
                           o->range.first, o->range.last, s->rows, s->columns);
        int64_t room = sr_muon_room(s->rows, s->columns);
        if (room > most) most = room;
    }
    return most > 0 ? sr_params_flat(&o->work, o->params->device, most) : SR_OK;
}

static sr_status new_sums(sr_tensor **out, sr_optim *o, int64_t columns) {
    int64_t n = columns * (o->chunk_count > 0 ? o->chunk_count : 1);
    return sr_params_store(out, o->params->device, SR_F64, n);
}

static sr_status build(sr_optim *o, const sr_segment *segments) {
    sr_device *device = o->params->device;
    SR_TRY(fill_segments(o, segments));
    SR_TRY(cut_chunks(o));
    SR_TRY(set_range(o, o->opts.range));
    int64_t elements = o->range.last - o->range.first;
    SR_TRY(sr_params_flat(&o->m, device, elements > 0 ? elements : 1));
    SR_TRY(sr_params_flat(&o->v, device, elements > 0 ? elements : 1));
    if (o->opts.average > 0)
        SR_TRY(sr_params_flat(&o->average, device, elements > 0 ? elements : 1));
    SR_TRY(new_sums(&o->squares, o, 1));
    if (o->opts.method != SR_ADAMW) SR_TRY(new_sums(&o->norms, o, 2));
    if (o->opts.method == SR_MUON) SR_TRY(set_work(o));
    SR_TRY(sr_params_flat(&o->result, device, SR_RESULTS));
    SR_TRY(sr_params_flat(&o->history, device, SR_RESULTS * o->room));
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
    o->averaging = opts->average > 0;
    bool immediate = params->device->backend->host;
    o->room = immediate ? 1 : opts->max_skipped < MOST_PENDING ? opts->max_skipped : MOST_PENDING;
    sr_status st = build(o, segments);
    return SR_GIVE(out, o, st, sr_optim_free);
}

void sr_optim_free(sr_optim *o) {
    if (o == NULL) return;
    sr_tensor_release(o->m);
    sr_tensor_release(o->v);
    sr_tensor_release(o->average);
    sr_tensor_release(o->result);
    sr_tensor_release(o->history);
    sr_free(o->results);
    sr_tensor_release(o->squares);
    sr_tensor_release(o->norms);
    sr_tensor_release(o->work);
    sr_free(o->segments);
    sr_free(o->segment_of);
    sr_free(o->chunks);
    sr_free(o);
}

/* ---- a step ---------------------------------------------------------------------------------- */

sr_status sr_optim_check_loss(const sr_optim *o, const sr_tensor *loss) {
    if (loss == NULL) return SR_OK;
    SR_TRY(sr_tensor_check("optimizer step", loss));
    if (sr_tensor_elements(loss) != 1)
        return sr_fail(SR_EINVAL, "optimizer: the loss has %" PRId64 " elements; must be a scalar",
                       sr_tensor_elements(loss));
    if (loss->storage->device != o->params->device || loss->dtype != o->result->dtype)
        return sr_fail(SR_EINVAL, "optimizer: the loss is %s on %s; must be %s on %s",
                       sr_dtype_name(loss->dtype), loss->storage->device->name,
                       sr_dtype_name(o->result->dtype), o->params->device->name);
    return SR_OK;
}

static bool is_whole(const sr_optim *o) {
    return o->from == 0 && o->upto == o->chunk_count;
}

static sr_step describe(const sr_optim *o, double rate, double clip) {
    double beta1 = pow(o->opts.beta1, o->opts.power), beta2 = pow(o->opts.beta2, o->opts.power);
    return (sr_step){
        .method = o->opts.method,
        .value = o->params->value,
        .bf16_copy = o->params->bf16,
        .weights = o->params->read,
        .weight_count = is_whole(o) ? o->params->count + o->params->fused_count : 0,
        .grad = o->params->grad,
        .m = o->m,
        .v = o->v,
        .average = o->averaging ? o->average : NULL,
        .average_decay = o->opts.average,
        .base = o->range.first,
        .segments = o->segments,
        .count = o->segment_count,
        .chunks = o->chunks,
        .chunk_count = o->chunk_count,
        .first = o->from,
        .last = o->upto,
        .norms = o->norms,
        .rate = rate,
        .beta1 = beta1,
        .beta2 = beta2,
        .eps = o->opts.eps,
        .momentum = o->opts.momentum,
        .nesterov = o->opts.nesterov,
        .clip = clip,
        .clip_eps = o->opts.clip_eps,
        .result = o->result,
    };
}

/* Puts the result of the step into the history. */
static sr_status remember(sr_optim *o) {
    sr_tensor row = *o->history;
    row.shape[0] = SR_RESULTS;
    row.offset += o->serial % o->room * SR_RESULTS;
    SR_TRY(o->params->device->backend->copy(&row, o->result));
    o->serial++;
    o->pending++;
    return SR_OK;
}

static sr_status check_backend(const sr_optim *o) {
    const sr_backend *b = o->params->device->backend;
    if (b->grad_squares == NULL) return sr_backend_lacks(o->params->device, "grad_squares");
    if (b->grad_norm == NULL) return sr_backend_lacks(o->params->device, "grad_norm");
    if (o->opts.method != SR_ADAMW && b->moments == NULL)
        return sr_backend_lacks(o->params->device, "moments");
    if (o->opts.method == SR_MUON && (b->directions == NULL || b->matmul == NULL))
        return sr_backend_lacks(o->params->device, b->matmul == NULL ? "matmul" : "directions");
    if (b->step == NULL) return sr_backend_lacks(o->params->device, "step");
    return SR_OK;
}

sr_status sr_optim_begin(sr_optim *o, double rate, double clip) {
    if (!(rate >= 0 && isfinite(rate)))
        return sr_fail(SR_EINVAL, "optimizer: the rate is %g; must be finite and >= 0", rate);
    if (!(clip >= 0))
        return sr_fail(SR_EINVAL, "optimizer: clip is %g; must be a norm > 0, or 0 for none", clip);
    SR_TRY(check_backend(o));
    SR_TRY(sr_params_sync_bf16(o->params));
    if (o->pending == o->room) SR_TRY(sr_optim_read_results(o));
    o->step = describe(o, rate, clip);
    SR_TRY(sr_params_settle_grad(o->params, (sr_range){0, o->params->stored}));
    return o->params->device->backend->grad_squares(o->squares, o->params->grad, o->chunks, o->from,
                                                    o->upto);
}

sr_status sr_optim_moments(sr_optim *o, const sr_tensor *loss) {
    const sr_backend *backend = o->params->device->backend;
    SR_TRY(sr_optim_check_loss(o, loss));
    SR_TRY(backend->grad_norm(o->result, o->squares, o->chunk_count, loss));
    return o->opts.method != SR_ADAMW ? backend->moments(&o->step) : SR_OK;
}

bool sr_optim_shares_norms(const sr_optim *o) {
    return o->opts.method == SR_LAMB || o->opts.method == SR_STABLE_ADAMW;
}

/* Makes the directions of the matrices of the range orthogonal. */
static sr_status orthogonalise(sr_optim *o) {
    const sr_backend *backend = o->params->device->backend;
    SR_TRY(backend->directions(&o->step));
    for (int64_t i = 0; i < o->segment_count; i++) {
        const sr_segment *s = &o->segments[i];
        if (s->rows == 0 || !owns_any(o, s)) continue;
        SR_TRY(
            sr_muon_orthogonalise(o->v, s->offset - o->range.first, s->rows, s->columns, o->work));
    }
    return SR_OK;
}

sr_status sr_optim_update(sr_optim *o) {
    if (o->opts.method == SR_MUON) SR_TRY(orthogonalise(o));
    sr_params_before_step(o->params);
    return o->params->device->backend->step(&o->step);
}

sr_status sr_optim_finish(sr_optim *o) {
    SR_TRY(sr_params_after_step(o->params));
    return remember(o);
}

sr_status sr_optim_step(sr_optim *o, double rate, double clip, const sr_tensor *loss) {
    if (!is_whole(o))
        return sr_fail(SR_EINVAL,
                       "optimizer: it owns elements %" PRId64 " to %" PRId64 " of %" PRId64
                       "; a step of a part needs the norms of the other parts",
                       o->range.first, o->range.last, o->params->stored);
    SR_TRY(sr_optim_begin(o, rate, clip));
    SR_TRY(sr_optim_moments(o, loss));
    SR_TRY(sr_optim_update(o));
    return sr_optim_finish(o);
}

/* ---- moments of one parameter ---- */

static sr_status flat_view(sr_tensor **out, const sr_tensor *store, int64_t first, int64_t n) {
    return sr_tensor_view(out, store, 1, &n, (int64_t[]){1}, first);
}

sr_status sr_optim_moments_of(sr_tensor **m, sr_tensor **v, sr_range *held, const sr_optim *o,
                              int64_t i) {
    const sr_param *param = &o->params->list[i];
    int64_t first = param->offset > o->range.first ? param->offset : o->range.first;
    int64_t last = param->offset + param->size;
    if (last > o->range.last) last = o->range.last;
    *m = *v = NULL;
    *held = (sr_range){0, 0};
    if (last <= first) return SR_OK;
    SR_TRY(flat_view(m, o->m, first - o->range.first, last - first));
    sr_status st = flat_view(v, o->v, first - o->range.first, last - first);
    if (st != SR_OK) {
        sr_tensor_release(*m);
        *m = NULL;
        return st;
    }
    *held = (sr_range){first - param->offset, last - param->offset};
    return SR_OK;
}

/* ---- outcomes ------------------------------------------------------------------------------- */

static void count_result(sr_optim *o, int64_t serial, const double result[SR_RESULTS]) {
    bool applied = result[2] != 0;
    o->results[(serial - 1) % o->room] = (sr_optim_result){
        .serial = serial, .norm = result[0], .finite = result[1] != 0, .applied = applied};
    o->steps += applied;
    o->skipped += !applied;
    o->averaged = (int64_t)result[4];
    if (!applied)
        o->in_a_row++;
    else if (o->in_a_row < o->opts.max_skipped) /* else the limit was reached */
        o->in_a_row = 0;
}

static sr_status read_history(sr_optim *o) {
    double history[SR_RESULTS * MOST_PENDING];
    SR_TRY(sr_tensor_read(o->history, history, SR_F64));
    int64_t first = o->serial - o->pending + 1;
    for (int64_t n = first; n <= o->serial; n++)
        count_result(o, n, history + (n - 1) % o->room * SR_RESULTS);
    o->pending = 0;
    return SR_OK;
}

sr_status sr_optim_read_results(sr_optim *o) {
    if (o->pending > 0) SR_TRY(read_history(o));
    if (o->in_a_row < o->opts.max_skipped) return SR_OK;
    return sr_fail(SR_ENUMERIC,
                   "optimizer: the loss or gradient was not finite in %" PRId64
                   " updates in a row, "
                   "after %" PRId64 " good ones; lower the rate or the clip, or check the data",
                   o->in_a_row, o->steps);
}

sr_optim_result sr_optim_result_of(const sr_optim *o, int64_t serial) {
    sr_optim_result none = {0};
    if (serial < 1 || serial > o->serial) return none;
    sr_optim_result found = o->results[(serial - 1) % o->room];
    return found.serial == serial ? found : none;
}

sr_status sr_optim_set_counts(sr_optim *o, int64_t steps, int64_t skipped, int64_t in_a_row,
                              int64_t averaged) {
    double result[SR_RESULTS] = {[3] = (double)steps, [4] = (double)averaged};
    SR_TRY(sr_optim_read_results(o));
    SR_TRY(sr_tensor_write(o->result, result, SR_F64));
    o->steps = steps;
    o->skipped = skipped;
    o->in_a_row = in_a_row;
    o->averaged = averaged;
    return SR_OK;
}
