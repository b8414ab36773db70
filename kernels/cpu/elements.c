/* elements.c - small elementwise ops on tensors of any dtype and stride.
 *
 * A job splits y's elements, in row-major order, into stretches of GRAIN; a stretch is processed in
 * runs within the innermost dimension.  Contiguous f32 operands are used in place, all others pass
 * through a buffer of RUN elements that also converts them.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

enum { RUN = 512, GRAIN = 16384, OPERANDS = 4 };

typedef struct walk {
    const sr_tensor *t[OPERANDS]; /* y, then the inputs */
    int operands, ndim;
    int64_t shape[SR_MAX_DIMS], stride[OPERANDS][SR_MAX_DIMS];
    int64_t elements;
    sr_kind kind;
    sr_element_run run;
    const void *context;
} walk;

/* ---- conversion ----------------------------------------------------------------------------- */

#define FROM(type, EXPR)                                                                           \
    {                                                                                              \
        const type *x = (const type *)sr_tensor_data(t) + element;                                 \
        for (int64_t i = 0; i < n; i++, x += stride) to[i] = EXPR;                                 \
        return;                                                                                    \
    }
#define INTO(type, EXPR)                                                                           \
    {                                                                                              \
        type *y = (type *)sr_tensor_data(t) + element;                                             \
        for (int64_t i = 0; i < n; i++, y += stride) *y = (type)(EXPR);                            \
        return;                                                                                    \
    }

void sr_cpu_load(float *to, const sr_tensor *t, int64_t element, int64_t stride, int64_t n) {
    switch (t->dtype) {
    case SR_F64:
        FROM(double, (float)*x)
    case SR_F32:
        FROM(float, *x)
    case SR_BF16:
        if (stride == 1) {
            sr_cpu_of(t)->simd->widen(to, SR_DATA(sr_bf16, t) + element, n);
            return;
        }
        FROM(sr_bf16, sr_bf16_to_f32(*x))
    case SR_I32:
        FROM(int32_t, (float)*x)
    case SR_BOOL:
        FROM(uint8_t, *x ? 1.0f : 0.0f)
    case SR_DTYPE_COUNT:
        return;
    }
}

/* Rounds toward zero; values out of range are clamped to int32, NaN becomes 0. */
static int32_t whole(double x) {
    if (!(x > -2147483648.0)) return x != x ? 0 : INT32_MIN;
    return x >= 2147483647.0 ? INT32_MAX : (int32_t)x;
}

void sr_cpu_store(sr_tensor *t, int64_t element, int64_t stride, const float *from, int64_t n) {
    switch (t->dtype) {
    case SR_F64:
        INTO(double, from[i])
    case SR_F32:
        INTO(float, from[i])
    case SR_BF16:
        if (stride == 1) {
            sr_cpu_of(t)->simd->narrow(SR_DATA(sr_bf16, t) + element, from, n);
            return;
        }
        INTO(sr_bf16, sr_bf16_from_f32(from[i]))
    case SR_I32:
        INTO(int32_t, whole(from[i]))
    case SR_BOOL:
        INTO(uint8_t, from[i] != 0.0f)
    case SR_DTYPE_COUNT:
        return;
    }
}

static void load_whole(int32_t *to, const sr_tensor *t, int64_t element, int64_t stride,
                       int64_t n) {
    if (t->dtype == SR_BOOL) FROM(uint8_t, *x != 0)
    if (t->dtype == SR_I32) FROM(int32_t, *x)
}

static void store_whole(sr_tensor *t, int64_t element, int64_t stride, const int32_t *from,
                        int64_t n) {
    if (t->dtype == SR_BOOL) INTO(uint8_t, from[i] != 0)
    if (t->dtype == SR_I32) INTO(int32_t, from[i])
}

/* ---- the walk ------------------------------------------------------------------------------- */

