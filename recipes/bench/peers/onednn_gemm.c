/* onednn_gemm.c - the matrix products of a BERT layer in oneDNN, for comparison.
 *
 *     cc -O2 -fopenmp recipes/bench/peers/onednn_gemm.c -o onednn_gemm -ldnnl
 *     ./onednn_gemm 2048 768 3072 2
 *
 * Arguments: T, H, F, threads.  `seqrun recipes/bench/ops.lua op=linear peer=true` builds and runs
 * it (apt-get install libdnnl-dev).  Each thread multiplies a part of the rows, with oneDNN's own
 * threading disabled, either with plain sgemm or with a primitive that chooses the layout of the
 * weights; reordering them is not timed.  Prints GFLOP/s, the best of three rounds of four products.
 */
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct shape {
    const char *name;
    int64_t m, n, k;
    bool turn_a, turn_b; /* stored transposed */
} shape;

static void need(dnnl_status_t st, const char *what) {
    if (st == dnnl_success) return;
    fprintf(stderr, "onednn_gemm: %s: status %d\n", what, (int)st);
    exit(1);
}

/* A (rows, cols) matrix, transposed or not; `of` is its leading dimension. */
static dnnl_memory_desc_t matrix(int64_t rows, int64_t cols, int64_t of, bool turned) {
    dnnl_memory_desc_t md;
    dnnl_dims_t dims = {rows, cols}, strides = {turned ? 1 : of, turned ? of : 1};
    need(dnnl_memory_desc_init_by_strides(&md, 2, dims, dnnl_f32, strides), "memory");
    return md;
}

typedef struct primitive {
    dnnl_primitive_t multiply;
    dnnl_stream_t stream;
    dnnl_exec_arg_t args[3];
} primitive;

static primitive prepare(dnnl_engine_t engine, const shape *s, int64_t rows, float *a, float *b,
                         float *c) {
    primitive p;
    dnnl_memory_desc_t am = matrix(rows, s->k, s->turn_a ? s->m : s->k, s->turn_a),
                       bm = matrix(s->k, s->n, s->turn_b ? s->k : s->n, s->turn_b),
                       cm = matrix(rows, s->n, s->n, false), any;
    dnnl_dims_t b_dims = {s->k, s->n};
    need(dnnl_memory_desc_init_by_tag(&any, 2, b_dims, dnnl_f32, dnnl_format_tag_any), "layout");
    dnnl_matmul_desc_t desc;
    need(dnnl_matmul_desc_init(&desc, &am, &any, NULL, &cm), "product");
    dnnl_primitive_desc_t pd, reorder_pd;
    need(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL), "product");
    need(dnnl_primitive_create(&p.multiply, pd), "product");
    need(dnnl_stream_create(&p.stream, engine, dnnl_stream_default_flags), "stream");
    const dnnl_memory_desc_t *packed = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    dnnl_memory_t raw, laid, in, out;
    need(dnnl_memory_create(&raw, &bm, engine, b), "memory");
    need(dnnl_memory_create(&laid, packed, engine, DNNL_MEMORY_ALLOCATE), "memory");
    need(dnnl_memory_create(&in, &am, engine, a), "memory");
    need(dnnl_memory_create(&out, &cm, engine, c), "memory");
    dnnl_primitive_t reorder;
    need(dnnl_reorder_primitive_desc_create(&reorder_pd, &bm, engine, packed, engine, NULL), "lay");
    need(dnnl_primitive_create(&reorder, reorder_pd), "lay");
    dnnl_exec_arg_t move[] = {{DNNL_ARG_FROM, raw}, {DNNL_ARG_TO, laid}};
    need(dnnl_primitive_execute(reorder, p.stream, 2, move), "lay");
    need(dnnl_stream_wait(p.stream), "lay");
    p.args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, in};
    p.args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, laid};
    p.args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, out};
    return p;
}

/* The minimum time of a product over all rounds, in seconds, with all threads working. */
static double measure(dnnl_engine_t engine, const shape *s, float *a, float *b, float *c,
                      int threads, bool laid) {
    enum { ROUNDS = 3, TURNS = 4 };
    double best = 1e9;
#pragma omp parallel num_threads(threads)
    {
        int me = omp_get_thread_num();
        int64_t share = (s->m + threads - 1) / threads, from = me * share;
        int64_t rows = s->m - from < share ? s->m - from : share;
        float *my_a = a + (s->turn_a ? from : from * s->k), *my_c = c + from * s->n;
        omp_set_num_threads(1);
        primitive p;
#pragma omp critical
        if (laid) p = prepare(engine, s, rows, my_a, b, my_c);
        for (int round = 0; round <= ROUNDS; round++) {
#pragma omp barrier
            double begin = omp_get_wtime();
            for (int turn = 0; turn < TURNS; turn++) {
                if (laid) {
                    need(dnnl_primitive_execute(p.multiply, p.stream, 3, p.args), "product");
                    need(dnnl_stream_wait(p.stream), "product");
                } else {
                    need(dnnl_sgemm(s->turn_a ? 'T' : 'N', s->turn_b ? 'T' : 'N', rows, s->n, s->k,
                                    1, my_a, s->turn_a ? s->m : s->k, b, s->turn_b ? s->k : s->n, 0,
                                    my_c, s->n),
                         "sgemm");
                }
            }
#pragma omp barrier
            double seconds = (omp_get_wtime() - begin) / TURNS;
#pragma omp single
            if (round > 0 && seconds < best) best = seconds;
        }
    }
    return best;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: onednn_gemm T H F THREADS\n");
        return 2;
    }
    int64_t t = atol(argv[1]), h = atol(argv[2]), f = atol(argv[3]);
    int threads = atoi(argv[4]);
    const shape shapes[] = {
        {"qkv", t, 3 * h, h, false, true},       {"projection", t, h, h, false, true},
        {"feed in", t, f, h, false, true},       {"feed out", t, h, f, false, true},
        {"feed in, dx", t, h, f, false, false},  {"feed in, dw", f, h, t, true, false},
        {"feed out, dx", t, f, h, false, false}, {"feed out, dw", h, f, t, true, false},
    };
    int64_t most = t * (3 * h > f ? 3 * h : f);
    if (most < 3 * h * h) most = 3 * h * h;
    if (most < h * f) most = h * f;
    float *room = calloc((size_t)(3 * most), sizeof *room);
    if (room == NULL) return 4;
    for (int64_t i = 0; i < 2 * most; i++) room[i] = (float)(i % 17) * 0.01f;
    dnnl_engine_t engine;
    need(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    const dnnl_version_t *v = dnnl_version();
    printf("oneDNN %d.%d.%d, %d threads, f32\n%-14s %8s %8s\n", v->major, v->minor, v->patch,
           threads, "GFLOP/s", "sgemm", "reordered");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        double rate[2];
        for (int laid = 0; laid < 2; laid++)
            rate[laid] = 2e-9 * (double)(s->m * s->n * s->k) /
                         measure(engine, s, room, room + most, room + 2 * most, threads, laid);
        printf("%-14s %8.0f %8.0f\n", s->name, rate[0], rate[1]);
    }
    free(room);
    return 0;
}
