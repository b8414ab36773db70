/* gemm.cc - matrix products of the SIMT host: plain loops over f32 copies of A and B.
 *
 * This host is not meant to test products, so they are neither emulated nor checked; they take a
 * few milliseconds at the sizes of tests.  An element is summed in the order of k, so its bits do
 * not depend on other rows.
 */
#include "kernels/cuda/gemm.h"

#include "core/base/mem.h"
#include "core/base/thread.h"
#include "kernels/cuda/gpu.h"

enum { ROWS = 8, WIDTH = 256 };

using namespace simt;

struct job {
    const product *p;
    float *a, *b; /* (m, k) and (k, n), row-major */
    float alpha;
};

static float load(const matrix *m, const void *data, int64_t i) {
    return m->dtype == SR_BF16 ? sr_bf16_to_f32(((const sr_bf16 *)data)[i])
                               : ((const float *)data)[i];
}

static void store(const matrix *m, void *data, int64_t i, float x) {
    if (m->dtype == SR_BF16)
        ((sr_bf16 *)data)[i] = sr_bf16_from_f32(x);
    else
        ((float *)data)[i] = x;
}

static const void *at_step(const matrix *m, int64_t step, int64_t i) {
    return (const char *)m->data + (size_t)(step * i) * sr_dtype_size(m->dtype);
}

static void widen(float *to, const matrix *m, const void *data) {
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t c = 0; c < m->cols; c++)
            to[r * m->cols + c] = load(m, data, r * m->row + c * m->col);
}

/* sum += a b for some columns of one row; the compiler vectorises the loop over columns. */
__attribute__((optimize("O3"))) static void add_row(float *__restrict__ sum, const float *a,
                                                    const float *b, int64_t k, int64_t n,
                                                    int64_t width) {
    for (int64_t i = 0; i < k; i++) {
        const float *__restrict__ row = b + i * n;
        for (int64_t c = 0; c < width; c++) sum[c] += a[i] * row[c];
    }
}

static void finish_row(const job *j, void *c, int64_t row, int64_t col, int64_t width,
                       const float *sum) {
    const product *p = j->p;
    for (int64_t i = 0; i < width; i++) {
        int64_t at = row * p->c.row + (col + i) * p->c.col;
        float x = j->alpha * sum[i];
        if (p->bias != nullptr) x += load(&p->c, p->bias, col + i);
        if (p->add) x += load(&p->c, c, at);
        store(&p->c, c, at, x);
    }
}

struct one {
    const job *j;
    void *c;
};

static sr_status run_rows(void *context, int64_t task, int) {
    const one *o = (const one *)context;
    const product *p = o->j->p;
    int64_t n = p->c.cols, k = p->a.cols;
    for (int64_t row = task * ROWS; row < (task + 1) * ROWS && row < p->c.rows; row++)
        for (int64_t col = 0; col < n; col += WIDTH) {
            float sum[WIDTH] = {};
            int64_t left = n - col, width = left < (int64_t)WIDTH ? left : (int64_t)WIDTH;
            add_row(sum, o->j->a + row * k, o->j->b + col, k, n, width);
            finish_row(o->j, o->c, row, col, width, sum);
        }
    return SR_OK;
}

static sr_status multiply(gpu *g, job *j) {
    const product *p = j->p;
    for (int64_t i = 0; i < p->count; i++) {
        if (i == 0 || p->a_step != 0) widen(j->a, &p->a, at_step(&p->a, p->a_step, i));
        if (i == 0 || p->b_step != 0) widen(j->b, &p->b, at_step(&p->b, p->b_step, i));
        one o = {j, (void *)at_step(&p->c, p->c_step, i)};
        SR_TRY(sr_threads_run(g->device->threads, run_rows, &o,
                              (int64_t)ceil_div((size_t)p->c.rows, ROWS)));
    }
    return SR_OK;
}

/* The product, with addresses that the host can use. */
static product inside(const product *p) {
    product q = *p;
    q.a.data = arena_inside(p->a.data);
    q.b.data = arena_inside(p->b.data);
    q.c.data = arena_inside(p->c.data);
    q.bias = arena_inside(p->bias);
    q.alpha_at = (const float *)arena_inside(p->alpha_at);
    return q;
}

sr_status gemm(gpu *g, const char *op, const product *given) {
    product local = inside(given), *p = &local;
    if (p->a.dtype != p->b.dtype || p->a.rows != p->c.rows || p->b.cols != p->c.cols ||
        p->a.cols != p->b.rows)
        return sr_fail(SR_EINTERNAL, "%s: operands of a product do not fit", op);
    job j = {p, nullptr, nullptr, p->alpha_at != nullptr ? *p->alpha_at : p->alpha};
    sr_status st = sr_new(&j.a, p->a.rows * p->a.cols + 1);
    if (st == SR_OK) st = sr_new(&j.b, p->b.rows * p->b.cols + 1);
    if (st == SR_OK) st = multiply(g, &j);
    sr_free(j.a);
    sr_free(j.b);
    return st;
}