/* Merges dimensions that are contiguous in all operands, so that runs are long. */
static void set_dims(walk *w) {
    const sr_tensor *y = w->t[0];
    w->elements = 1;
    for (int d = 0; d < y->ndim; d++) {
        w->elements *= y->shape[d];
        if (y->shape[d] == 1) continue;
        bool joins = w->ndim > 0;
        for (int k = 0; joins && k < w->operands; k++)
            joins = w->stride[k][w->ndim - 1] == y->shape[d] * w->t[k]->stride[d];
        if (!joins) w->shape[w->ndim++] = 1;
        w->shape[w->ndim - 1] *= y->shape[d];
        for (int k = 0; k < w->operands; k++) w->stride[k][w->ndim - 1] = w->t[k]->stride[d];
    }
    if (w->ndim == 0) {
        w->ndim = 1;
        w->shape[0] = 1;
    }
}

/* The offset of row-major element i of y in operand k. */
static int64_t place(const walk *w, int k, int64_t i) {
    return sr_place(w->ndim, w->shape, w->stride[k], i);
}

static bool in_place(const walk *w, int k) {
    sr_dtype direct = w->kind == SR_KIND_REAL ? SR_F32 : SR_I32;
    return w->t[k]->dtype == direct &&
           (w->stride[k][w->ndim - 1] == 1 || w->shape[w->ndim - 1] == 1);
}

static void run_stretch(const walk *w, int64_t first, int64_t n) {
    SR_UNSET union {
        float real[RUN];
        int32_t whole[RUN];
    } room[OPERANDS];
    void *at[OPERANDS];
    for (int k = 0; k < w->operands; k++) {
        int64_t element = place(w, k, first), stride = w->stride[k][w->ndim - 1];
        at[k] = &room[k];
        if (in_place(w, k)) {
            at[k] = SR_DATA(float, w->t[k]) + element;
        } else if (k > 0) {
            if (w->kind == SR_KIND_REAL)
                sr_cpu_load(room[k].real, w->t[k], element, stride, n);
            else
                load_whole(room[k].whole, w->t[k], element, stride, n);
        }
    }
    w->run(w->context, at[0], (const void *const *)at + 1, first, n);
    if (at[0] != &room[0]) return;
    sr_tensor *y = (sr_tensor *)w->t[0];
    int64_t element = place(w, 0, first), stride = w->stride[0][w->ndim - 1];
    if (w->kind == SR_KIND_REAL)
        sr_cpu_store(y, element, stride, room[0].real, n);
    else
        store_whole(y, element, stride, room[0].whole, n);
}

static sr_status walk_task(void *context, int64_t i, int worker) {
    (void)worker;
    const walk *w = context;
    int64_t inner = w->shape[w->ndim - 1], end = sr_least(w->elements, (i + 1) * GRAIN);
    bool long_runs = true; /* all operands are used in place, so a run may exceed the buffers */
    for (int k = 0; k < w->operands; k++) long_runs = long_runs && in_place(w, k);
    for (int64_t e = i * GRAIN; e < end;) {
        int64_t n = sr_least(inner - e % inner, end - e);
        if (!long_runs) n = sr_least(n, RUN);
        run_stretch(w, e, n);
        e += n;
    }
    return SR_OK;
}

sr_status sr_cpu_map(const char *op, sr_tensor *y, int inputs, const sr_tensor *const *x,
                     sr_kind kind, sr_element_run run, const void *context) {
    walk w = {.operands = inputs + 1, .kind = kind, .run = run, .context = context};
    w.t[0] = y;
    for (int k = 0; k < inputs; k++) w.t[k + 1] = x[k];
    for (int k = 0; k < w.operands; k++)
        if (w.t[k]->dtype == SR_F64) SR_TRY(sr_cpu_need_f32(op, SR_TENSORS(w.t[k])));
    set_dims(&w);
    return sr_cpu_run_whole(y, walk_task, &w, sr_blocks(w.elements, GRAIN));
}

