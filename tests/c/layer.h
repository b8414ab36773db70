/* layer.h - linear in bf16, forward and backward, against sums in double; the same bits on any
 * number of threads and beside any rows. */
#pragma once

#include <math.h>
#include <stdlib.h>

#include "core/base/rng.h"
#include "core/base/thread.h"
#include "core/tensor/dtype.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/fail.h"

static sr_bf16 *random_bf16(int64_t n, uint32_t key) {
    sr_bf16 *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        sr_u32x4 c = {{(uint32_t)i, key, 0, 0}};
        x[i] = sr_bf16_from_f32(sr_unit(sr_philox(c, 1, 10).w[0]) * 2 - 1);
    }
    return x;
}

static sr_device device;
static const sr_simd *class; /* of the device; NULL: the one that SEQRUN_ISA names */

static void open_device(int threads) {
    device = (sr_device){.name = "cpu", .backend = &sr_backend_cpu, .real = SR_F32};
    CHECK_OK(sr_threads_new(&device.threads, threads));
    CHECK_OK(sr_backend_cpu.open(&device));
    sr_cpu_state *cpu = device.state;
    if (class != NULL) cpu->simd = class;
}

static void close_device(void) {
    sr_backend_cpu.close(&device);
    sr_threads_free(device.threads);
}

/* A matrix over memory of the caller. */
typedef struct matrix {
    sr_tensor tensor;
    sr_storage storage;
} matrix;

static sr_tensor *over(matrix *m, void *data, sr_dtype dtype, int64_t rows, int64_t cols) {
    m->storage = (sr_storage){.device = &device, .data = data, .refs = 1};
    m->tensor = (sr_tensor){.storage = &m->storage, .dtype = dtype, .ndim = 2, .refs = 1};
    m->tensor.shape[0] = rows, m->tensor.shape[1] = cols;
    m->tensor.stride[0] = cols, m->tensor.stride[1] = 1;
    return &m->tensor;
}

typedef struct layer {
    int64_t t, h, f;
    sr_bf16 *x, *w, *dy, *y, *dx;
    float *dw;
} layer;

static void run_layer(const layer *l, int threads) {
    open_device(threads);
    matrix room[6];
    sr_tensor *x = over(room, l->x, SR_BF16, l->t, l->h),
              *w = over(room + 1, l->w, SR_BF16, l->f, l->h),
              *dy = over(room + 2, l->dy, SR_BF16, l->t, l->f),
              *y = over(room + 3, l->y, SR_BF16, l->t, l->f),
              *dx = over(room + 4, l->dx, SR_BF16, l->t, l->h),
              *dw = over(room + 5, l->dw, SR_F32, l->f, l->h);
    for (int64_t i = 0; i < l->f * l->h; i++) l->dw[i] = 1.0f;
    CHECK_OK(sr_cpu_linear(y, NULL, x, w, NULL, SR_ACT_NONE));
    CHECK_OK(sr_cpu_linear_backward(dx, dw, NULL, dy, x, w, NULL, y, SR_ACT_NONE, false, false));
    close_device();
}

/* ||got - a b^T|| / ||a b^T||, all (rows, k) (cols, k) read through strides */
typedef struct operand {
    const sr_bf16 *at;
    int64_t row, k;
} operand;

static double at(operand o, int64_t row, int64_t k) {
    return sr_bf16_to_f32(o.at[row * o.row + k * o.k]);
}

static double distance(const sr_bf16 *bf16, const float *got, operand a, operand b, int64_t rows,
                       int64_t cols, int64_t k, double base) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double sum = base,
                   value = got != NULL ? got[i * cols + j] : sr_bf16_to_f32(bf16[i * cols + j]);
            for (int64_t n = 0; n < k; n++) sum += at(a, i, n) * at(b, j, n);
            error += (value - sum) * (value - sum), size += sum * sum;
        }
    return sqrt(error / size);
}

