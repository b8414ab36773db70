#include "core/train/muon.h"

#include "core/tensor/backend.h"

enum { STEPS = 5 };
static const double A = 3.4445, B = -4.7750, C = 2.0315;

static int64_t shorter(int64_t rows, int64_t columns) {
    return rows < columns ? rows : columns;
}

int64_t sr_muon_room(int64_t rows, int64_t columns) {
    int64_t n = shorter(rows, columns);
    return rows * columns + 2 * n * n;
}

/* Rows and columns at element `at` of a flat tensor. */
static sr_tensor matrix(const sr_tensor *flat, int64_t at, int64_t rows, int64_t columns) {
    sr_tensor t = *flat;
    t.ndim = 2;
    t.shape[0] = rows;
    t.shape[1] = columns;
    t.stride[0] = columns;
    t.stride[1] = 1;
    t.offset += at;
    return t;
}

static sr_tensor transposed(const sr_tensor *x) {
    sr_tensor t = *x;
    t.shape[0] = x->shape[1];
    t.shape[1] = x->shape[0];
    t.stride[0] = x->stride[1];
    t.stride[1] = x->stride[0];
    return t;
}

/* next = A x + (B a + C a a) x with a = x x^T */
static sr_status improve(sr_tensor *next, const sr_tensor *x, sr_tensor *a, sr_tensor *aa) {
    const sr_backend *backend = x->storage->device->backend;
    sr_tensor back = transposed(x);
    SR_TRY(backend->matmul(a, x, &back, 1.0, 0.0));
    SR_TRY(backend->matmul(aa, a, a, C, 0.0));
    SR_TRY(backend->axpby(aa, a, B, 1.0));
    SR_TRY(backend->axpby(next, x, A, 0.0));
    return backend->matmul(next, aa, x, 1.0, 1.0);
}

sr_status sr_muon_orthogonalise(sr_tensor *flat, int64_t at, int64_t rows, int64_t columns,
                                sr_tensor *work) {
    int64_t n = shorter(rows, columns);
    sr_tensor x = matrix(flat, at, rows, columns), next = matrix(work, 0, rows, columns);
    sr_tensor a = matrix(work, rows * columns, n, n),
              aa = matrix(work, rows * columns + n * n, n, n);
    sr_tensor x_wide = rows > columns ? transposed(&x) : x;
    sr_tensor next_wide = rows > columns ? transposed(&next) : next;
    for (int step = 0; step < STEPS; step++) {
        bool even = step % 2 == 0;
        SR_TRY(improve(even ? &next_wide : &x_wide, even ? &x_wide : &next_wide, &a, &aa));
    }
    return STEPS % 2 == 0 ? SR_OK : x.storage->device->backend->copy(&x, &next);
}