static bool is_whole(const sr_tensor *t) {
    return t->dtype == SR_I32 || t->dtype == SR_BOOL;
}

/* ---- fill, copy ------------------------------------------------------------------------------ */

static void run_fill(const void *context, void *y, const void *const *x, int64_t first, int64_t n) {
    (void)x, (void)first;
    uint32_t bits; /* of a float or an int32 */
    memcpy(&bits, context, 4);
    uint32_t *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = bits;
}

/* f64 is only converted to and from, for other devices: one element at a time. */
static double get_f64(const sr_tensor *t, int64_t element) {
    float x;
    if (t->dtype == SR_F64) return SR_DATA(double, t)[element];
    if (t->dtype == SR_I32) return SR_DATA(int32_t, t)[element];
    sr_cpu_load(&x, t, element, 1, 1);
    return x;
}

static void put_f64(sr_tensor *t, int64_t element, double x) {
    float single = (float)x;
    if (t->dtype == SR_F64)
        SR_DATA(double, t)[element] = x;
    else if (t->dtype == SR_I32)
        SR_DATA(int32_t, t)[element] = whole(x);
    else if (t->dtype == SR_BOOL)
        SR_DATA(uint8_t, t)[element] = x != 0;
    else
        sr_cpu_store(t, element, 1, &single, 1);
}

static void copy_f64(sr_tensor *y, const sr_tensor *x, double value) {
    walk w = {.operands = x != NULL ? 2 : 1, .t = {y, x}};
    set_dims(&w);
    for (int64_t e = 0; e < w.elements; e++)
        put_f64(y, place(&w, 0, e), x != NULL ? get_f64(x, place(&w, 1, e)) : value);
}

sr_status sr_cpu_fill(sr_tensor *y, double value) {
    float real = (float)value;
    int32_t number = y->dtype == SR_BOOL ? value != 0 : whole(value);
    if (y->dtype == SR_F64) {
        copy_f64(y, NULL, value);
        return SR_OK;
    }
    if (is_whole(y)) return sr_cpu_map("fill", y, 0, NULL, SR_KIND_WHOLE, run_fill, &number);
    return sr_cpu_map("fill", y, 0, NULL, SR_KIND_REAL, run_fill, &real);
}

static void run_copy(const void *context, void *y, const void *const *x, int64_t first, int64_t n) {
    (void)context, (void)first;
    memmove(y, x[0], (size_t)n * 4);
}

sr_status sr_cpu_copy(sr_tensor *y, const sr_tensor *x) {
    if (y->dtype == SR_F64 || x->dtype == SR_F64) {
        copy_f64(y, x, 0);
        return SR_OK;
    }
    sr_kind kind = is_whole(y) && is_whole(x) ? SR_KIND_WHOLE : SR_KIND_REAL;
    return sr_cpu_map("copy", y, 1, &x, kind, run_copy, NULL);
}

/* ---- functions of one, two and three tensors ------------------------------------------------- */

SR_DEFINE_WHOLE_FUNCTIONS(static)

typedef struct functor {
    const sr_simd *simd;
    int op;
    float alpha, beta;
} functor;

static void run_unary(const void *context, void *y, const void *const *x, int64_t first,
                      int64_t n) {
    (void)first;
    const functor *f = context;
    f->simd->unary(y, x[0], n, (sr_unary)f->op);
}

static void run_unary_whole(const void *context, void *y, const void *const *x, int64_t first,
                            int64_t n) {
    (void)first;
    int op = ((const functor *)context)->op;
    const int32_t *from = x[0];
    int32_t *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = sr_whole_unary(op, from[i]);
}

sr_status sr_cpu_unary(sr_tensor *y, const sr_tensor *x, sr_unary op) {
    functor f = {.simd = sr_cpu_of(y)->simd, .op = op};
    if (is_whole(x) && is_whole(y) && sr_unary_is_whole(op))
        return sr_cpu_map("unary", y, 1, &x, SR_KIND_WHOLE, run_unary_whole, &f);
    return sr_cpu_map("unary", y, 1, &x, SR_KIND_REAL, run_unary, &f);
}

