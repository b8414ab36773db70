/* optim.cu - the global gradient norm, AdamW, LAMB, StableAdamW and Muon over the flat store.
 *
 * Traffic   bytes per element: norm 4; AdamW 28, and 2 for the bf16 copy; LAMB and StableAdamW 24
 *           for moments and norms, then 16, and 2 for the copy; Muon 20, 8 and 12 besides its
 *           products; an average 8 more.
 * Grid      one block per chunk.  What depends on results on the device (clip, bias correction,
 *           trust ratios) is computed there once, by a small kernel beforehand.
 * Order     sums of a chunk in f64, in an order that depends on its size; chunks in order.
 * Numerics  f32, the same operations as on the cpu.
 */
#include "kernels/cuda/team.cuh"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/map.cuh"

enum { THREADS = 256, NORM_THREADS = 512, PREPARE_THREADS = 64 };
enum { SCRATCH_SCALARS, SCRATCH_RATES };
/* Tables that stay on the device from step to step. */
enum { KEPT_OWN, KEPT_CHUNKS, KEPT_SEGMENTS, KEPT_RANGES };

/* ---- gradient norm --------------------------------------------------------------------------- */

/* squares[c] = the sum of the squares of chunk c */
KERNEL(THREADS, 6)
void square_chunks(global<double> squares, readonly<float> g, readonly<sr_chunk> chunks,
                   bool aligned) {
    shared<double> room = shared_at<double>(0, THREADS);
    sr_chunk c = chunks[block_x()];
    int vectors = aligned && c.from % 4 == 0 ? (int)(c.size / 4) : 0;
    double sum = 0;
    for (int i = thread(); i < vectors; i += THREADS) {
        vec16 v = load16(g, (size_t)c.from + 4 * i);
        for (int k = 0; k < 4; k++) sum += (double)bits_float(v.w[k]) * (double)bits_float(v.w[k]);
    }
    for (int i = 4 * vectors + thread(); i < c.size; i += THREADS) {
        double x = g[(size_t)c.from + i];
        sum += x * x;
    }
    sum = join_block(room, sum, add_f64());
    if (thread() == 0) squares[block_x()] = sum;
}

/* One block. */
KERNEL(NORM_THREADS, 1)
void norm_of_squares(global<float> result, readonly<double> squares, int64_t count,
                     readonly<float> loss) {
    shared<double> room = shared_at<double>(0, NORM_THREADS);
    double sum = 0;
    for (int64_t i = thread(); i < count; i += NORM_THREADS) sum += squares[i];
    sum = join_block(room, sum, add_f64());
    if (thread() > 0) return;
    float norm = (float)math_sqrt(sum);
    bool finite = norm - norm == 0.0f;
    if (loss != NULL) {
        float l = loss[0];
        finite = finite && l - l == 0.0f;
    }
    result[0] = norm;
    result[1] = finite ? 1.0f : 0.0f;
}

sr_status gpu_grad_squares(sr_tensor *squares, const sr_tensor *grad, const sr_chunk *chunks,
                           int64_t first, int64_t last) {
    gpu *g = gpu_of(grad);
    global<const sr_chunk> own;
    if (last == first) return SR_OK;
    SR_TRY(kept_table(&own, g, KEPT_OWN, chunks + first, (size_t)(last - first)));
    return launch(g, "grad_squares", square_chunks, dim((size_t)(last - first)), THREADS,
                  THREADS * sizeof(double), out<double>(squares) + (size_t)first, in<float>(grad),
                  own, is_aligned(grad, 4));
}

sr_status gpu_grad_norm(sr_tensor *result, const sr_tensor *squares, int64_t count,
                        const sr_tensor *loss) {
    return launch(gpu_of(result), "grad_norm", norm_of_squares, dim(1), NORM_THREADS,
                  NORM_THREADS * sizeof(double), out<float>(result), in<double>(squares), count,
                  in<float>(loss));
}

/* ---- what a step depends on ------------------------------------------------------------------ */

namespace {

/* Numbers of the step, for all chunks. */
struct step_scalars {
    float go; /* 0: the gradient was not finite */
    float clip, correct1, correct2;
    float beta1, beta2, rest1, rest2; /* rest: 1 - beta */
    float share;                      /* of the weights in their average */
};

struct hyper {
    double rate, beta1, beta2, clip, average_decay;
    sr_method method;
    bool clip_eps, averages;
};

} // namespace

