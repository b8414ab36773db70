/* matmul.cu - batched matrix products of any strides and dtypes.
 *
 * Shapes    a (..., m, k), b (..., k, n), y (..., m, n), batch dimensions expanded
 * Grid      products that cuBLASLt takes go there, one call for the innermost batch dimensions that
 *           lie evenly.  Others (mixed dtypes, overlapping or wide strides) are computed by a
 * thread for each element of y: right, and slow. Numerics  f32 sums in the order of k in the slow
 * kernel
 */
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/gpu_ops.h"

namespace {

enum { BATCH_DIMS = SR_MAX_DIMS - 2, MATMUL_THREADS = 256 };

/* The batch dimensions of the three, those merged that lie evenly in all. */
struct batch {
    int dims;
    int64_t size[BATCH_DIMS], y[BATCH_DIMS], a[BATCH_DIMS], b[BATCH_DIMS];
};

/* ---- the slow kernel ------------------------------------------------------------------------- */

struct matmul_plan {
    batch over;
    int64_t m, n, k;
    int64_t y_row, y_col, a_row, a_col, b_row, b_col;
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
void matmul_elements(global<Y> y, global<const A> a, global<const B> b, matmul_plan p,
                     size_t count) {
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
    sum *= p.alpha;
    if (p.add) {
        Y before = y[at];
        sum += to_float(before);
    }
    y[at] = from_float<Y>(sum);
}

} // namespace

template <class Y, class A, class B>
static sr_status run_slow(sr_tensor *y, const sr_tensor *a, const sr_tensor *b,
                          const matmul_plan &p) {
    size_t count = (size_t)sr_tensor_elements(y);
    return launch(gpu_of(y), "matmul", matmul_elements<Y, A, B>,
                  dim(ceil_div(count, MATMUL_THREADS)), MATMUL_THREADS, 0, out<Y>(y), in<A>(a),
                  in<B>(b), p, count);
}

template <class Y, class A>
static sr_status slow_b(sr_tensor *y, const sr_tensor *a, const sr_tensor *b,
                        const matmul_plan &p) {
    return b->dtype == SR_BF16 ? run_slow<Y, A, bf16>(y, a, b, p)
                               : run_slow<Y, A, float>(y, a, b, p);
}

template <class Y>
static sr_status slow_a(sr_tensor *y, const sr_tensor *a, const sr_tensor *b,
                        const matmul_plan &p) {
    return a->dtype == SR_BF16 ? slow_b<Y, bf16>(y, a, b, p) : slow_b<Y, float>(y, a, b, p);
}

static sr_status slow(sr_tensor *y, const sr_tensor *a, const sr_tensor *b, const batch &over,
                      double alpha, bool add) {
    matrix my = matrix_of(y), ma = matrix_of(a), mb = matrix_of(b);
    matmul_plan p = {over,   my.rows, my.cols, ma.cols, my.row,       my.col,
                     ma.row, ma.col,  mb.row,  mb.col,  (float)alpha, add};
    return y->dtype == SR_BF16 ? slow_a<bf16>(y, a, b, p) : slow_a<float>(y, a, b, p);
}

/* ---- by gemm.h ------------------------------------------------------------------------------- */

static bool is_by_row(const matrix &m) {
    return (m.col == 1 || m.cols == 1) && (m.rows == 1 || m.row >= m.cols);
}

static bool is_even(const matrix &m) {
    return is_by_row(m) || is_by_row(transposed(m));
}

/* Whether gemm() takes the operands. */
static bool fits(const product *p) {
    if (p->a.dtype != p->b.dtype || (p->c.dtype != SR_F32 && p->c.dtype != p->a.dtype))
        return false;
    return is_by_row(p->c) && is_even(p->a) && is_even(p->b);
}

static batch batch_of(const sr_tensor *y, const sr_tensor *a, const sr_tensor *b) {
    batch o = {};
    for (int d = 0; d < y->ndim - 2; d++) {
        int last = o.dims - 1;
        int64_t n = y->shape[d];
        if (n == 1) continue;
        bool merged = last >= 0 && o.y[last] == y->stride[d] * n && o.a[last] == a->stride[d] * n &&
                      o.b[last] == b->stride[d] * n;
        if (!merged) o.size[last = o.dims++] = 1;
        o.size[last] *= n;
        o.y[last] = y->stride[d];
        o.a[last] = a->stride[d];
        o.b[last] = b->stride[d];
    }
    return o;
}

static void *moved(const matrix &m, int64_t elements) {
    return (char *)m.data + elements * (int64_t)sr_dtype_size(m.dtype);
}

/* All but the innermost batch dimension one by one. */
static sr_status run_each(gpu *g, product p, const batch &o, int d) {
    if (o.dims == 0) return gemm(g, "matmul", &p);
    if (d == o.dims - 1) {
        p.count = o.size[d];
        p.c_step = o.y[d];
        p.a_step = o.a[d];
        p.b_step = o.b[d];
        return gemm(g, "matmul", &p);
    }
    for (int64_t i = 0; i < o.size[d]; i++) {
        product one = p;
        one.c.data = moved(p.c, i * o.y[d]);
        one.a.data = moved(p.a, i * o.a[d]);
        one.b.data = moved(p.b, i * o.b[d]);
        SR_TRY(run_each(g, one, o, d + 1));
    }
    return SR_OK;
}

sr_status gpu_matmul(sr_tensor *y, const sr_tensor *a, const sr_tensor *b, double alpha,
                     double beta) {
    product p = product_of(matrix_of(y), matrix_of(a), matrix_of(b));
    batch over = batch_of(y, a, b);
    if (sr_tensor_elements(y) == 0) return SR_OK;
    p.alpha = (float)alpha;
    p.add = beta != 0.0;
    if (!fits(&p)) return slow(y, a, b, over, alpha, p.add);
    return run_each(gpu_of(y), p, over, 0);
}
