/* reduce.cu - sum, max, min, argmax and argmin along any dimensions; softmax and log-softmax over
 * the last one, both ways.
 *
 * Traffic   reads x once; softmax reads a row two or three times, and rows of up to 100,000
 *           elements come from the cache after the first.
 * Grid      a block has `lanes` threads for each of `outputs` outputs; the elements of an
 *           output are cut into pieces where there are few outputs, and a second kernel joins the
 *           pieces.  Softmax: a block per row, of 32, 128 or 512 threads by its length.
 * Numerics  sums are carried in f64, those of i32 wrap.  The order is fixed by the shape.
 *           Exponentials in f32, each element rounded once.
 */
#include "kernels/cuda/team.cuh"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/map.cuh"

enum { THREADS = 256, BLOCKS = 512, EACH = 16 };

/* ---- what is carried ------------------------------------------------------------------------- */

namespace {

struct sum_real {
    typedef double value, carry;
    DEV carry start() const {
        return 0;
    }
    DEV void take(carry &a, value v, int64_t) const {
        a += v;
    }
    DEV void operator()(carry &a, carry b) const {
        a += b;
    }
    DEV void put(const operand &y, int64_t at, carry a) const {
        store_as(y, at, (float)a);
    }
};

struct sum_whole {
    typedef int32_t value;
    typedef uint32_t carry;
    DEV carry start() const {
        return 0;
    }
    DEV void take(carry &a, value v, int64_t) const {
        a += (uint32_t)v;
    }
    DEV void operator()(carry &a, carry b) const {
        a += b;
    }
    DEV void put(const operand &y, int64_t at, carry a) const {
        store_as(y, at, (int32_t)a);
    }
};

template <class V> struct best {
    V value;
    int32_t none; /* 1: nothing was taken yet */
    int64_t at;
};

/* The largest or smallest; NaN wins over all, the first of equal ones wins. */
template <class V> struct extreme {
    typedef V value;
    typedef best<V> carry;
    bool greater, position;
    DEV carry start() const {
        return carry{0, 1, 0};
    }
    DEV bool wins(V v, int64_t at, const carry &a) const {
        if (a.none) return true;
        bool nan = v != v, was = a.value != a.value;
        if (nan || was) return nan && (!was || at < a.at);
        if (v == a.value) return at < a.at;
        return greater ? v > a.value : v < a.value;
    }
    DEV void take(carry &a, V v, int64_t at) const {
        if (wins(v, at, a)) a = carry{v, 0, at};
    }
    DEV void operator()(carry &a, const carry &b) const {
        if (!b.none && wins(b.value, b.at, a)) a = b;
    }
    DEV void put(const operand &y, int64_t at, const carry &a) const {
        if (position)
            store_as(y, at, (int32_t)a.at);
        else
            store_as(y, at, a.value);
    }
};

} // namespace

/* ---- kernels --------------------------------------------------------------------------------- */

namespace {

struct plan {
    walk<2> kept;       /* x, y */
    walk<1> folded;     /* x */
    int lanes, outputs; /* of a block; powers of 2 */
    bool across;        /* neighbouring threads take neighbouring outputs */
    int64_t pieces, piece;
};

} // namespace

template <class Op>
KERNEL(THREADS, 4)
void fold(plan p, operand y, operand x, global<typename Op::carry> partial, Op op) {
    shared<typename Op::carry> room = shared_at<typename Op::carry>(0, THREADS);
    int lane = p.across ? thread() / p.outputs : thread() % p.lanes;
    int mine = p.across ? thread() % p.outputs : thread() / p.lanes;
    int64_t output = (int64_t)block_x() * p.outputs + mine, at[2] = {0, 0};
    typename Op::carry a = op.start();
    if (output < p.kept.count) {
        int64_t from = block_y() * p.piece, end = from + p.piece;
        if (end > p.folded.count) end = p.folded.count;
        locate(at, p.kept, output);
        for (int64_t i = from + lane; i < end; i += p.lanes) {
            int64_t here[1];
            locate(here, p.folded, i);
            op.take(a, load_as<typename Op::value>(x, at[0] + here[0]), i);
        }
    }
    int slot = mine * p.lanes + lane;
    room[slot] = a;
    join_slots(room, slot, p.lanes, op);
    if (lane > 0 || output >= p.kept.count) return;
    if (p.pieces == 1)
        op.put(y, at[1], room[slot]);
    else
        partial[output * p.pieces + block_y()] = room[slot];
}