static void run_unary_backward(const void *context, void *y, const void *const *x, int64_t first,
                               int64_t n) {
    (void)first;
    const functor *f = context;
    f->simd->unary_backward(y, x[0], x[1], x[2], n, (sr_unary)f->op);
}

sr_status sr_cpu_unary_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *x,
                                const sr_tensor *y, sr_unary op) {
    functor f = {.simd = sr_cpu_of(dx)->simd, .op = op};
    const sr_tensor *in[] = {dy, x != NULL ? x : y, y != NULL ? y : x};
    return sr_cpu_map("unary", dx, 3, in, SR_KIND_REAL, run_unary_backward, &f);
}

static void run_binary(const void *context, void *y, const void *const *x, int64_t first,
                       int64_t n) {
    (void)first;
    const functor *f = context;
    f->simd->binary(y, x[0], x[1], n, (sr_binary)f->op);
}

static void run_binary_whole(const void *context, void *y, const void *const *x, int64_t first,
                             int64_t n) {
    (void)first;
    int op = ((const functor *)context)->op;
    const int32_t *a = x[0], *b = x[1];
    int32_t *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = sr_whole_binary(op, a[i], b[i]);
}

sr_status sr_cpu_binary(sr_tensor *y, const sr_tensor *a, const sr_tensor *b, sr_binary op) {
    functor f = {.simd = sr_cpu_of(y)->simd, .op = op};
    const sr_tensor *in[] = {a, b};
    if (is_whole(a) && is_whole(b) && is_whole(y))
        return sr_cpu_map("binary", y, 2, in, SR_KIND_WHOLE, run_binary_whole, &f);
    return sr_cpu_map("binary", y, 2, in, SR_KIND_REAL, run_binary, &f);
}

static void run_where(const void *context, void *y, const void *const *x, int64_t first,
                      int64_t n) {
    (void)context, (void)first;
    const uint32_t *condition = x[0], *a = x[1], *b = x[2];
    uint32_t *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = condition[i] != 0 ? a[i] : b[i];
}

sr_status sr_cpu_where(sr_tensor *y, const sr_tensor *condition, const sr_tensor *a,
                       const sr_tensor *b) {
    const sr_tensor *in[] = {condition, a, b};
    sr_kind kind = is_whole(y) && is_whole(a) && is_whole(b) ? SR_KIND_WHOLE : SR_KIND_REAL;
    return sr_cpu_map("where", y, 3, in, kind, run_where, NULL);
}

static void run_axpby(const void *context, void *y, const void *const *x, int64_t first,
                      int64_t n) {
    (void)first;
    const functor *f = context;
    if (y != x[1]) memmove(y, x[1], (size_t)n * sizeof(float));
    f->simd->axpby(y, x[0], n, f->alpha, f->beta);
}

static void run_axpby_whole(const void *context, void *y, const void *const *x, int64_t first,
                            int64_t n) {
    (void)first;
    const double *factors = context;
    const int32_t *a = x[0], *b = x[1];
    int32_t *to = y;
    for (int64_t i = 0; i < n; i++) to[i] = whole(factors[0] * a[i] + factors[1] * b[i]);
}

sr_status sr_cpu_axpby(sr_tensor *y, const sr_tensor *x, double alpha, double beta) {
    functor f = {.simd = sr_cpu_of(y)->simd, .alpha = (float)alpha, .beta = (float)beta};
    const sr_tensor *in[] = {x, y};
    double factors[] = {alpha, beta};
    if (is_whole(x) && is_whole(y))
        return sr_cpu_map("axpby", y, 2, in, SR_KIND_WHOLE, run_axpby_whole, factors);
    return sr_cpu_map("axpby", y, 2, in, SR_KIND_REAL, run_axpby, &f);
}
