/* gemm.cu - products that the library of matrix products does not take, by a thread for each
 * element of C: correct, but slow.
 *
 * Numerics  f32 sums in the order of k
 */
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gpu.h"

enum { MATMUL_THREADS = 256 };

namespace {

struct matmul_plan {
    batch over;
    int64_t m, n, k;
    int64_t y_row, y_col, a_row, a_col, b_row, b_col;
    global<const float> alpha_at; /* instead of alpha, or NULL */
    float alpha;
    bool add;
};

DEV void batch_offsets(const batch &over, size_t i, int64_t &y, int64_t &a, int64_t &b) {
    y = a = b = 0;
    for (int d = over.dims - 1; d >= 0; d--) {
        int64_t at = (int64_t)(i % (size_t)over.size[d]);
        i /= (size_t)over.size[d];
        y += at * over.y[d];
        a += at * over.a[d];
        b += at * over.b[d];
    }
}

template <class Y, class A, class B>
KERNEL(MATMUL_THREADS, 2)
void matmul_elements(global<Y> y, readonly<A> a, readonly<B> b, matmul_plan p, size_t count) {
    size_t i = (size_t)block_x() * MATMUL_THREADS + (size_t)thread();
    if (i >= count) return;
    int64_t at_y, at_a, at_b, col = (int64_t)(i % (size_t)p.n), row = (int64_t)(i / (size_t)p.n);
    batch_offsets(p.over, (size_t)(row / p.m), at_y, at_a, at_b);
    row %= p.m;
    float sum = 0.0f;
    for (int64_t j = 0; j < p.k; j++) {
        A x = a[(size_t)(at_a + row * p.a_row + j * p.a_col)];
        B w = b[(size_t)(at_b + j * p.b_row + col * p.b_col)];
        sum += to_float(x) * to_float(w);
    }
    size_t at = (size_t)(at_y + row * p.y_row + col * p.y_col);
    sum *= p.alpha_at ? p.alpha_at[0] : p.alpha;
    if (p.add) {
        Y before = y[at];
        sum += to_float(before);
    }
    y[at] = from_float<Y>(sum);
}

/* Elements of an operand, wherever its plan finds them. */
struct place {
    void *data;
    size_t bytes;
    sr_dtype dtype;

    template <class T> global<T> at() const {
        return gpu_pointer((T *)data, bytes / sizeof(T));
    }
};

struct slow_job {
    gpu *g;
    const char *op;
    place y, a, b;
    size_t count;
    matmul_plan plan;
};

} // namespace

template <class Y, class A, class B> static sr_status run_slow(const slow_job &j) {
    return launch(j.g, j.op, matmul_elements<Y, A, B>, dim(ceil_div(j.count, MATMUL_THREADS)),
                  MATMUL_THREADS, 0, j.y.at<Y>(), j.a.at<const A>(), j.b.at<const B>(), j.plan,
                  j.count);
}

template <class Y, class A> static sr_status slow_b(const slow_job &j) {
    return j.b.dtype == SR_BF16 ? run_slow<Y, A, bf16>(j) : run_slow<Y, A, float>(j);
}

template <class Y> static sr_status slow_a(const slow_job &j) {
    return j.a.dtype == SR_BF16 ? slow_b<Y, bf16>(j) : slow_b<Y, float>(j);
}

static sr_status slow(const slow_job &j) {
    return j.y.dtype == SR_BF16 ? slow_a<bf16>(j) : slow_a<float>(j);
}

static matmul_plan plan_of(const product &p, const batch &over) {
    return {over,
            p.c.rows,
            p.c.cols,
            p.a.cols,
            p.c.row,
            p.c.col,
            p.a.row,
            p.a.col,
            p.b.row,
            p.b.col,
            gpu_pointer(p.alpha_at, 1),
            p.alpha,
            p.add};
}

/* The elements from the first to the last one of an operand. */
static place place_of(const matrix &m, const batch &over, const int64_t *step) {
    int64_t last = (m.rows - 1) * m.row + (m.cols - 1) * m.col;
    for (int d = 0; d < over.dims; d++) last += (over.size[d] - 1) * step[d];
    return {m.data, (size_t)(last + 1) * sr_dtype_size(m.dtype), m.dtype};
}

sr_status plain_product(gpu *g, const char *op, const product *p, const batch *over) {
    size_t count = (size_t)(p->c.rows * p->c.cols);
    for (int d = 0; d < over->dims; d++) count *= (size_t)over->size[d];
    return slow({g, op, place_of(p->c, *over, over->y), place_of(p->a, *over, over->a),
                 place_of(p->b, *over, over->b), count, plan_of(*p, *over)});
}
