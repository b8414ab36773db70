/* reduce.c - reductions, matrix products, softmax, gather and scatter of rows. */
#include <math.h>

#include "core/base/mem.h"
#include "kernels/ref/ref.h"

static const char TOO_LARGE[] =
    "sum: the sum %.0f of i32 does not fit i32; sum x:to(\"f32\") instead";

/* Maps an element of x to the element of y that accumulates it: y has size 1 in reduced dimensions.
 */
static sr_tensor stretched(const sr_tensor *y, const sr_tensor *x) {
    sr_tensor view = *y;
    for (int i = 0; i < x->ndim; i++) {
        view.shape[i] = x->shape[i];
        if (y->shape[i] == 1) view.stride[i] = 0;
    }
    return view;
}

/* The reduced dimension of an argmax or argmin; -1 if it has size 1. */
static int reduced_dim(const sr_tensor *y, const sr_tensor *x) {
    for (int i = 0; i < x->ndim; i++)
        if (y->shape[i] != x->shape[i]) return i;
    return -1;
}

static bool better(sr_reduction op, double x, double best) {
    if (isnan(x) || isnan(best)) return isnan(x) && !isnan(best);
    return op == SR_MAX || op == SR_ARGMAX ? x > best : x < best;
}

static sr_status position(sr_tensor *y, const sr_tensor *x, sr_reduction op) {
    int dim = reduced_dim(y, x);
    if (dim < 0) return ref_fill(y, 0);
    int64_t stride = x->stride[dim], size = x->shape[dim];
    sr_tensor first = *x;
    first.shape[dim] = 1;
    const sr_tensor *list[] = {y, &first};
    for (ref_walk w = ref_start(2, list); w.left > 0; ref_next(&w)) {
        int64_t best = 0;
        const void *data = sr_tensor_data(x);
        for (int64_t i = 1; i < size; i++) {
            double here = sr_element_load(data, x->dtype, w.at[1] + i * stride);
            if (better(op, here, sr_element_load(data, x->dtype, w.at[1] + best * stride)))
                best = i;
        }
        ref_store(&w, 0, (double)best);
    }
    return SR_OK;
}

static sr_status extreme(sr_tensor *y, const sr_tensor *x, sr_reduction op) {
    SR_TRY(ref_fill(y, op == SR_MAX ? -INFINITY : INFINITY));
    if (y->dtype == SR_I32) SR_TRY(ref_fill(y, op == SR_MAX ? INT32_MIN : INT32_MAX));
    sr_tensor view = stretched(y, x);
    const sr_tensor *list[] = {&view, x};
    for (ref_walk w = ref_start(2, list); w.left > 0; ref_next(&w))
        if (better(op, ref_load(&w, 1), ref_load(&w, 0))) ref_store(&w, 0, ref_load(&w, 1));
    return SR_OK;
}

/* Sums of i32 in f64, which is exact: what does not fit i32 is refused. */
static sr_status whole_sum(sr_tensor *y, const sr_tensor *x) {
    double *sum = NULL;
    SR_TRY(sr_new(&sum, sr_tensor_elements(y)));
    sr_tensor view = stretched(y, x);
    const sr_tensor *list[] = {&view, x};
    for (ref_walk w = ref_start(2, list); w.left > 0; ref_next(&w)) sum[w.at[0]] += ref_load(&w, 1);
    sr_status st = SR_OK;
    list[0] = y;
    for (ref_walk w = ref_start(1, list); w.left > 0 && st == SR_OK; ref_next(&w)) {
        double total = sum[w.at[0]];
        if (total < INT32_MIN || total > INT32_MAX) st = sr_fail(SR_EINVAL, TOO_LARGE, total);
        if (st == SR_OK) ref_store(&w, 0, total);
    }
    sr_free(sum);
    return st;
}

sr_status ref_reduce(sr_tensor *y, const sr_tensor *x, sr_reduction op) {
    if (op == SR_ARGMAX || op == SR_ARGMIN) return position(y, x, op);
    if (op == SR_MAX || op == SR_MIN) return extreme(y, x, op);
    if (y->dtype == SR_I32) return whole_sum(y, x);
    SR_TRY(ref_fill(y, 0));
    sr_tensor view = stretched(y, x);
    const sr_tensor *list[] = {&view, x};
    for (ref_walk w = ref_start(2, list); w.left > 0; ref_next(&w))
        ref_store(&w, 0, ref_load(&w, 0) + ref_load(&w, 1));
    return SR_OK;
}

/* y[m, n] = alpha sum_k a[m, k] b[k, n] + beta y[m, n], for every batch */
sr_status ref_matmul(sr_tensor *y, const sr_tensor *a, const sr_tensor *b, double alpha,
                     double beta) {
    int n = y->ndim;
    int64_t depth = a->shape[n - 1];
    int64_t a_step = a->stride[n - 1], b_step = b->stride[n - 2];
    sr_tensor rows = *a,
              columns = *b; /* iterated like y: first element of the row, of the column */
    rows.shape[n - 1] = y->shape[n - 1];
    rows.stride[n - 1] = 0;
    columns.shape[n - 2] = y->shape[n - 2];
    columns.stride[n - 2] = 0;
    const double *pa = SR_DATA(double, a), *pb = SR_DATA(double, b);
    const sr_tensor *list[] = {y, &rows, &columns};
    for (ref_walk w = ref_start(3, list); w.left > 0; ref_next(&w)) {
        if (w.at[2] == 0) SR_TRY(ref_poll("matmul"));
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += pa[w.at[1] + k * a_step] * pb[w.at[2] + k * b_step];
        ref_store(&w, 0, alpha * sum + (beta != 0 ? beta * ref_load(&w, 0) : 0.0));
    }
    return SR_OK;
}

