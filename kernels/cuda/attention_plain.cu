/* attention_plain.cu - packed self-attention that is easy to check: any head size, f32 arithmetic.
 *
 * One warp has a row and a head and visits the other rows of its sequence 32 at a time, one per
 * lane: first every lane finds its own probability or derivative, then the lanes share the columns
 * of the sum.  Nothing is kept but lse and delta (A, T).
 *
 * Work      forward 4 D flops, backward 14 D for each pair that is kept, at a small part of the
 *           peak: f32 has no other kernel, 16 bits use it for head sizes that the tensor-core
 *           kernels lack
 * Shared    D floats per warp (backward of keys: 2 D) and 32 for each sum
 */
#include "kernels/cuda/attention.cuh"

namespace attention {

/* A layout in device memory. */
struct sequences {
    global<const int32_t> owner, start, len;
    global<const uint32_t> uid, epoch;
};

/* The row and head of a warp; of keys and values, a head of those. */
struct unit {
    bool exists;
    int head;
    size_t row;
    int sequence; /* -1: slack */
    size_t start; /* of the sequence */
    int n, at;    /* its rows; position of `row` */
    uint32_t uid, epoch;
};

DEV unit unit_of(const call &c, const sequences &l, int heads) {
    unit u = {};
    const size_t item = (size_t)block_x() * WARPS + (size_t)warp();
    u.row = item / (size_t)heads;
    u.head = (int)(item % (size_t)heads);
    u.exists = u.row < c.rows;
    if (!u.exists) return u;
    u.sequence = l.owner[u.row];
    if (u.sequence < 0) return u;
    u.start = (size_t)l.start[u.sequence];
    u.n = l.len[u.sequence];
    u.at = (int)(u.row - u.start);
    u.uid = l.uid[u.sequence];
    u.epoch = l.epoch[u.sequence];
    return u;
}

/* The rows from .. to - 1 that are at most `before` back and `after` on; they are visited in 32s
 * from `first` on. */
struct sight {
    int first, from, to;
};

DEV sight sight_of(const unit &u, int before, int after) {
    const int from = u.at > before ? u.at - before : 0;
    const int to = u.n - u.at > after ? u.at + after + 1 : u.n;
    return sight{from / 32 * 32, from, to};
}

/* 1 / (1 - p) where the pair is kept, else 0. */
DEV float keep_factor(const call &c, const unit &u, int head, int row, int col) {
    if (c.drop.keep >= 256) return 1.0f;
    const sr_u32x4 draw = drop_draw(c.drop, (uint32_t)row, sr_drop_group((uint32_t)col), u.uid,
                                    (uint32_t)head, u.epoch);
    return drop_keeps(c.drop, draw, (uint32_t)col) ? c.drop.scale : 0.0f;
}

template <class T> DEV float dot(global<const T> a, global<const T> b, int d) {
    float sum = 0.0f;
    for (int i = 0; i < d; i++) sum = fmaf(to_float(a[i]), to_float(b[i]), sum);
    return sum;
}

template <class T> DEV float rounded(float x) {
    return to_float(from_float<T>(x));
}

template <class T> DEV void fill_row(global<T> to, int d, float value) {
    for (int i = lane(); i < d; i += 32) to[i] = from_float<T>(value);
}

template <class T> DEV void write_row(global<T> to, shared<float> from, int d, float factor) {
    for (int i = lane(); i < d; i += 32) to[i] = from_float<T>(from[i] * factor);
}

DEV void fill_shared(shared<float> to, int d) {
    for (int i = lane(); i < d; i += 32) to[i] = 0.0f;
}

/* to = to fade + sum of weight[j] row j of `rows` (d), `stride` apart */
template <class T>
DEV void add_rows(shared<float> to, float fade, shared<float> weight, global<const T> rows,
                  size_t stride, int count, int d) {
    for (int i = lane(); i < d; i += 32) {
        float sum = to[i] * fade;
        for (int j = 0; j < count; j++)
            sum = fmaf(weight[j], to_float(rows[(size_t)j * stride + (size_t)i]), sum);
        to[i] = sum;
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

template <class T>
KERNEL(THREADS, 1)
void plain_forward(call c, int d, sequences l, global<T> out, global<float> lse, readonly<T> qkv) {
    shared<float> weight = shared_at<float>(warp() * 32 * 4, 32);
    shared<float> sums = shared_at<float>((WARPS * 32 + warp() * d) * 4, d);
    const unit u = unit_of(c, l, c.heads);
    if (!u.exists) return;
    const columns at = columns_of<true>(c, u.head, d);
    out = out + (u.row * (size_t)c.heads * (size_t)d + at.q);
    lse = lse + ((size_t)u.head * c.rows + u.row);
    if (u.sequence < 0) {
        fill_row(out, d, 0.0f);
        if (lane() == 0) lse[0] = INFINITY;
        return;
    }
    global<const T> q = qkv + (u.row * at.stride + at.q);
    float most = -INFINITY, sum = 0.0f;
    fill_shared(sums, d);
    const sight seen = sight_of(u, c.before, c.after);
    for (int first = seen.first; first < seen.to; first += 32) {
        const int col = first + lane(), count = seen.to - first < 32 ? seen.to - first : 32;
        global<const T> row = qkv + (u.start + (size_t)first) * at.stride;
        const bool here = col >= seen.from && col < seen.to;
        const float x =
            here ? dot<T>(q, row + ((size_t)lane() * at.stride + at.k), d) * c.scale : -INFINITY;
        const float now = fmaxf(most, warp_max(x)), fade = math_exp(most - now);
        const float e = here ? math_exp(x - now) : 0.0f;
        sum = sum * fade + warp_sum(e);
        most = now;
        warp_barrier();
        weight[lane()] = rounded<T>(keep_factor(c, u, u.head, u.at, col) != 0.0f ? e : 0.0f);
        warp_barrier();
        add_rows<T>(sums, fade, weight, row + at.v, at.stride, count, d);
    }
    write_row(out, sums, d, c.drop.scale / sum);
    if (lane() == 0) lse[0] = most + math_log(sum);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Where the parts of a unit are. */
template <class T> struct plain_tensors {
    global<T> dqkv;
    global<float> delta;
    global<const T> qkv, out, dout;
    global<const float> lse;
};

template <class T>
KERNEL(THREADS, 1)
void plain_deltas(call c, int d, sequences l, plain_tensors<T> t) {
    const unit u = unit_of(c, l, c.heads);
    if (!u.exists || u.sequence < 0) return;
    const size_t at = (u.row * (size_t)c.heads + (size_t)u.head) * (size_t)d;
    float sum = 0.0f;
    for (int i = lane(); i < d; i += 32)
        sum = fmaf(to_float(t.dout[at + (size_t)i]), to_float(t.out[at + (size_t)i]), sum);
    sum = warp_sum(sum);
    if (lane() == 0) t.delta[(size_t)u.head * c.rows + u.row] = sum;
}

/* The probability of a pair of rows after dropout, and the derivative of its score. */
struct pair {
    float kept, derivative;
};

template <class T>
DEV pair pair_of(const call &c, const unit &u, const plain_tensors<T> &t, int d, int head, int row,
                 int col) {
    const columns at = columns_of<true>(c, head, d);
    const size_t query = u.start + (size_t)row, key = u.start + (size_t)col;
    const size_t line = (size_t)head * c.rows + query, stride = (size_t)c.heads * (size_t)d;
    global<const T> from = t.qkv + key * at.stride;
    const float x = dot<T>(t.qkv + (query * at.stride + at.q), from + at.k, d) * c.scale;
    const float dp = dot<T>(t.dout + (query * stride + at.q), from + at.v, d);
    const float p = math_exp(x - t.lse[line]), keep = keep_factor(c, u, head, row, col);
    return pair{rounded<T>(p * keep), rounded<T>(p * (dp * keep - t.delta[line]))};
}

template <class T>
KERNEL(THREADS, 1)
void plain_queries(call c, int d, sequences l, plain_tensors<T> t) {
    shared<float> weight = shared_at<float>(warp() * 32 * 4, 32);
    shared<float> sums = shared_at<float>((WARPS * 32 + warp() * d) * 4, d);
    const unit u = unit_of(c, l, c.heads);
    if (!u.exists) return;
    const columns at = columns_of<true>(c, u.head, d);
    global<T> dq = t.dqkv + (u.row * at.stride + at.q);
    if (u.sequence < 0) {
        fill_row(dq, d, 0.0f);
        return;
    }
    fill_shared(sums, d);
    const sight seen = sight_of(u, c.before, c.after);
    for (int first = seen.first; first < seen.to; first += 32) {
        const int col = first + lane(), count = seen.to - first < 32 ? seen.to - first : 32;
        const bool here = col >= seen.from && col < seen.to;
        const pair x = here ? pair_of(c, u, t, d, u.head, u.at, col) : pair{0.0f, 0.0f};
        warp_barrier();
        weight[lane()] = x.derivative;
        warp_barrier();
        add_rows<T>(sums, 1.0f, weight, t.qkv + ((u.start + (size_t)first) * at.stride + at.k),
                    at.stride, count, d);
    }
    write_row(dq, sums, d, c.scale);
}

template <class T>
KERNEL(THREADS, 1)
void plain_keys(call c, int d, sequences l, plain_tensors<T> t) {
    shared<float> kept = shared_at<float>(warp() * 64 * 4, 32),
                  derivative = shared_at<float>((warp() * 64 + 32) * 4, 32);
    shared<float> dk = shared_at<float>((WARPS * 64 + warp() * 2 * d) * 4, d);
    shared<float> dv = shared_at<float>((WARPS * 64 + warp() * 2 * d + d) * 4, d);
    const unit u = unit_of(c, l, c.kv_heads);
    if (!u.exists) return;
    const int members = members_of(c);
    const columns own = columns_of<true>(c, u.head * members, d);
    global<T> to = t.dqkv + u.row * own.stride;
    if (u.sequence < 0) {
        fill_row(to + own.k, d, 0.0f);
        fill_row(to + own.v, d, 0.0f);
        return;
    }
    fill_shared(dk, d);
    fill_shared(dv, d);
    const sight seers = sight_of(u, c.after, c.before);
    for (int head = u.head * members; head < (u.head + 1) * members; head++) {
        const columns at = columns_of<true>(c, head, d);
        for (int first = seers.first; first < seers.to; first += 32) {
            const int row = first + lane(), count = seers.to - first < 32 ? seers.to - first : 32;
            const bool here = row >= seers.from && row < seers.to;
            const pair x = here ? pair_of(c, u, t, d, head, row, u.at) : pair{0.0f, 0.0f};
            const size_t begin = u.start + (size_t)first;
            warp_barrier();
            kept[lane()] = x.kept;
            derivative[lane()] = x.derivative;
            warp_barrier();
            add_rows<T>(dk, 1.0f, derivative, t.qkv + (begin * at.stride + at.q), at.stride, count,
                        d);
            add_rows<T>(dv, 1.0f, kept, t.dout + (begin * (size_t)c.heads * (size_t)d + at.q),
                        (size_t)c.heads * (size_t)d, count, d);
        }
    }
    write_row(to + own.k, dk, d, c.scale);
    write_row(to + own.v, dv, d, 1.0f);
}

} // namespace attention

/* ---- launches -------------------------------------------------------------------------------- */

using namespace attention;

static sequences sequences_of(const sr_layout_on *on, const sr_layout *l) {
    const size_t n = (size_t)l->sequences;
    return sequences{gpu_pointer(on->owner, (size_t)l->rows), gpu_pointer(on->start, n),
                     gpu_pointer(on->len, n), gpu_pointer(on->uid, n), gpu_pointer(on->epoch, n)};
}

/* Shared memory for sums of `width` floats per warp, with `lists` lists of 32. */
static size_t shared_bytes(int lists, int width) {
    return (size_t)(WARPS * (lists * 32 + width)) * sizeof(float);
}

/* A warp for each row and head. */
static dim grid_of(const attention_job *j, int heads) {
    return dim(ceil_div(j->call.rows * (size_t)heads, WARPS));
}

template <class T> static sr_status backward(const attention_job *j, sequences l) {
    const dim grid = grid_of(j, j->call.heads);
    plain_tensors<T> t = {out<T>(j->dqkv),  {}, in<T>(j->qkv), in<T>(j->out), in<T>(j->dout),
                          in<float>(j->lse)};
    const char *op = "attention_backward";
    SR_TRY(scratch(&t.delta, j->g, 0, (size_t)j->call.heads * j->call.rows));
    SR_TRY(launch(j->g, op, plain_deltas<T>, grid, THREADS, 0, j->call, j->d, l, t));
    SR_TRY(launch(j->g, op, plain_queries<T>, grid, THREADS, shared_bytes(1, j->d), j->call, j->d,
                  l, t));
    return launch(j->g, op, plain_keys<T>, grid_of(j, j->call.kv_heads), THREADS,
                  shared_bytes(2, 2 * j->d), j->call, j->d, l, t);
}

template <class T> sr_status attention_plain(const attention_job *j) {
    sr_layout_on *on;
    SR_TRY(sr_layout_find_on(&on, j->layout, j->g->device));
    const sequences l = sequences_of(on, j->layout);
    if (j->dqkv != nullptr) return backward<T>(j, l);
    return launch(j->g, "attention", plain_forward<T>, grid_of(j, j->call.heads), THREADS,
                  shared_bytes(1, j->d), j->call, j->d, l, out<T>(j->out), out<float>(j->lse),
                  in<T>(j->qkv));
}

template sr_status attention_plain<float>(const attention_job *);
template sr_status attention_plain<bf16>(const attention_job *);
