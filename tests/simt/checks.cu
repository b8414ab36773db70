/* checks.cu - the simt host itself: what is right passes, and each planted mistake is named. */
#include <stdlib.h>

#include "core/base/system.h"
#include "tests/simt/simt_device.h"
#include "tests/support/fail.h"

/* A tensor of zeros. */
static sr_tensor *zeros(sr_dtype dtype, int64_t count) {
    sr_tensor *t;
    CHECK_OK(sr_tensor_new(&t, device, dtype, 1, &count));
    memset(data_of<char>(t), 0, (size_t)count * sr_dtype_size(dtype));
    return t;
}

/* Expects the next wait to report these words; NULL: nothing. */
static void expect(const char *what, const char *words) {
    sr_status st = sr_device_wait(device);
    if (words == nullptr) {
        if (st != SR_OK) printf("%s: %s\n", what, sr_message());
        CHECK(st == SR_OK);
        return;
    }
    if (st == SR_OK || strstr(sr_message(), words) == nullptr)
        printf("%s: got '%s', not '%s'\n", what, st == SR_OK ? "ok" : sr_message(), words);
    CHECK(st == SR_EDEVICE && strstr(sr_message(), words) != nullptr);
}

/* ---- shared memory and barriers -------------------------------------------------------------- */

enum bug {
    RIGHT,
    NO_BARRIER,
    NO_SECOND_BARRIER,
    UNWRITTEN,
    RETURNS,
    TWO_BARRIERS,
    HALF_A_WARP,
    TWO_KINDS,
    PAST_THE_ARRAY,
    BEFORE_THE_ARRAY,
    PAST_THE_LAUNCH,
    PAST_THE_TENSOR,
    BEFORE_THE_TENSOR,
    NO_WAIT,
    NO_BARRIER_AFTER_WAIT,
    SAME_WORD,
    OTHER_BLOCK,
    READ_BY_OTHERS,
    UNALIGNED,
    SOURCE_WRITTEN,
    WRITTEN_BEFORE,
    WRITTEN_AFTER
};

/* What the next wait reports of a kernel with this bug. */
struct trial {
    bug planted;
    const char *words;
};

/* Each thread passes a number to its neighbour in another warp, twice. */
KERNEL(64, 1) void pass_on(global<int32_t> y, bug planted) {
    shared<int32_t> s = shared_at<int32_t>(0, planted == PAST_THE_LAUNCH ? 65 : 64);
    int t = thread(), other = t ^ 32;
    if (planted == RETURNS && t == 40) return;
    for (int round = 0; round < 2; round++) {
        if (planted != UNWRITTEN || t != 7) s[t] = t * 10 + round;
        if (planted == TWO_BARRIERS && t < 32) {
            barrier();
        } else if (planted != NO_BARRIER) {
            barrier();
        }
        int32_t got = s[planted == PAST_THE_ARRAY     ? other + 32
                        : planted == BEFORE_THE_ARRAY ? other - 1
                                                      : other];
        if (planted != NO_SECOND_BARRIER) barrier();
        y[planted == PAST_THE_TENSOR ? t + 1 : planted == BEFORE_THE_TENSOR ? t - 1 : t] = got;
    }
}

static void shared_memory() {
    static const trial cases[] = {{RIGHT, nullptr},
                                  {NO_BARRIER, "of shared memory, which"},
                                  {NO_SECOND_BARRIER, "with no barrier in between"},
                                  {UNWRITTEN, "nobody wrote"},
                                  {RETURNS, "divergent barrier: thread 40 has returned"},
                                  {TWO_BARRIERS, "divergent barrier: thread"},
                                  {PAST_THE_ARRAY, "outside of the array"},
                                  {BEFORE_THE_ARRAY, "outside of the array"},
                                  {PAST_THE_LAUNCH, "smaller than the array"},
                                  {PAST_THE_TENSOR, "outside of its tensor"},
                                  {BEFORE_THE_TENSOR, "outside of its tensor"}};
    OWNED(sr_tensor) *y = zeros(SR_I32, 64);
    for (auto &c : cases) {
        CHECK_OK(launch(g(), "pass_on", pass_on, 1, 64, 256, out<int32_t>(y), c.planted));
        expect("pass_on", c.words);
        if (c.planted == RIGHT)
            for (int i = 0; i < 64; i++) CHECK(data_of<int32_t>(y)[i] == (i ^ 32) * 10 + 1);
    }
    CHECK_OK(launch(g(), "pass_on", pass_on, 1, 64, 256, out<int32_t>(y), NO_BARRIER));
    CHECK(sr_device_wait(device) == SR_EDEVICE);
    CHECK(strncmp(sr_message(), "simt: pass_on: block (0, 0, 0), thread ", 39) == 0);
    CHECK(strstr(sr_message(), "checks.cu:") != nullptr);
    expect("an error is reported once", nullptr);
}

