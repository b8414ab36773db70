/* conform.cu - what the primitives of prim.cuh compute, bit by bit, as a table.
 *
 *     gpu-conform > TSV        on a GPU
 *     simt-conform > TSV       on the simt host
 *
 * A line has a name, the number of a case and words in hexadecimal.  tests/spec/gpu_spec.lua
 * compares the simt host with the tables that chips have written, tests/data/gpu/conform_*.tsv:
 * conversions, ldmatrix and products of small integers to the bit, approximations to 2 units in the
 * last place, products of random numbers to the rounding of their sums, whose order inside mma is
 * the chip's own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/tensor/plugin.h"
#include "kernels/cuda/gpu.h"

enum { LANES = 32, PER_LINE = 16, VALUES = 1024, MATRIX = 16 * 16 };

static sr_device *device;

static gpu *g() {
    return (gpu *)device->state;
}

static void need(sr_status st) {
    if (st == SR_OK) return;
    fprintf(stderr, "conform: %s\n", sr_message());
    exit(1);
}

/* Words in device memory. */
struct words {
    sr_tensor *t;
    explicit words(int64_t count) {
        need(sr_tensor_new(&t, device, SR_I32, 1, &count));
    }
    words(const uint32_t *host, int64_t count) : words(count) {
        need(sr_tensor_write(t, (const int32_t *)host, SR_I32));
    }
    ~words() {
        sr_tensor_release(t);
    }
};

static void print_words(const char *name, const words &w, int per_line) {
    int64_t count = w.t->shape[0];
    uint32_t *host;
    need(sr_new(&host, count));
    need(sr_device_download(device, host, sr_tensor_data(w.t), (size_t)count * 4));
    for (int64_t i = 0; i < count; i++) {
        if (i % per_line == 0) printf("%s\t%lld", name, (long long)(i / per_line));
        printf("\t%08x", host[i]);
        if (i % per_line == per_line - 1 || i == count - 1) printf("\n");
    }
    sr_free(host);
}

/* float_bits() on the host. */
static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint32_t draw(uint32_t i, uint32_t salt) {
    return sr_philox(sr_u32x4{{i, salt, 0, 0}}, 7, SR_ROUNDS_DATA).w[0];
}

/* ---- numbers --------------------------------------------------------------------------------- */

enum function { TO_BF16, EXP2, LOG2, RCP };

KERNEL(256, 1) void apply(global<uint32_t> y, global<const uint32_t> x, int which) {
    int i = block_x() * threads() + thread();
    uint32_t bits = x[i], r = 0;
    float v = bits_float(bits);
    switch (which) {
    case TO_BF16:
        r = pack2_bf16(v, -v);
        break;
    case EXP2:
        r = float_bits(exp2_fast(v));
        break;
    case LOG2:
        r = float_bits(log2_fast(v));
        break;
    case RCP:
        r = float_bits(rcp_fast(v));
        break;
    }
    y[i] = r;
}

static void table_of(const char *name, int which, const uint32_t *given) {
    words x(given, VALUES), y(VALUES);
    need(launch(g(), "apply", apply, dim(VALUES / 256), 256, 0, out<uint32_t>(y.t),
                in<uint32_t>(x.t), which));
    need(sr_device_wait(device));
    print_words(name, y, PER_LINE);
}

/* Any floats: those at the edges of the formats, then random bits. */
static void conversions() {
    static const uint32_t edges[] = {0,          0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000,
                                     0x00000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x3F808000,
                                     0x3F818000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001,
                                     0x387FC000, 0x387FE000, 0x38800000};
    uint32_t given[VALUES];
    for (uint32_t i = 0; i < VALUES; i++)
        given[i] = i < sizeof edges / sizeof *edges ? edges[i] : draw(i, 1);
    table_of("cvt.bf16x2", TO_BF16, given);
}

/* Where kernels use the approximations: exponents of softmax, sums of it, variances. */
static void approximations() {
    uint32_t given[VALUES];
    for (uint32_t i = 0; i < VALUES; i++)
        given[i] = bits_of(-130.0f + 132.0f * (float)i / VALUES + 0.37f * (float)(draw(i, 2) % 7));
    table_of("ex2", EXP2, given);
    for (uint32_t i = 0; i < VALUES; i++) given[i] = (draw(i, 3) & 0x3FFFFFFF) | 0x20000000;
    table_of("lg2", LOG2, given);
    table_of("rcp", RCP, given);
}

/* ---- matrices -------------------------------------------------------------------------------- */