/* Iterates over the rows along the last dimension; `at` is the first element of each. */
static ref_walk start_rows(int tensors, const sr_tensor *const *t, sr_tensor *heads) {
    const sr_tensor *list[4];
    for (int i = 0; i < tensors; i++) {
        heads[i] = *t[i];
        heads[i].ndim = t[i]->ndim - 1;
        list[i] = &heads[i];
    }
    return ref_start(tensors, list);
}

/* y = exp(x - max) / sum, or x - max - log sum */
sr_status ref_softmax(sr_tensor *y, const sr_tensor *x, bool log_form) {
    int last = x->ndim - 1;
    int64_t n = x->shape[last], sx = x->stride[last], sy = y->stride[last];
    sr_tensor heads[2];
    if (n == 0) return SR_OK;
    for (ref_walk w = start_rows(2, (const sr_tensor *[]){y, x}, heads); w.left > 0; ref_next(&w)) {
        double *py = SR_DATA(double, y) + w.at[0];
        const double *px = SR_DATA(double, x) + w.at[1];
        double most = px[0], sum = 0;
        for (int64_t i = 1; i < n; i++) most = fmax(most, px[i * sx]);
        for (int64_t i = 0; i < n; i++) sum += exp(px[i * sx] - most);
        for (int64_t i = 0; i < n; i++) {
            double away = px[i * sx] - most;
            py[i * sy] = log_form ? away - log(sum) : exp(away) / sum;
        }
    }
    return SR_OK;
}

/* dx = y (dy - sum dy y), or dy - exp(y) sum dy */
sr_status ref_softmax_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *y,
                               bool log_form) {
    int last = y->ndim - 1;
    int64_t n = y->shape[last], sdx = dx->stride[last], sdy = dy->stride[last],
            sy = y->stride[last];
    sr_tensor heads[3];
    const sr_tensor *list[] = {dx, dy, y};
    for (ref_walk w = start_rows(3, list, heads); w.left > 0; ref_next(&w)) {
        double *pdx = SR_DATA(double, dx) + w.at[0];
        const double *pdy = SR_DATA(double, dy) + w.at[1], *py = SR_DATA(double, y) + w.at[2];
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += pdy[i * sdy] * (log_form ? 1.0 : py[i * sy]);
        for (int64_t i = 0; i < n; i++)
            pdx[i * sdx] =
                log_form ? pdy[i * sdy] - exp(py[i * sy]) * sum : py[i * sy] * (pdy[i * sdy] - sum);
    }
    return SR_OK;
}

/* rows[m], checked against the number of rows of x. */
static sr_status row_number(int64_t *row, const char *op, const sr_tensor *rows, int64_t m,
                            const sr_tensor *x) {
    *row = (int64_t)sr_element_load(sr_tensor_data(rows), rows->dtype, m * rows->stride[0]);
    if (*row >= 0 && *row < x->shape[0]) return SR_OK;
    return sr_fail(SR_EINVAL, "%s: rows[%lld] is %lld, but there are %lld rows (counted from 0)",
                   op, (long long)m, (long long)*row, (long long)x->shape[0]);
}

/* Row r of t as a tensor with one dimension less. */
static sr_tensor row_of(const sr_tensor *t, int64_t r) {
    sr_tensor row = *t;
    row.ndim = t->ndim - 1;
    row.offset = t->offset + r * t->stride[0];
    for (int i = 0; i < row.ndim; i++) {
        row.shape[i] = t->shape[i + 1];
        row.stride[i] = t->stride[i + 1];
    }
    return row;
}

sr_status ref_gather_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows) {
    for (int64_t m = 0; m < rows->shape[0]; m++) {
        int64_t r;
        SR_TRY(row_number(&r, "gather_rows", rows, m, x));
        sr_tensor to = row_of(y, m), from = row_of(x, r);
        SR_TRY(ref_copy(&to, &from));
    }
    return SR_OK;
}

sr_status ref_scatter_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows) {
    for (int64_t m = 0; m < rows->shape[0]; m++) {
        int64_t r;
        SR_TRY(row_number(&r, "scatter_rows", rows, m, y));
        sr_tensor to = row_of(y, r), from = row_of(x, m);
        SR_TRY(ref_axpby(&to, &from, 1.0, 1.0));
    }
    return SR_OK;
}

sr_status ref_put_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows) {
    for (int64_t m = 0; m < rows->shape[0]; m++) {
        int64_t r, other;
        SR_TRY(row_number(&r, "put_rows", rows, m, y));
        for (int64_t k = 0; k < m; k++) {
            SR_TRY(row_number(&other, "put_rows", rows, k, y));
            if (other == r)
                return sr_fail(SR_EINVAL, "put_rows: rows[%lld] is %lld again; name a row once",
                               (long long)m, (long long)r);
        }
        sr_tensor to = row_of(y, r), from = x != NULL ? row_of(x, m) : to;
        SR_TRY(x != NULL ? ref_copy(&to, &from) : ref_fill(&to, 0.0));
    }
    return SR_OK;
}