/* ---- warps ----------------------------------------------------------------------------------- */

/* Lanes pass on numbers through shared memory. */
KERNEL(64, 1) void pass_in_warp(global<int32_t> y, bug planted) {
    shared<int32_t> s = shared_at<int32_t>(0, 64);
    int t = thread();
    s[t] = t;
    if (planted == HALF_A_WARP && lane() >= 16) {
        y[t] = 0;
        return;
    }
    if (planted == TWO_KINDS && lane() == 5)
        (void)vote(true);
    else if (planted != NO_BARRIER)
        warp_barrier();
    y[t] = s[t ^ 1];
}

KERNEL(32, 1) void exchanges(global<uint32_t> y) {
    int l = lane();
    y[l] = (uint32_t)(shuffle_xor(l * 2, 5) == (l ^ 5) * 2) |
           (uint32_t)(shuffle((float)l, l / 2) == (float)(l / 2)) << 1 |
           (uint32_t)(shuffle_down((uint32_t)l, 3u) == (uint32_t)(l + 3 < 32 ? l + 3 : l)) << 2 |
           (uint32_t)(vote(l % 3 == 0) == 0x49249249u) << 3 |
           (uint32_t)(warp_sum((float)l) == 496.0f) << 4 |
           (uint32_t)(warp_max((float)-l) == 0.0f) << 5;
}