DEV float clip_factor(const hyper &h, double norm) {
    if (h.clip <= 0) return 1.0f;
    if (h.clip_eps) return h.clip < norm + 1e-6 ? (float)(h.clip / (norm + 1e-6)) : 1.0f;
    return norm <= h.clip ? 1.0f : (float)(h.clip / norm);
}

namespace {

struct step_tables {
    global<const sr_chunk> chunks;
    global<const sr_segment> segments;
    int64_t count; /* of chunks */
};

struct norm_pair {
    double w, u;
};

struct add_pair {
    DEV void operator()(norm_pair &a, const norm_pair &b) const {
        a.w += b.w;
        a.u += b.u;
    }
};

} // namespace

/* The first of `count` chunks, in the order of segments, that belongs to `segment` or a later one.
 */
DEV int64_t first_chunk(global<const sr_chunk> chunks, int64_t count, int64_t segment) {
    int64_t low = 0;
    while (low < count) {
        int64_t middle = low + (count - low) / 2;
        if (((sr_chunk)chunks[(size_t)middle]).segment < segment)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* rates[segment], from the sums of its chunks; one block per segment.  With `directions` its norm
 * instead. */
DEV void set_rate(global<float> rates, const step_tables &t, global<const double> norms,
                  const hyper &h, bool directions) {
    shared<norm_pair> room = shared_at<norm_pair>(0, PREPARE_THREADS);
    sr_segment s = t.segments[block_x()];
    norm_pair sum = {0, 0};
    bool stable = h.method == SR_STABLE_ADAMW;
    if ((h.method == SR_LAMB && s.trust) || stable || directions) {
        int64_t first = first_chunk(t.chunks, t.count, block_x());
        int64_t end = first_chunk(t.chunks, t.count, block_x() + 1);
        for (int64_t c = first + thread(); c < end; c += PREPARE_THREADS)
            add_pair()(sum, norm_pair{norms[2 * (size_t)c], norms[2 * (size_t)c + 1]});
    }
    sum = join_block(room, sum, add_pair());
    float rate = (float)(h.rate * s.rate);
    if (sum.w > 0 && sum.u > 0) rate *= (float)(math_sqrt(sum.w) / math_sqrt(sum.u));
    double rms = stable ? math_sqrt(sum.w / (double)s.size) : 0;
    if (rms > 1) rate = (float)(h.rate * s.rate / rms);
    if (thread() == 0) rates[block_x()] = directions ? (float)math_sqrt(sum.w) : rate;
}

/* What prepares for. */
enum phase { MOMENTS, DIRECTIONS, STEP };

/* The betas of the update that follows `applied` others. */
DEV double beta_of(const hyper &h, double beta, double applied) {
    if (h.method != SR_STABLE_ADAMW) return beta;
    double power = math_pow(beta, applied);
    return (beta - power) / (1.0 - power);
}

/* sr_step_share() */
DEV double share_of(const hyper &h, double averaged) {
    if (averaged == 0) return 1.0;
    return (1.0 - h.average_decay) / (1.0 - math_pow(h.average_decay, averaged + 1.0));
}

/* The scalars; the last kernel but one of a step also ends it. */
KERNEL(PREPARE_THREADS, 8)
void prepare(global<step_scalars> scalars, global<float> rates, global<float> result, step_tables t,
             readonly<double> norms, hyper h, phase p) {
    bool go = result[1] != 0.0f;
    if (p != MOMENTS && go) set_rate(rates, t, norms, h, p == DIRECTIONS);
    if (block_x() > 0 || thread() > 0) return;
    double applied = result[3] + 1.0;
    double beta1 = beta_of(h, h.beta1, applied), beta2 = beta_of(h, h.beta2, applied);
    step_scalars s = {go ? 1.0f : 0.0f,
                      clip_factor(h, result[0]),
                      (float)(1 / (1.0 - math_pow(h.beta1, applied))),
                      (float)(1 / (1.0 - math_pow(h.beta2, applied))),
                      (float)beta1,
                      (float)beta2,
                      (float)(1 - beta1),
                      (float)(1 - beta2),
                      h.averages ? (float)share_of(h, result[4]) : 0.0f};
    scalars[0] = s;
    if (p != STEP) return;
    result[2] = s.go;
    result[3] = (float)(go ? applied : applied - 1.0);
    if (go && h.averages) result[4] = result[4] + 1.0f;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

namespace {

enum pass {
    ADAMW,
    LAMB_MOMENTS,
    LAMB_APPLY,
    STABLE_MOMENTS,
    STABLE_APPLY,
    MUON_MOMENTS,
    MUON_DIRECTION,
    MUON_APPLY
};

/* Whether a pass reads gradients and writes moments, or writes weights, or sums into norms. */
DEV constexpr bool moves(pass p) {
    return p == ADAMW || p == LAMB_MOMENTS || p == STABLE_MOMENTS || p == MUON_MOMENTS;
}

DEV constexpr bool applies(pass p) {
    return p == ADAMW || p == LAMB_APPLY || p == STABLE_APPLY || p == MUON_APPLY;
}

DEV constexpr bool sums(pass p) {
    return moves(p) && !applies(p);
}

struct store {
    global<float> w, m, v;
    global<float> average; /* or NULL */
    global<const float> g;
    global<bf16> bf16_copy; /* or NULL */
    int64_t base;           /* of m, v and average */
    bool aligned;           /* 4 elements at once */
    float eps, least;       /* least: eps^2 */
    float momentum;
    bool nesterov;
};

/* Constants of a segment; rate: or the norm of its direction. */
struct own_scalars {
    float rate, decay, scale;
};

struct element {
    float w, m, v, g;
};

} // namespace

/* The moments and the direction of a matrix. */
DEV void update_muon(element &e, const store &s, float g, norm_pair &norms) {
    e.m = math_fma(1.0f - s.momentum, g - e.m, e.m);
    e.v = s.nesterov ? math_fma(s.momentum, e.m - g, g) : e.m;
    norms.w += (double)e.v * e.v;
}

/* AdamW and LAMB: u, and what follows from it. */
template <pass P>
DEV void update_by_u(element &e, const store &s, const step_scalars &now, const own_scalars &own,
                     norm_pair &norms) {
    float root = math_sqrt(e.v * now.correct2) + s.eps;
    float u = math_fma(own.decay, e.w, e.m * now.correct1 / root);
    if (P == LAMB_MOMENTS)
        add_pair()(norms, norm_pair{(double)e.w * e.w, (double)u * u});
    else
        e.w = math_fma(-own.rate, u, e.w);
}

template <pass P>
DEV void update(element &e, const store &s, const step_scalars &now, const own_scalars &own,
                norm_pair &norms) {
    float g = moves(P) ? e.g * now.clip : 0.0f;
    if (moves(P) && P != MUON_MOMENTS) {
        e.m = math_fma(now.beta1, e.m, now.rest1 * g);
        e.v = math_fma(now.beta2, e.v, now.rest2 * g * g);
    }
    if (P == STABLE_MOMENTS) norms.w += (double)(g * (g / (e.v > s.least ? e.v : s.least)));
    if (P == STABLE_APPLY)
        e.w = math_fma(-own.rate, e.m / (math_sqrt(e.v) + s.eps),
                       e.w * (1.0f - own.rate * own.decay));
    if (P == MUON_MOMENTS) update_muon(e, s, g, norms);
    if (P == MUON_DIRECTION && own.rate > 0) e.v /= own.rate;
    if (P == MUON_APPLY) e.w = math_fma(-own.rate, math_fma(own.scale, e.v, own.decay * e.w), e.w);
    if (P == ADAMW || P == LAMB_MOMENTS || P == LAMB_APPLY) update_by_u<P>(e, s, now, own, norms);
}

DEV float averaged(float a, float w, float share) {
    return share == 1.0f ? w : math_fma(share, w - a, a);
}

template <pass P>
DEV void update_one(const store &s, size_t i, const step_scalars &now, const own_scalars &own,
                    norm_pair &norms) {
    size_t at = i - (size_t)s.base;
    element e = {s.w[i], s.m[at], s.v[at], moves(P) ? (float)s.g[i] : 0.0f};
    update<P>(e, s, now, own, norms);
    if (moves(P)) s.m[at] = e.m;
    if (moves(P) || P == MUON_DIRECTION) s.v[at] = e.v;
    if (!applies(P)) return;
    s.w[i] = e.w;
    if (s.average != NULL) s.average[at] = averaged(s.average[at], e.w, now.share);
    if (s.bf16_copy != NULL) s.bf16_copy[i] = from_float<bf16>(e.w);
}

template <pass P>
DEV void update_four(const store &s, size_t i, const step_scalars &now, const own_scalars &own,
                     norm_pair &norms) {
    size_t at = i - (size_t)s.base;
    vec16 w = load16(s.w, i), m = load16(s.m, at), v = load16(s.v, at), g = {};
    if (moves(P)) g = load16(s.g, i);
    for (int k = 0; k < 4; k++) {
        element e = {bits_float(w.w[k]), bits_float(m.w[k]), bits_float(v.w[k]),
                     bits_float(g.w[k])};
        update<P>(e, s, now, own, norms);
        w.w[k] = float_bits(e.w);
        m.w[k] = float_bits(e.m);
        v.w[k] = float_bits(e.v);
    }
    if (moves(P)) store16(s.m, at, m);
    if (moves(P) || P == MUON_DIRECTION) store16(s.v, at, v);
    if (!applies(P)) return;
    store16(s.w, i, w);
    if (s.average != NULL) {
        vec16 a = load16(s.average, at);
        for (int k = 0; k < 4; k++)
            a.w[k] = float_bits(averaged(bits_float(a.w[k]), bits_float(w.w[k]), now.share));
        store16(s.average, at, a);
    }
    if (s.bf16_copy != NULL)
        store8(s.bf16_copy, i,
               vec8{{pack2_bf16(bits_float(w.w[0]), bits_float(w.w[1])),
                     pack2_bf16(bits_float(w.w[2]), bits_float(w.w[3]))}});
}

template <pass P>
DEV norm_pair update_chunk(const store &s, const sr_chunk &c, const step_scalars &now,
                           const own_scalars &own) {
    int fours = s.aligned && c.from % 4 == 0 ? (int)(c.size / 4) : 0;
    norm_pair norms = {0, 0};
    for (int i = thread(); i < fours; i += THREADS)
        update_four<P>(s, (size_t)c.from + 4 * i, now, own, norms);
    for (int i = 4 * fours + thread(); i < c.size; i += THREADS)
        update_one<P>(s, (size_t)c.from + i, now, own, norms);
    return norms;
}

/* P of the chunks; with Muon, what is no matrix is left out, or updated by AdamW where P applies.
 */
template <pass P>
KERNEL(THREADS, 4)
void update_chunks(store s, step_tables t, int64_t first, readonly<float> rates,
                   readonly<step_scalars> scalars, global<double> chunk_norms) {
    step_scalars now = scalars[0];
    if (now.go == 0.0f) return;
    sr_chunk c = t.chunks[(size_t)first + block_x()];
    sr_segment segment = t.segments[(size_t)c.segment];
    own_scalars own = {sums(P) ? 0.0f : rates[(size_t)c.segment], (float)segment.decay,
                       (float)segment.scale};
    norm_pair norms = {0, 0};
    if (P < MUON_MOMENTS || segment.rows > 0)
        norms = update_chunk<P>(s, c, now, own);
    else if (P == MUON_APPLY)
        update_chunk<ADAMW>(s, c, now, own);
    if (!sums(P)) return;
    norms = join_block(shared_at<norm_pair>(0, THREADS), norms, add_pair());
    if (thread() > 0) return;
    size_t chunk = (size_t)first + block_x();
    chunk_norms[2 * chunk] = norms.w;
    chunk_norms[2 * chunk + 1] = norms.u;
}

/* ---- host ------------------------------------------------------------------------------------ */

static store store_of(const sr_step *u) {
    store s = {};
    s.w = out<float>(u->value);
    s.m = out<float>(u->m);
    s.v = out<float>(u->v);
    s.g = in<float>(u->grad);
    if (u->average != NULL) s.average = out<float>(u->average);
    if (u->bf16_copy != NULL) s.bf16_copy = out<bf16>(u->bf16_copy);
    s.base = u->base;
    s.aligned = u->base % 4 == 0 && is_aligned(u->value, 4) && is_aligned(u->m, 4) &&
                is_aligned(u->v, 4) && is_aligned(u->grad, 4) &&
                (u->average == NULL || is_aligned(u->average, 4)) &&
                (u->bf16_copy == NULL || is_aligned(u->bf16_copy, 4));
    s.eps = (float)u->eps;
    s.least = (float)(u->eps * u->eps);
    s.momentum = (float)u->momentum;
    s.nesterov = u->nesterov;
    return s;
}

namespace {

/* What the kernels of a step read. */
struct step_room {
    step_tables tables;
    global<step_scalars> scalars;
    global<float> rates;
};

} // namespace

static sr_status prepare_step(step_room *r, gpu *g, const sr_step *u, phase p) {
    step_tables *t = &r->tables;
    t->count = u->chunk_count;
    SR_TRY(kept_table(&t->chunks, g, KEPT_CHUNKS, u->chunks, (size_t)u->chunk_count));
    SR_TRY(kept_table(&t->segments, g, KEPT_SEGMENTS, u->segments, (size_t)u->count));
    SR_TRY(scratch(&r->scalars, g, SCRATCH_SCALARS, 1));
    SR_TRY(scratch(&r->rates, g, SCRATCH_RATES, (size_t)u->count));
    hyper h = {u->rate,          u->beta1,  u->beta2,    u->clip,
               u->average_decay, u->method, u->clip_eps, u->average != NULL};
    return launch(g, "step", prepare, dim(p != MOMENTS ? (size_t)u->count : 1), PREPARE_THREADS,
                  PREPARE_THREADS * sizeof(norm_pair), r->scalars, r->rates, out<float>(u->result),
                  *t, in<double>(u->norms), h, p);
}

template <pass P> sr_status run_chunks(gpu *g, const char *op, const sr_step *u, step_room *r) {
    size_t room = sums(P) ? THREADS * sizeof(norm_pair) : 0;
    if (u->last == u->first) return SR_OK;
    return launch(g, op, update_chunks<P>, dim((size_t)(u->last - u->first)), THREADS, room,
                  store_of(u), r->tables, u->first, r->rates, r->scalars, out<double>(u->norms));
}

sr_status gpu_moments(const sr_step *u) {
    gpu *g = gpu_of(u->value);
    step_room r;
    SR_TRY(prepare_step(&r, g, u, MOMENTS));
    if (u->method == SR_STABLE_ADAMW) return run_chunks<STABLE_MOMENTS>(g, "moments", u, &r);
    if (u->method == SR_MUON) return run_chunks<MUON_MOMENTS>(g, "moments", u, &r);
    return run_chunks<LAMB_MOMENTS>(g, "moments", u, &r);
}

sr_status gpu_directions(const sr_step *u) {
    gpu *g = gpu_of(u->value);
    step_room r;
    SR_TRY(prepare_step(&r, g, u, DIRECTIONS));
    return run_chunks<MUON_DIRECTION>(g, "directions", u, &r);
}

sr_status gpu_step(const sr_step *u) {
    gpu *g = gpu_of(u->value);
    step_room r;
    SR_TRY(prepare_step(&r, g, u, STEP));
    if (u->method == SR_LAMB) return run_chunks<LAMB_APPLY>(g, "step", u, &r);
    if (u->method == SR_STABLE_ADAMW) return run_chunks<STABLE_APPLY>(g, "step", u, &r);
    if (u->method == SR_MUON) return run_chunks<MUON_APPLY>(g, "step", u, &r);
    return run_chunks<ADAMW>(g, "step", u, &r);
}

/* ---- gradients that are added to ------------------------------------------------------------- */

/* Four blocks for a range. */
KERNEL(THREADS, 4) void clear_ranges(global<float> y, readonly<int64_t> ends) {
    const int64_t last = ends[2 * block_x() + 1], step = (int64_t)blocks_y() * THREADS;
    for (int64_t i = ends[2 * block_x()] + block_y() * THREADS + thread(); i < last; i += step)
        y[i] = 0.0f;
}

sr_status gpu_zero_ranges(sr_tensor *y, const int64_t *ends, int64_t count) {
    gpu *g = gpu_of(y);
    global<const int64_t> table;
    SR_TRY(kept_table(&table, g, KEPT_RANGES, ends, (size_t)(2 * count)));
    return launch(g, "zero_ranges", clear_ranges, dim((size_t)count, 4), THREADS, 0, out<float>(y),
                  table);
}