/* Whole, uneven and few rows; columns and depths of several blocks and of parts of one. */
static void test_layer(int64_t t, int64_t h, int64_t f) {
    layer l = {.t = t,
               .h = h,
               .f = f,
               .x = random_bf16(t * h, 1),
               .w = random_bf16(f * h, 2),
               .dy = random_bf16(t * f, 3)};
    l.y = calloc((size_t)(t * f), 2), l.dx = calloc((size_t)(t * h), 2);
    l.dw = calloc((size_t)(f * h), 4);
    run_layer(&l, 1);
    operand x = {l.x, h, 1}, w = {l.w, h, 1}, dy = {l.dy, f, 1};
    operand turned_w = {l.w, 1, h}, turned_dy = {l.dy, 1, f}, turned_x = {l.x, 1, h};
    CHECK(distance(l.y, NULL, x, w, t, f, h, 0) < 3e-3);
    CHECK(distance(l.dx, NULL, dy, turned_w, t, h, f, 0) < 3e-3);
    CHECK(distance(NULL, l.dw, turned_dy, turned_x, f, h, t, 1) < 1e-6);
    layer again = l;
    again.y = calloc((size_t)(t * f), 2), again.dx = calloc((size_t)(t * h), 2);
    again.dw = calloc((size_t)(f * h), 4);
    run_layer(&again, 3);
    CHECK(memcmp(l.y, again.y, (size_t)(t * f) * 2) == 0);
    CHECK(memcmp(l.dx, again.dx, (size_t)(t * h) * 2) == 0);
    CHECK(memcmp(l.dw, again.dw, (size_t)(f * h) * 4) == 0);
    free(l.x), free(l.w), free(l.dy), free(l.y), free(l.dx), free(l.dw);
    free(again.y), free(again.dx), free(again.dw);
}

/* A row of a product has the same bits in any place and beside any others, NaN included. */
static void test_place(void) {
    enum { T = 600, FEW = 17, H = 312, F = 250 };
    layer many = {.t = T,
                  .h = H,
                  .f = F,
                  .x = random_bf16(T * H, 1),
                  .w = random_bf16(F * H, 2),
                  .dy = random_bf16(T * F, 3)};
    many.y = calloc(T * F, 2), many.dx = calloc(T * H, 2), many.dw = calloc(F * H, 4);
    run_layer(&many, 2);
    for (int64_t from = 0; from <= T - FEW; from += 97) {
        layer few = {.t = FEW,
                     .h = H,
                     .f = F,
                     .x = many.x + from * H,
                     .w = many.w,
                     .dy = many.dy + from * F};
        few.y = calloc(FEW * F, 2), few.dx = calloc(FEW * H, 2), few.dw = calloc(F * H, 4);
        run_layer(&few, 1);
        CHECK(memcmp(few.y, many.y + from * F, FEW * F * 2) == 0);
        CHECK(memcmp(few.dx, many.dx + from * H, FEW * H * 2) == 0);
        free(few.y), free(few.dx), free(few.dw);
    }
    sr_bf16 *before = malloc(T * F * 2);
    memcpy(before, many.y, T * F * 2);
    for (int64_t i = 0; i < H; i++) many.x[100 * H + i] = 0x7FC0; /* NaN */
    run_layer(&many, 2);
    CHECK(memcmp(before, many.y, 100 * F * 2) == 0);
    CHECK(memcmp(before + 101 * F, many.y + 101 * F, (T - 101) * F * 2) == 0);
    free(before), free(many.x), free(many.w), free(many.dy), free(many.y), free(many.dx);
    free(many.dw);
}

/* GELU and its derivative in bf16: half a unit of rounding, and 2e-4 more at most; 0 and the
 * identity far from 0, NaN for NaN; the saved values are the inputs. */
static void test_bf16_gelu(const sr_simd *simd) {
    enum { N = 2011 };
    static float x[N];
    static sr_bf16 y[N], pre[N], ones[N], dx[N], b[N];
    for (int i = 0; i < N; i++)
        x[i] = ((float)i - 0.5f * N) * 0.0071f, ones[i] = sr_bf16_from_f32(1),
        b[i] = sr_bf16_from_f32(0.5f);
    x[0] = -1e30f, x[1] = -40, x[2] = 40;
    sr_rounded to = {y, pre, b, N, SR_ACT_GELU};
    simd->act_bf16(&to, x, N, 1, N);
    simd->act_bf16_backward(dx, ones, pre, N, SR_ACT_GELU);
    double worst = 0, steepest = 0;
    for (int i = 0; i < N; i++) {
        double at = (double)x[i] + 0.5, p = sr_bf16_to_f32(pre[i]), half = 1.0 / 256;
        double want = at * 0.5 * erfc(-at / sqrt(2));
        double derivative = 0.5 * erfc(-p / sqrt(2)) + p * exp(-p * p / 2) / sqrt(2 * acos(-1));
        worst = fmax(worst, fabs(sr_bf16_to_f32(y[i]) - want) - half * fabs(want));
        steepest =
            fmax(steepest, fabs(sr_bf16_to_f32(dx[i]) - derivative) - half * fabs(derivative));
        CHECK(fabs(p - at) <= half * fabs(at));
    }
    CHECK(worst < 2e-4 && steepest < 2e-4);
    CHECK(sr_bf16_to_f32(y[0]) == 0 && sr_bf16_to_f32(y[1]) == 0 && sr_bf16_to_f32(y[2]) == 40.5f);
    x[0] = NAN;
    to.bias = NULL;
    simd->act_bf16(&to, x, 1, 1, 1);
    CHECK(sr_bf16_to_f32(y[0]) != sr_bf16_to_f32(y[0]) &&
          sr_bf16_to_f32(pre[0]) != sr_bf16_to_f32(pre[0]));
    simd->act_bf16_backward(dx, ones, pre, 1, SR_ACT_GELU);
    CHECK(sr_bf16_to_f32(dx[0]) != sr_bf16_to_f32(dx[0]));
}

