/* small.cu - positions in strided tensors, the order of keys, tables that stay on the device. */
#include <initializer_list>

#include "core/tensor/ops.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/sums.h"
#include "kernels/cuda/map.cuh"
#include "tests/simt/simt_device.h"
#include "tests/support/fail.h"

/* Device memory on the host. */
template <class T, class P> static void get(T *to, const P &from, int64_t count) {
    CHECK_OK(sr_device_download(device, to, raw(from), (size_t)count * sizeof(T)));
}

static uint64_t state = 1;
static uint32_t draw(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) * below >> 31);
}

/* ---- positions ------------------------------------------------------------------------------- */

static void divisions() {
    const int64_t numbers[] = {0,
                               1,
                               7,
                               0x7FFFFFFF,
                               0x80000000ll,
                               0xFFFFFFFF,
                               1ll << 32,
                               (1ll << 32) + 5,
                               (1ll << 40) - 1,
                               1ll << 52};
    for (int64_t i : numbers)
        for (int64_t size : numbers) {
            int64_t rest;
            if (size == 0) continue;
            CHECK(divide(i, size, &rest) == i / size);
            CHECK(rest == i % size);
        }
}

/* A walk over a view with these strides, without memory. */
template <int N> static walk<1> walk_of(const int64_t (&shape)[N], const int64_t (&stride)[N]) {
    sr_tensor t = {};
    t.ndim = N;
    for (int d = 0; d < N; d++) t.shape[d] = shape[d], t.stride[d] = stride[d];
    const sr_tensor *const list[] = {&t};
    return walk_over(list, 0, N);
}

static int64_t place_of(const walk<1> &w, int64_t i) {
    int64_t at[1];
    locate(at, w, i);
    return at[0];
}

static void walks() {
    walk<1> w = walk_of({3, 1, 4, 5}, {20, 7, 5, 1});
    CHECK(w.dims == 1 && w.count == 60 && is_flat(w, 0));
    w = walk_of({3, 4, 5}, {40, 5, 1}); /* a gap after each 4 x 5 */
    CHECK(w.dims == 2 && place_of(w, 59) == 99);
    w = walk_of({4, 3}, {1, 4}); /* transposed */
    CHECK(w.dims == 2 && place_of(w, 5) == 9);
    w = walk_of({1}, {1});
    CHECK(w.dims == 0 && w.count == 1 && place_of(w, 0) == 0);
    w = walk_of({2, 0, 3}, {0, 3, 1});
    CHECK(w.count == 0);

    /* more elements than 32 bits count: flat, transposed, and a row repeated */
    int64_t rows = (1ll << 31) + 3, cols = 6;
    w = walk_of({rows, cols}, {cols, 1});
    CHECK(w.dims == 1 && place_of(w, rows * cols - 1) == rows * cols - 1);
    w = walk_of({cols, rows}, {1, cols});
    for (int64_t i : {rows - 1, rows, 5 * rows + 17, cols * rows - 1})
        CHECK(place_of(w, i) == i % rows * cols + i / rows);
    w = walk_of({1ll << 20, 1ll << 13, 3}, {0, 1, 1 << 13});
    int64_t i = (123456ll << 13 | 4321) * 3 + 2;
    CHECK(place_of(w, i) == 4321 + 2 * (1 << 13));
}

/* ---- order ----------------------------------------------------------------------------------- */

static int32_t clamped(int32_t key, int64_t limit) {
    return key < 0 || key >= limit ? (int32_t)limit : key;
}

/* Whether order names every key once, in ascending order, equal ones by position. */
static bool in_order(const int32_t *order, const int32_t *sorted, const int32_t *keys,
                     int64_t count, int64_t limit) {
    for (int64_t i = 0; i < count; i++) {
        if (order[i] < 0 || order[i] >= count) return false;
        if (sorted[i] != clamped(keys[order[i]], limit)) return false;
        if (i == 0) continue;
        if (sorted[i - 1] > sorted[i]) return false;
        if (sorted[i - 1] == sorted[i] && order[i - 1] >= order[i]) return false;
    }
    return true; /* no position twice: (key, position) ascends strictly */
}