static void warps_of_a_block() {
    OWNED(sr_tensor) *y = zeros(SR_I32, 64);
    CHECK_OK(launch(g(), "exchanges", exchanges, 1, 32, 0, out<uint32_t>(y)));
    expect("exchanges", nullptr);
    for (int i = 0; i < 32; i++) CHECK(data_of<int32_t>(y)[i] == 63);

    static const trial cases[] = {{RIGHT, nullptr},
                                  {NO_BARRIER, "of shared memory, which"},
                                  {HALF_A_WARP, "divergent warp_barrier: thread"},
                                  {TWO_KINDS, "divergent"}};
    for (auto &c : cases) {
        CHECK_OK(launch(g(), "pass_in_warp", pass_in_warp, 1, 64, 256, out<int32_t>(y), c.planted));
        expect("pass_in_warp", c.words);
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Two groups of copies; each thread reads what another copied. */
KERNEL(32, 1) void copies(global<float> y, global<const float> x, bug planted) {
    shared<float> s = shared_at<float>(0, 256);
    int t = thread();
    cp_async16(s + t * 4, x + t * 4, true);
    cp_commit();
    cp_async16(s + 128 + t * 4, x + (planted == UNALIGNED ? 1 : 0), t % 2 == 0);
    cp_commit();
    if (planted != NO_WAIT) cp_wait<1>();
    if (planted != NO_BARRIER_AFTER_WAIT) barrier();
    float first = s[(t ^ 1) * 4 + 3];
    cp_wait<0>();
    barrier();
    float second = s[128 + (t ^ 1) * 4 + 1];
    y[t] = first * 100.0f + second;
}

/* A copy whose source another thread overwrites. */
KERNEL(64, 1) void copy_and_write(global<float> x, global<float> y, bug planted) {
    shared<float> s = shared_at<float>(0, 256);
    int t = thread(), other = (t ^ 32) * 4;
    float before = x[t * 4];
    barrier();
    cp_async16(s + t * 4, x + t * 4, true);
    cp_commit();
    if (planted == RIGHT) cp_wait<0>();
    barrier();
    x[other] = before + 1.0f;
    barrier();
    cp_wait<0>();
    y[t] = s[t * 4];
}

/* Without checks: what arrives depends on the draw, unless the kernel waits. */
static int kinds_of_results(bug planted) {
    sr_device *before = device;
    bool stale = false, fresh = false;
    setenv("SEQRUN_SIMT_CHECK", "0", 1);
    for (int seed = 0; seed < 8; seed++) {
        char text[8];
        snprintf(text, sizeof text, "%d", seed);
        setenv("SEQRUN_SIMT_SEED", text, 1);
        CHECK_OK(sr_device_open(&device, backend, 0, nullptr));
        sr_tensor *x = zeros(SR_F32, 256), *y = zeros(SR_F32, 64);
        CHECK_OK(launch(g(), "copy_and_write", copy_and_write, 1, 64, 1024, out<float>(x),
                        out<float>(y), planted));
        expect("copy_and_write", nullptr);
        for (int i = 0; i < 64; i++) (data_of<float>(y)[i] == 0.0f ? stale : fresh) = true;
        sr_tensor_release(y);
        sr_tensor_release(x);
        sr_device_close(device);
    }
    unsetenv("SEQRUN_SIMT_CHECK");
    unsetenv("SEQRUN_SIMT_SEED");
    device = before;
    return stale + fresh;
}

static void sources_of_copies() {
    OWNED(sr_tensor) *x = zeros(SR_F32, 256), *y = zeros(SR_F32, 64);
    CHECK_OK(launch(g(), "copy_and_write", copy_and_write, 1, 64, 1024, out<float>(x),
                    out<float>(y), RIGHT));
    expect("copy_and_write", nullptr);
    CHECK_OK(launch(g(), "copy_and_write", copy_and_write, 1, 64, 1024, out<float>(x),
                    out<float>(y), SOURCE_WRITTEN));
    expect("copy_and_write", "was written while the copy was under way");
    CHECK(kinds_of_results(RIGHT) == 1 && kinds_of_results(SOURCE_WRITTEN) == 2);
}

static void copies_in_flight() {
    OWNED(sr_tensor) *y = zeros(SR_F32, 32), *x = zeros(SR_F32, 128);
    for (int i = 0; i < 128; i++) data_of<float>(x)[i] = (float)i;
    static const trial cases[] = {{RIGHT, nullptr},
                                  {NO_WAIT, "under way"},
                                  {NO_BARRIER_AFTER_WAIT, "of shared memory, which"},
                                  {UNALIGNED, "mod 16"}};
    for (auto &c : cases) {
        CHECK_OK(
            launch(g(), "copies", copies, 1, 32, 1024, out<float>(y), in<float>(x), c.planted));
        expect("copies", c.words);
        for (int i = 0; c.planted == RIGHT && i < 32; i++) /* zeros where the copy is not valid */
            CHECK(data_of<float>(y)[i] ==
                  (float)((i ^ 1) * 4 + 3) * 100.0f + ((i ^ 1) % 2 == 0 ? 1.0f : 0.0f));
    }
}

/* ---- device memory --------------------------------------------------------------------------- */

KERNEL(32, 1) void blocks_meet(global<int32_t> y, bug planted) {
    int t = thread(), i = block_x() * 32 + t;
    int32_t before = 0;
    if (planted == READ_BY_OTHERS && t == 0 && block_x() != 3) before = y[3 * 32];
    y[i] = i + before * 0;
    if (planted == SAME_WORD && t == 0) y[32 * 5] = 1;
    if (planted == OTHER_BLOCK && t == 0) y[i] = (int32_t)y[(i + 32) % 256];
    if (planted == NO_BARRIER) y[i] = (int32_t)y[i ^ 1];
    if (planted == RIGHT) {
        barrier();
        int32_t neighbour = y[i ^ 1];
        barrier();
        y[i] = neighbour;
    }
}

/* x may be y. */
KERNEL(64, 1) void reads_only(global<float> y, readonly<float> x, bug planted) {
    int t = thread();
    if (planted == WRITTEN_BEFORE) y[t] = 1.0f;
    float before = x[t];
    if (planted == WRITTEN_AFTER) y[t] = before;
}

static void constant_memory() {
    OWNED(sr_tensor) *x = zeros(SR_F32, 64), *y = zeros(SR_F32, 64);
    static const trial cases[] = {{RIGHT, nullptr},
                                  {WRITTEN_BEFORE, "through a readonly, which the launch wrote"},
                                  {WRITTEN_AFTER, "that the launch reads through a readonly"}};
    for (auto &c : cases) {
        CHECK_OK(launch(g(), "reads_only", reads_only, 1, 64, 0, out<float>(x), in<float>(x),
                        c.planted));
        expect("reads_only", c.words);
        CHECK_OK(launch(g(), "reads_only", reads_only, 1, 64, 0, out<float>(y), in<float>(x),
                        c.planted));
        expect("reads_only of another tensor", nullptr);
    }
}

KERNEL(32, 1) void vectors(global<float> y, int shift) {
    store16(y, (size_t)(thread() * 4 + shift), pack({1.0f, 2.0f, 3.0f, 4.0f}));
}

static void device_memory() {
    OWNED(sr_tensor) *y = zeros(SR_I32, 256);
    static const trial cases[] = {{RIGHT, nullptr},
                                  {SAME_WORD, "of the same launch wrote"},
                                  {OTHER_BLOCK, "of the"},
                                  {READ_BY_OTHERS, "device memory"},
                                  {NO_BARRIER, "with no barrier in between"}};
    for (auto &c : cases) {
        CHECK_OK(launch(g(), "blocks_meet", blocks_meet, 8, 32, 0, out<int32_t>(y), c.planted));
        expect("blocks_meet", c.words);
        for (int i = 0; c.planted == RIGHT && i < 256; i++)
            CHECK(data_of<int32_t>(y)[i] == (i ^ 1));
    }
    OWNED(sr_tensor) *z = zeros(SR_F32, 129);
    CHECK_OK(launch(g(), "vectors", vectors, 1, 32, 0, out<float>(z), 0));
    expect("vectors", nullptr);
    CHECK_OK(launch(g(), "vectors", vectors, 1, 32, 0, out<float>(z), 1));
    expect("vectors", "mod 16");
}

/* ---- tensor cores ---------------------------------------------------------------------------- */

/* y (16, 8) = a (16, 16) b (16, 8), b read through its transpose. */
KERNEL(32, 1)
void product(global<float> y, global<const bf16> a, global<const bf16> b) {
    shared<bf16> sa = shared_at<bf16>(0, 256), sb = shared_at<bf16>(512, 256);
    int l = lane();
    cp_async16(sa + l * 8, a + l * 8, true);
    cp_async16(sb + l * 8, b + l % 16 * 8, l < 16);
    cp_commit();
    cp_wait<0>();
    warp_barrier();
    uint32_t fa[4], fb[4];
    ldmatrix4(fa, sa + (l % 16 * 16 + l / 16 * 8));
    ldmatrix4_trans(fb, sb + l * 8);
    float c[4] = {0, 0, 0, 0};
    mma_bf16(c, fa, fb[0], fb[1]);
    for (int i = 0; i < 4; i++) y[(l / 4 + i / 2 * 8) * 8 + l % 4 * 2 + i % 2] = c[i];
}

static void products() {
    OWNED(sr_tensor) *y = zeros(SR_F32, 128), *a = zeros(SR_BF16, 256), *b = zeros(SR_BF16, 128);
    for (int i = 0; i < 256; i++)
        data_of<uint16_t>(a)[i] = sr_bf16_from_f32((float)(i * 7 % 13 - 6));
    for (int i = 0; i < 128; i++)
        data_of<uint16_t>(b)[i] = sr_bf16_from_f32((float)(i * 5 % 11 - 5));
    CHECK_OK(launch(g(), "product", product, 1, 32, 1024, out<float>(y), in<bf16>(a), in<bf16>(b)));
    expect("product", nullptr);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            int sum = 0;
            for (int k = 0; k < 16; k++)
                sum += ((i * 16 + k) * 7 % 13 - 6) * ((k * 8 + j) * 5 % 11 - 5);
            CHECK(data_of<float>(y)[i * 8 + j] == (float)sum);
        }
}

/* ---- faults, scratch, speed ------------------------------------------------------------------ */

KERNEL(32, 1) void complain(fault_at at, int low) {
    int row = block_x() * 32 + thread();
    if (row >= low) fault(at, FAULT_GATHER_ROW, (size_t)row, row * 2, 9);
}

static void faults_of_data() {
    fault_at first = faults(g()), second = faults(g());
    CHECK_OK(launch(g(), "complain", complain, 20, 32, 0, second, 3));
    CHECK_OK(launch(g(), "complain", complain, 20, 32, 0, first, 333));
    CHECK(sr_device_wait(device) == SR_EINVAL);
    CHECK(strcmp(sr_message(),
                 "gather_rows: rows[333] is 666, but there are 9 rows (counted from 0)") == 0);
    CHECK(sr_device_wait(device) == SR_OK);
}

static void scratch_memory() {
    global<float> p, q;
    CHECK_OK(scratch(&p, g(), 0, 100));
    CHECK_OK(scratch(&q, g(), 1, 100));
    CHECK(raw(p) != raw(q));
    float *before = raw(p);
    CHECK_OK(scratch(&p, g(), 0, 50));
    CHECK(raw(p) == before);
    int64_t allocations = device->allocations;
    for (int i = 0; i < 10; i++) CHECK_OK(scratch(&p, g(), 0, 100));
    CHECK(device->allocations == allocations);
    const int32_t host[3] = {4, 5, 6};
    global<const int32_t> copy;
    CHECK_OK(table(&copy, g(), 2, host, 3));
    CHECK(memcmp(copy.p, host, sizeof host) == 0);
}

template <int WARPS> KERNEL(WARPS * 32, 2) void bounded(global<int32_t> y) {
    y[thread()] = threads();
}

/* The launch bounds of a kernel, a template too, hold for its launches. */
static void bounds_of_launches() {
    OWNED(sr_tensor) *y = zeros(SR_I32, 1024);
    CHECK_OK(launch(g(), "bounded", bounded<3>, 1, 96, 0, out<int32_t>(y)));
    CHECK_OK(launch(g(), "bounded", bounded<3>, 1, 64, 0, out<int32_t>(y)));
    CHECK(launch(g(), "bounded", bounded<3>, 1, 128, 0, out<int32_t>(y)) == SR_EINTERNAL);
    CHECK(strcmp(sr_message(),
                 "bounded: a block of 128 threads; the kernel was compiled for up to 96") == 0);
    CHECK_OK(launch(g(), "bounded", bounded<32>, 1, 1024, 0, out<int32_t>(y)));
    CHECK(launch(g(), "vectors", vectors, 1, 64, 0, out<float>(y), 0) == SR_EINTERNAL);
    simt::bounds b = simt::bounds_of((const void *)bounded<32>);
    CHECK(b.threads == 1024 && b.blocks == 2);
    expect("bounded", nullptr);
}

KERNEL(256, 1) void meet(int rounds) {
    float x = 1.0f;
    for (int i = 0; i < rounds; i++) x = shuffle_xor(x, 1);
}

static void grids() {
    CHECK_OK(launch(g(), "nothing", meet, dim(0), 256, 0, 1));
    CHECK(launch(g(), "odd", meet, 1, 33, 0, 1) == SR_EINTERNAL);
    CHECK(launch(g(), "large", meet, 1, 32, 1 << 20, 1) == SR_EINTERNAL);
    double begin = sr_time_monotonic();
    CHECK_OK(launch(g(), "meet", meet, 1, 256, 0, 4000));
    double took = sr_time_monotonic() - begin;
    expect("meet", nullptr);
    printf("%.0f million switches a second\n", 256 * 4000 / took * 1e-6);
}

/* ---- counts ---------------------------------------------------------------------------------- */

KERNEL(32, 1) void patterns(global<float> y, global<const float> x, int stride) {
    shared<float> s = shared_at<float>(0, 1024);
    s[thread() * stride] = x[thread() * 8];
    y[thread()] = s[thread() * stride];
}

/* The numbers of a row of the report: requests, units, best, bytes. */
static void expect_row(FILE *report, const char *begin, const char *access, int requests, int units,
                       int best, int bytes) {
    char line[256], wanted[256];
    snprintf(wanted, sizeof wanted, "\t%s\t1\t%d\t%d\t%d\t%d\n", access, requests, units, best,
             bytes);
    rewind(report);
    bool found = false;
    while (fgets(line, sizeof line, report) != nullptr)
        found =
            found || (strncmp(line, begin, strlen(begin)) == 0 && strstr(line, wanted) != nullptr);
    if (!found) printf("no row %s ... %s", begin, wanted);
    CHECK(found);
}

static void counts() {
    char path[] = "/tmp/simt-checks-XXXXXX";
    int fd = mkstemp(path);
    sr_device *before = device;
    setenv("SEQRUN_SIMT_REPORT", path, 1);
    CHECK_OK(sr_device_open(&device, backend, 0, nullptr));
    sr_tensor *y = zeros(SR_F32, 32), *x = zeros(SR_F32, 256);
    CHECK_OK(launch(g(), "even", patterns, 1, 32, 4096, out<float>(y), in<float>(x), 1));
    CHECK_OK(launch(g(), "odd", patterns, 1, 32, 4096, out<float>(y), in<float>(x), 32));
    expect("patterns", nullptr);
    sr_tensor_release(x);
    sr_tensor_release(y);
    sr_device_close(device);
    device = before;
    unsetenv("SEQRUN_SIMT_REPORT");
    FILE *report = fdopen(fd, "r");
    expect_row(report, "even\tchecks.cu:", "read", 1, 32, 4, 128);
    expect_row(report, "even\tchecks.cu:", "write", 1, 4, 4, 128);
    expect_row(report, "even\tchecks.cu:", "shared write", 1, 1, 1, 128);
    expect_row(report, "odd\tchecks.cu:", "shared write", 1, 32, 1, 128);
    expect_row(report, "odd\tchecks.cu:", "shared read", 1, 32, 1, 128);
    fclose(report);
    unlink(path);
}

/* Whatever allocation fails, the call says so and nothing is lost. */
static void memory_runs_out() {
    sr_device *before = device;
    int64_t live = sr_mem_live();
    bool done = false;
    for (int n = 1; !done && n < 100; n++) {
        sr_mem_fail_at(n, false);
        sr_status st = sr_device_open(&device, backend, 0, nullptr);
        if (st == SR_OK) {
            global<float> p;
            st = scratch(&p, g(), 0, 100);
            if (st == SR_OK) st = launch(g(), "meet", meet, 1, 256, 0, 1);
            if (st == SR_OK) st = sr_device_wait(device);
        }
        done = st == SR_OK;
        CHECK(done || st == SR_ENOMEM);
        sr_mem_fail_at(0, false);
        sr_device_close(device);
        CHECK(sr_mem_live() == live);
    }
    CHECK(done);
    device = before;
}

/* Each op has its kernel; the rest of the table may be empty. */
static void no_op_is_missing() {
    CHECK(backend->fill != nullptr && backend->step != nullptr);
    size_t empty = 0, first = offsetof(sr_backend, fill), last = offsetof(sr_backend, step);
    for (size_t at = first; at <= last; at += sizeof(void *)) {
        void *slot;
        memcpy(&slot, (const char *)backend + at, sizeof slot);
        bool optional =
            at == offsetof(sr_backend, weight_build) || at == offsetof(sr_backend, weight_free);
        empty += slot == nullptr && !optional;
    }
    CHECK(empty == 0);
}

int main() {
    open_device();
    no_op_is_missing();
    shared_memory();
    warps_of_a_block();
    copies_in_flight();
    sources_of_copies();
    device_memory();
    constant_memory();
    bounds_of_launches();
    products();
    faults_of_data();
    scratch_memory();
    grids();
    counts();
    memory_runs_out();
    sr_device_close(device);
    return CHECK_DONE();
}