enum { JOINERS = 32 };

/* One block per output: joins its pieces. */
template <class Op>
KERNEL(JOINERS, 16)
void fold_pieces(plan p, operand y, global<typename Op::carry> partial, Op op) {
    shared<typename Op::carry> room = shared_at<typename Op::carry>(0, JOINERS);
    typename Op::carry a = op.start();
    int64_t at[2], first = block_x() * p.pieces;
    for (int64_t i = thread(); i < p.pieces; i += JOINERS) op(a, partial[first + i]);
    a = join_block(room, a, op);
    locate(at, p.kept, block_x());
    if (thread() == 0) op.put(y, at[1], a);
}

/* ---- host ------------------------------------------------------------------------------------ */

static int64_t blocks_of(int64_t n, int64_t block) {
    return (n + block - 1) / block;
}

/* The smallest power of 2 that is at least n, at most `most`. */
static int power_above(int64_t n, int most) {
    int p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}

static plan plan_of(const sr_tensor *y, const sr_tensor *x) {
    plan p = {};
    p.kept.count = p.folded.count = 1;
    for (int d = 0; d < x->ndim; d++) {
        int64_t in[1] = {x->stride[d]}, both[2] = {x->stride[d], y->stride[d]};
        if (y->shape[d] == x->shape[d])
            add_dim(&p.kept, x->shape[d], both);
        else
            add_dim(&p.folded, x->shape[d], in);
    }
    int64_t inner = p.folded.dims > 0 ? p.folded.stride[0][p.folded.dims - 1] : 0;
    int last = p.kept.dims - 1;
    p.across = last >= 0 && p.kept.stride[0][last] < inner;
    int outputs = p.across ? power_above(p.kept.shape[last], 32) : 1;
    p.lanes = power_above(blocks_of(p.folded.count, 4), THREADS / outputs);
    p.outputs = THREADS / p.lanes;
    int64_t blocks = blocks_of(p.kept.count, p.outputs);
    int64_t most = blocks_of(p.folded.count, (int64_t)p.lanes * EACH);
    p.pieces = blocks >= BLOCKS ? 1 : blocks_of(BLOCKS, blocks > 0 ? blocks : 1);
    if (p.pieces > most) p.pieces = most > 0 ? most : 1;
    p.piece = blocks_of(p.folded.count, p.pieces);
    return p;
}

template <class Op> sr_status run(sr_tensor *y, const sr_tensor *x, Op op) {
    plan p = plan_of(y, x);
    gpu *g = gpu_of(y);
    global<typename Op::carry> partial = {};
    size_t room = THREADS * sizeof(typename Op::carry);
    if (p.pieces > 1) SR_TRY(scratch(&partial, g, 0, (size_t)(p.kept.count * p.pieces)));
    dim grid(blocks_of(p.kept.count, p.outputs), p.pieces);
    SR_TRY(launch(g, "reduce", fold<Op>, grid, THREADS, room, p, operand_of(y), operand_of(x),
                  partial, op));
    if (p.pieces == 1) return SR_OK;
    room = JOINERS * sizeof(typename Op::carry);
    return launch(g, "reduce", fold_pieces<Op>, dim(p.kept.count), JOINERS, room, p, operand_of(y),
                  partial, op);
}

sr_status gpu_reduce(sr_tensor *y, const sr_tensor *x, sr_reduction op) {
    const sr_tensor *all[] = {y, x};
    SR_TRY(need_no_f64("reduce", all, 2));
    if (sr_tensor_elements(y) == 0) return SR_OK;
    if (sr_tensor_elements(x) == 0 && op != SR_SUM)
        return sr_fail(SR_EINVAL, "reduce: no elements; the reduced dimension has size 0");
    bool greater = op == SR_MAX || op == SR_ARGMAX;
    bool position = op == SR_ARGMAX || op == SR_ARGMIN;
    if (op == SR_SUM && is_whole(x) && is_whole(y)) return run(y, x, sum_whole{});
    if (op == SR_SUM) return run(y, x, sum_real{});
    if (is_whole(x)) return run(y, x, extreme<int32_t>{greater, position});
    return run(y, x, extreme<float>{greater, position});
}

