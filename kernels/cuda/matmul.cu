/* matmul.cu - batched matrix products of any strides and dtypes.
 *
 * Shapes    a (..., m, k), b (..., k, n), y (..., m, n), batch dimensions expanded
 * Grid      products that gemm() takes go there, one call for the innermost batch dimensions that
 *           are evenly spaced.  Others (mixed dtypes, overlapping or wide strides) are slow.
 */
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gpu.h"

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

/* The batch dimensions of the three; those evenly spaced in all are merged. */
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
    if (!fits(&p)) return plain_product(gpu_of(y), "matmul", &p, &over);
    return run_each(gpu_of(y), p, over, 0);
}