KERNEL(LANES, 1) void load_matrices(global<uint32_t> y, global<const uint32_t> x) {
    shared<bf16> m = shared_at<bf16>(0, 4 * 64);
    for (int i = 0; i < 4; i++) store4(m, 2 * (lane() + 32 * i), x[lane() + 32 * i]);
    warp_barrier();
    uint32_t r[4], t[4];
    ldmatrix4(r, m + lane() * 8);
    ldmatrix4_trans(t, m + lane() * 8);
    for (int i = 0; i < 4; i++) {
        y[lane() * 8 + i] = r[i];
        y[lane() * 8 + 4 + i] = t[i];
    }
}

static void loads() {
    uint32_t given[128];
    for (uint32_t i = 0; i < 128; i++) given[i] = 2 * i | (2 * i + 1) << 16;
    words x(given, 128), y(LANES * 8);
    need(launch(g(), "load", load_matrices, 1, LANES, 4 * 64 * sizeof(bf16), out<uint32_t>(y.t),
                in<uint32_t>(x.t)));
    need(sr_device_wait(device));
    print_words("ldmatrix", y, 8);
}

/* A lane's parts of a, b and c, as they come; a block a case. */
KERNEL(LANES, 1) void multiply(global<uint32_t> y, global<const uint32_t> x) {
    size_t from = ((size_t)block_x() * LANES + lane()) * 10,
           to = ((size_t)block_x() * LANES + lane()) * 4;
    uint32_t a[4] = {x[from], x[from + 1], x[from + 2], x[from + 3]};
    uint32_t b0 = x[from + 4], b1 = x[from + 5];
    float c[4];
    for (int i = 0; i < 4; i++) c[i] = bits_float(x[from + 6 + i]);
    mma_bf16(c, a, b0, b1);
    for (int i = 0; i < 4; i++) y[to + i] = float_bits(c[i]);
}

/* Two bf16 of small integers, or of magnitude about 1. */
static uint32_t two(uint32_t i, uint32_t salt, bool integers) {
    uint32_t r = 0;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t d = draw(2 * i + k, salt);
        float v = integers ? (float)(int)(d % 17) - 8 : (float)(int32_t)d * 0x1p-30f;
        uint32_t bits = bits_of(v);
        r |= ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF) << 16 * k;
    }
    return r;
}

static void products(const char *name, bool integers) {
    enum { CASES = 8, COUNT = CASES * LANES };
    static uint32_t given[COUNT * 10];
    for (uint32_t i = 0; i < COUNT * 10; i++) {
        given[i] = two(i, 4 + (uint32_t)integers, integers);
        if (i % 10 >= 6)
            given[i] = bits_of(integers ? (float)(int)(draw(i, 6) % 2001) - 1000
                                        : (float)(int32_t)draw(i, 6) * 0x1p-29f);
    }
    words x(given, COUNT * 10), y(COUNT * 4);
    need(launch(g(), "multiply", multiply, CASES, LANES, 0, out<uint32_t>(y.t), in<uint32_t>(x.t)));
    need(sr_device_wait(device));
    print_words(name, y, PER_LINE);
}

/* ---- faults ---------------------------------------------------------------------------------- */

KERNEL(256, 1) void blame(fault_at at) {
    const int i = block_x() * threads() + thread();
    fault(at, FAULT_GATHER_ROW, (size_t)(i ^ 341), i, 7);
}

/* All threads at once find bad data; the first row is reported. */
static void faults_of_all() {
    need(launch(g(), "blame", blame, 64, 256, 0, faults(g())));
    const char *wanted = "gather_rows: rows[0] is 341, but there are 7 rows (counted from 0)";
    if (sr_device_wait(device) != SR_OK && strcmp(sr_message(), wanted) == 0) return;
    fprintf(stderr, "conform: faults: %s; wanted: %s\n", sr_message(), wanted);
    exit(1);
}

/* ---- the device ------------------------------------------------------------------------------ */

static const sr_backend *backend;

static sr_status keep_backend(const sr_backend *added) {
    backend = added;
    return SR_OK;
}

int main() {
    sr_host host = {};
    host.abi = SR_ABI;
    host.add_backend = keep_backend;
    need(sr_plugin_init(&host, SR_ABI));
    need(sr_device_open(&device, backend, 0, nullptr));
    conversions();
    approximations();
    loads();
    products("mma.bf16 integers", true);
    products("mma.bf16", false);
    faults_of_all();
    sr_device_close(device);
    return 0;
}