/* Keys of `kinds` kinds, some of them out of range, each `stride` from the one before it. */
static void check_order(int64_t count, int64_t limit, int64_t stride, uint32_t kinds) {
    int32_t *keys, *spread, *at, *in_turn;
    CHECK_OK(sr_alloc((void **)&keys, (size_t)count + 1, sizeof *keys));
    CHECK_OK(sr_alloc((void **)&spread, (size_t)(count * stride) + 1, sizeof *spread));
    CHECK_OK(sr_alloc((void **)&at, (size_t)count + 1, sizeof *at));
    CHECK_OK(sr_alloc((void **)&in_turn, (size_t)count + 1, sizeof *in_turn));
    for (int64_t i = 0; i < count; i++) {
        keys[i] = (int32_t)((uint64_t)draw(kinds) * (uint64_t)limit / kinds);
        if (draw(50) == 0) keys[i] = draw(2) ? -1 - (int32_t)draw(9) : (int32_t)limit;
        spread[i * stride] = keys[i];
    }
    global<const int32_t> on;
    global<int32_t> order, sorted;
    CHECK_OK(table(&on, g(), 0, (const int32_t *)spread, (size_t)(count * stride) + 1));
    CHECK_OK(order_keys(&order, &sorted, g(), on, stride, count, limit));
    get(at, order, count);
    get(in_turn, sorted, count);
    CHECK(in_order(at, in_turn, keys, count, limit));
    for (int32_t *list : {keys, spread, at, in_turn}) sr_free(list);
}