/* If any allocation fails, the op returns SR_ENOMEM, and works again afterwards. */
static void test_layer_memory(void) {
    enum { T = 600, H = 70, F = 50 };
    layer l = {.t = T, .h = H, .f = F, .x = random_bf16(T * H, 1), .w = random_bf16(F * H, 2)};
    l.y = calloc(T * F, 2);
    open_device(2);
    matrix room[3];
    sr_tensor *x = over(room, l.x, SR_BF16, T, H), *w = over(room + 1, l.w, SR_BF16, F, H),
              *y = over(room + 2, l.y, SR_BF16, T, F);
    sr_status st; /* room stays with the device */
    STARVE(st, false, sr_cpu_linear(y, NULL, x, w, NULL, SR_ACT_NONE));
    close_device();
    free(l.x), free(l.w), free(l.y);
}

/* Results that a set's products round are those of the epilogue; a gradient that is written does
 * not see what was there. */
static void test_rounds(const sr_simd *simd) {
    enum { T = 150, H = 1100, F = 117 };
    sr_simd both[2] = {*simd, *simd};
    both[0].bf16_rounds = false;
    sr_bf16 *x = random_bf16(T * H, 1), *w = random_bf16(F * H, 2), *b = random_bf16(F, 4);
    sr_bf16 *dy = random_bf16(T * F, 3), *y[2], *pre[2], *dx[2];
    float *dw[2];
    for (int i = 0; i < 2; i++) {
        class = &both[i];
        open_device(1 + i);
        y[i] = calloc(T * F, 2), pre[i] = calloc(T * F, 2), dx[i] = calloc(T * H, 2);
        dw[i] = malloc(F * H * 4);
        memset(dw[i], i == 0 ? 0 : 0xFF, F * H * 4); /* zeros that are added to, or NaN */
        matrix m[8];
        sr_tensor *tx = over(m, x, SR_BF16, T, H), *tw = over(m + 1, w, SR_BF16, F, H),
                  *ty = over(m + 2, y[i], SR_BF16, T, F), *tp = over(m + 3, pre[i], SR_BF16, T, F),
                  *tb = over(m + 4, b, SR_BF16, 1, F), *td = over(m + 5, dy, SR_BF16, T, F),
                  *tdx = over(m + 6, dx[i], SR_BF16, T, H), *tdw = over(m + 7, dw[i], SR_F32, F, H);
        CHECK_OK(sr_cpu_linear(ty, tp, tx, tw, tb, SR_ACT_GELU));
        CHECK_OK(
            sr_cpu_linear_backward(tdx, tdw, NULL, td, tx, tw, tp, ty, SR_ACT_GELU, false, i == 1));
        close_device();
    }
    CHECK(memcmp(y[0], y[1], T * F * 2) == 0 && memcmp(pre[0], pre[1], T * F * 2) == 0);
    CHECK(memcmp(dx[0], dx[1], T * H * 2) == 0);
    for (int i = 0; i < F * H; i++) CHECK(dw[0][i] == dw[1][i]);
    for (int i = 0; i < 2; i++) free(y[i]), free(pre[i]), free(dx[i]), free(dw[i]);
    free(x), free(w), free(b), free(dy);
}

static void test_layers(const sr_simd *simd) {
    test_rounds(simd != NULL ? simd : sr_cpu_simd());
    test_bf16_gelu(simd != NULL ? simd : sr_cpu_simd());
    class = simd;
    test_layer(17, 40, 33);
    test_layer(64, 312, 200);
    test_layer(300, 64, 300);
    test_layer(640, 80, 97);
    test_layer(1100, 66, 70); /* on tiles, rows of the weight gradient's k in two parts */
    test_layer(50, 2050, 65); /* and blocks of few columns */
    test_place();
    test_layer_memory();
}
