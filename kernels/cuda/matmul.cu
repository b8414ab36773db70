/* matmul.cu - batched matrix products of any strides and dtypes.
 *
 * Shapes    a (..., m, k), b (..., k, n), y (..., m, n), batch dimensions expanded
 * Grid      products that cuBLASLt takes go there, one call for the innermost batch dimensions that
 *           are evenly spaced.  Others (mixed dtypes, overlapping or wide strides) are computed by
 *           a thread for each element of y: correct, but slow.
 * Numerics  f32 sums in the order of k in the slow kernel
 */
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/gpu_ops.h"

namespace {

enum { BATCH_DIMS = SR_MAX_DIMS - 2, MATMUL_THREADS = 256 };

/* The batch dimensions of the three; those evenly spaced in all are merged. */
struct batch {
    int dims;
    int64_t size[BATCH_DIMS], y[BATCH_DIMS], a[BATCH_DIMS], b[BATCH_DIMS];
};

/* ---- the slow kernel ------------------------------------------------------------------------- */

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

} // namespace

namespace {

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

static place place_of(const sr_tensor *t) {
    return {sr_tensor_data(t), gpu_extent(t), t->dtype};
}

static place place_of(const matrix &m, int64_t count, int64_t step) {
    int64_t last = (count - 1) * step + (m.rows - 1) * m.row + (m.cols - 1) * m.col;
    return {m.data, (size_t)(last + 1) * sr_dtype_size(m.dtype), m.dtype};
}

sr_status plain_product(gpu *g, const char *op, const product *p) {
    const batch over = {1, {p->count}, {p->c_step}, {p->a_step}, {p->b_step}};
    return slow({g, op, place_of(p->c, p->count, p->c_step), place_of(p->a, p->count, p->a_step),
                 place_of(p->b, p->count, p->b_step), (size_t)(p->count * p->c.rows * p->c.cols),
                 plan_of(*p, over)});
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
    if (!fits(&p))
        return slow({gpu_of(y), "matmul", place_of(y), place_of(a), place_of(b),
                     (size_t)sr_tensor_elements(y), plan_of(p, over)});
    return run_each(gpu_of(y), p, over, 0);
}