static void orders() {
    for (int64_t limit : {1ll, 2ll, 255ll, 256ll, 257ll, 65535ll, 65536ll, 70000ll, 0x7FFFFFFFll})
        for (int64_t count : {0ll, 1ll, 31ll, 33ll, 511ll, 513ll, 2500ll})
            check_order(count, limit, 1 + count % 2, 1 + (uint32_t)count);
    check_order(5000, 30528, 1, 40); /* many of few */
    check_order(5000, 30528, 1, 1);
    check_order(513 * 512 + 9, 300, 1, 100000); /* more than the most runs of 512 */
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Whether the device holds these numbers. */
static bool holds(global<const int32_t> table, const int32_t *numbers, int64_t count) {
    static int32_t read[1000];
    get(read, table, count);
    return memcmp(read, numbers, (size_t)count * sizeof *read) == 0;
}

static void tables() {
    int32_t host[1000] = {1, 2, 3};
    const int32_t other[] = {1, 77, 3};
    global<const int32_t> kept, again;
    CHECK_OK(kept_table(&kept, g(), 3, host, 3));
    CHECK(holds(kept, host, 3));
    CHECK_OK(sr_device_upload(device, (void *)raw(kept), other, sizeof other));
    CHECK_OK(kept_table(&again, g(), 3, host, 3)); /* equal content is not sent again */
    CHECK(raw(again) == raw(kept) && holds(again, other, 3));
    host[0] = 9;
    CHECK_OK(kept_table(&again, g(), 3, host, 3));
    CHECK(holds(again, host, 3));
    for (int n = 1; n < 3; n++) { /* a table that does not fit leaves the old one */
        sr_mem_fail_at(n, true);
        sr_status st = kept_table(&again, g(), 3, host, 1000);
        sr_mem_fail_at(0, false);
        CHECK(st == SR_ENOMEM || st == SR_OK);
        CHECK_OK(kept_table(&again, g(), 3, host, 3));
        CHECK(holds(again, host, 3));
    }
    CHECK_OK(kept_table(&again, g(), 3, host, 1000));
    CHECK(holds(again, host, 1000));
}

/* ---- products that the library does not have ------------------------------------------------- */

/* c += factor a b for two products with gaps, a transposed, beside gemm(). */
static void plain_products() {
    enum { M = 3, N = 5, K = 4, COUNT = 2 };
    int64_t sizes[] = {COUNT * K * (M + 1), COUNT * K * N, COUNT * M * (N + 2)}, one[] = {1};
    sr_tensor *a, *b, *c[2], *factor;
    CHECK_OK(sr_tensor_full(&factor, device, SR_F32, 1, one, 0.5));
    CHECK_OK(sr_tensor_new(&a, device, SR_BF16, 1, &sizes[0]));
    CHECK_OK(sr_tensor_new(&b, device, SR_BF16, 1, &sizes[1]));
    for (sr_tensor *t : {a, b})
        CHECK_OK(gpu_random(t, SR_NORMAL, 1, SR_PURPOSE_TENSOR, t == a, 0, 0.0, 1.0));
    float read[2][COUNT * M * (N + 2)];
    for (int k = 0; k < 2; k++) {
        CHECK_OK(sr_tensor_full(&c[k], device, SR_F32, 1, &sizes[2], 1.0));
        product p = product_of(matrix_at(sr_tensor_data(c[k]), SR_F32, M, N),
                               transposed(matrix_at(sr_tensor_data(a), SR_BF16, K, M)),
                               matrix_at(sr_tensor_data(b), SR_BF16, K, N));
        p.c.row = N + 2;
        p.a.col = M + 1;
        p.count = COUNT;
        p.c_step = M * (N + 2);
        p.a_step = K * (M + 1);
        p.b_step = K * N;
        p.add = true;
        p.alpha_at = SR_DATA(const float, factor);
        const batch over = {1, {p.count}, {p.c_step}, {p.a_step}, {p.b_step}};
        CHECK_OK(k == 0 ? gemm(g(), "test", &p) : plain_product(g(), "test", &p, &over));
        CHECK_OK(sr_device_download(device, read[k], sr_tensor_data(c[k]), sizeof read[k]));
        sr_tensor_release(c[k]);
    }
    for (int i = 0; i < COUNT * M * (N + 2); i++) CHECK(fabsf(read[0][i] - read[1][i]) < 1e-5f);
    CHECK(read[1][0] != 1.0f && read[1][N] == 1.0f); /* the gap is left alone */
    for (sr_tensor *t : {a, b, factor}) sr_tensor_release(t);
}

/* ---- allocation failure ---------------------------------------------------------------------- */

static void failures() {
    int64_t shape[] = {600, 3}, few[] = {500}, one[] = {1, 1};
    sr_tensor *x, *y, *sum, *rows;
    CHECK_OK(sr_tensor_full(&y, device, SR_F32, 2, shape, 0.0));
    CHECK_OK(sr_tensor_full(&x, device, SR_F32, 2, shape, 1.0));
    CHECK_OK(sr_tensor_full(&rows, device, SR_I32, 1, few, 5.0));
    CHECK_OK(sr_tensor_full(&sum, device, SR_F32, 2, one, 0.0));
    gpu_scratch_free(g());
    for (int n = 1; n < 4; n++) {
        sr_mem_fail_at(n, true);
        sr_status added = gpu_scatter_rows(y, x, rows), folded = gpu_reduce(sum, x, SR_SUM);
        sr_mem_fail_at(0, false);
        CHECK(added == SR_OK || added == SR_ENOMEM);
        CHECK(folded == SR_OK || folded == SR_ENOMEM);
    }
    CHECK_OK(gpu_fill(y, 0.0));
    CHECK_OK(gpu_scatter_rows(y, x, rows));
    CHECK_OK(gpu_reduce(sum, y, SR_SUM));
    float added[18], all;
    CHECK_OK(sr_device_download(device, added, sr_tensor_data(y), sizeof added));
    CHECK_OK(sr_device_download(device, &all, sr_tensor_data(sum), sizeof all));
    CHECK(added[16] == 500.0f && all == 1500.0f);
    for (sr_tensor *t : {x, y, sum, rows}) sr_tensor_release(t);
}

int main() {
    open_device();
    divisions();
    walks();
    orders();
    tables();
    plain_products();
    failures();
    int64_t live = sr_mem_live();
    CHECK(live > 0);
    sr_device_close(device);
    CHECK(sr_mem_live() == 0);
    return CHECK_DONE();
}