/* ---- softmax --------------------------------------------------------------------------------- */

enum { MOST_THREADS = 512 };

namespace {

/* Rows of N tensors: where each begins, and the stride along it. */
template <int N> struct row_set {
    walk<N> w;
    operands<N> all;
    int64_t length, stride[N];
};

} // namespace

/* y = exp(x - max) / sum, or x - max - log sum */
KERNEL(MOST_THREADS, 2) void softmax_row(row_set<2> r, bool log) {
    shared<double> sums = shared_at<double>(0, threads());
    shared<float> tops = shared_at<float>(threads() * sizeof(double), threads());
    int64_t at[2];
    locate(at, r.w, block_x());
    float top = -INFINITY;
    for (int64_t i = thread(); i < r.length; i += threads())
        greater_f32()(top, load_as<float>(r.all.t[1], at[1] + i * r.stride[1]));
    top = join_block(tops, top, greater_f32());
    double sum = 0;
    for (int64_t i = thread(); i < r.length; i += threads())
        sum += (double)math_exp(load_as<float>(r.all.t[1], at[1] + i * r.stride[1]) - top);
    sum = join_block(sums, sum, add_f64());
    float whole = log ? (float)math_log(sum) : (float)sum;
    for (int64_t i = thread(); i < r.length; i += threads()) {
        float away = load_as<float>(r.all.t[1], at[1] + i * r.stride[1]) - top;
        store_as(r.all.t[0], at[0] + i * r.stride[0], log ? away - whole : math_exp(away) / whole);
    }
}

/* dx = y (dy - sum dy y), or dy - exp(y) sum dy */
KERNEL(MOST_THREADS, 2) void softmax_row_backward(row_set<3> r, bool log) {
    shared<double> sums = shared_at<double>(0, threads());
    int64_t at[3];
    locate(at, r.w, block_x());
    double sum = 0;
    for (int64_t i = thread(); i < r.length; i += threads()) {
        double dy = load_as<float>(r.all.t[1], at[1] + i * r.stride[1]);
        sum += log ? dy : dy * load_as<float>(r.all.t[2], at[2] + i * r.stride[2]);
    }
    float whole = (float)join_block(sums, sum, add_f64());
    for (int64_t i = thread(); i < r.length; i += threads()) {
        float dy = load_as<float>(r.all.t[1], at[1] + i * r.stride[1]);
        float y = load_as<float>(r.all.t[2], at[2] + i * r.stride[2]);
        float dx = log ? dy - math_exp(y) * whole : y * (dy - whole);
        store_as(r.all.t[0], at[0] + i * r.stride[0], dx);
    }
}

template <int N> row_set<N> row_set_over(const sr_tensor *const (&t)[N]) {
    row_set<N> r;
    int last = t[0]->ndim - 1;
    r.w = walk_over(t, 0, last);
    r.length = last >= 0 ? t[0]->shape[last] : 1;
    for (int k = 0; k < N; k++) {
        r.all.t[k] = operand_of(t[k]);
        r.stride[k] = last >= 0 ? t[k]->stride[last] : 1;
    }
    return r;
}

static int threads_for(int64_t length) {
    return length <= 256 ? 32 : length <= 2048 ? 128 : MOST_THREADS;
}

sr_status gpu_softmax(sr_tensor *y, const sr_tensor *x, bool log) {
    const sr_tensor *const all[] = {y, x};
    SR_TRY(need_no_f64("softmax", all, 2));
    row_set<2> r = row_set_over(all);
    int n = threads_for(r.length);
    if (r.w.count == 0 || r.length == 0) return SR_OK;
    return launch(gpu_of(y), "softmax", softmax_row, dim(r.w.count), n,
                  (size_t)n * (sizeof(double) + sizeof(float)), r, log);
}

sr_status gpu_softmax_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *y, bool log) {
    const sr_tensor *const all[] = {dx, dy, y};
    SR_TRY(need_no_f64("softmax_backward", all, 3));
    row_set<3> r = row_set_over(all);
    int n = threads_for(r.length);
    if (r.w.count == 0 || r.length == 0) return SR_OK;
    return launch(gpu_of(dx), "softmax_backward", softmax_row_backward, dim(r.w.count), n,
                  (size_t)n * sizeof(double), r, log);
}
