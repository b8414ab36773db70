/* collective.cc - collective operations of a warp, executed once for its 32 lanes. */
#include "kernels/cuda/prim.cuh"

#include "core/base/mem.h"
#include "kernels/simt/report.h"

namespace simt {

/* ---- shuffles -------------------------------------------------------------------------------- */

static void run_warp_barrier(void *const *) {
    machine *m = mc;
    tick(m);
    m->warps[m->thread / WARP].tag = m->now;
}

template <class F> static void run_exchange(void *const *args, F source) {
    for (int l = 0; l < WARP; l++) {
        shuffle_args *a = (shuffle_args *)args[l];
        a->result = ((const shuffle_args *)args[source(l, a->from)])->value;
    }
}
static void run_shuffle(void *const *args) {
    run_exchange(args, [](int, int from) { return from & 31; });
}
static void run_shuffle_xor(void *const *args) {
    run_exchange(args, [](int l, int mask) { return (l ^ mask) & 31; });
}
static void run_shuffle_down(void *const *args) {
    run_exchange(args, [](int l, int n) { return l + n < WARP ? l + n : l; });
}

static void run_vote(void *const *args) {
    uint32_t votes = 0;
    for (int l = 0; l < WARP; l++) votes |= (uint32_t)((vote_args *)args[l])->x << l;
    for (int l = 0; l < WARP; l++) ((vote_args *)args[l])->result = votes;
}

/* ---- ldmatrix -------------------------------------------------------------------------------- */

static void run_ldmatrix(void *const *args, bool transposed) {
    uint16_t matrix[4][8][8];
    for (int l = 0; l < WARP; l++) {
        const ldmatrix_args *a = (const ldmatrix_args *)args[l];
        aligned(a->row, 16, a->where);
        if (mc->watch) check_matrix_row(a->row, a->where);
        memcpy(matrix[l / 8][l % 8], mc->shared + a->row, 16);
    }
    if (mc->watch & WATCH_COUNTS)
        for (int l = 0; l < WARP; l++) {
            const ldmatrix_args *a = (const ldmatrix_args *)args[l];
            count_lane(mc, l, COUNT_MATRIX, a->row, 16, a->where);
        }
    for (int l = 0; l < WARP; l++) {
        uint32_t *r = ((ldmatrix_args *)args[l])->result;
        int i = l / 4, j = l % 4 * 2;
        for (int k = 0; k < 4; k++) {
            uint16_t first = transposed ? matrix[k][j][i] : matrix[k][i][j];
            uint16_t second = transposed ? matrix[k][j + 1][i] : matrix[k][i][j + 1];
            r[k] = first | (uint32_t)second << 16;
        }
    }
}
static void run_ldmatrix_plain(void *const *args) {
    run_ldmatrix(args, false);
}
static void run_ldmatrix_trans(void *const *args) {
    run_ldmatrix(args, true);
}

/* ---- mma ------------------------------------------------------------------------------------- */

static void spread(float *to, uint32_t two, int stride) {
    to[0] = to_float(bf16{(uint16_t)two});
    to[stride] = to_float(bf16{(uint16_t)(two >> 16)});
}

typedef float vec8f __attribute__((vector_size(32)));

static void multiply(vec8f *c, const float (*a)[16], const vec8f *b) {
    for (int i = 0; i < 16; i++) {
        vec8f sum = c[i];
        for (int k = 0; k < 16; k++) sum += a[i][k] * b[k];
        c[i] = sum;
    }
}

/* The layout of fragments: PTX ISA, "Matrix Fragments for mma.m16n8k16". */
static void run_mma(void *const *args) {
    float a[16][16];
    alignas(32) float b[16][8], c[16][8];
    for (int l = 0; l < WARP; l++) {
        const mma_args *m = (const mma_args *)args[l];
        int g = l / 4, t = l % 4 * 2;
        spread(&a[g][t], m->a[0], 1);
        spread(&a[g + 8][t], m->a[1], 1);
        spread(&a[g][t + 8], m->a[2], 1);
        spread(&a[g + 8][t + 8], m->a[3], 1);
        spread(&b[t][g], m->b[0], 8);
        spread(&b[t + 8][g], m->b[1], 8);
        for (int i = 0; i < 4; i++) c[g + i / 2 * 8][t + i % 2] = m->c[i];
    }
    multiply((vec8f *)c, a, (const vec8f *)b);
    for (int l = 0; l < WARP; l++) {
        float *to = ((const mma_args *)args[l])->c;
        int g = l / 4, t = l % 4 * 2;
        for (int i = 0; i < 4; i++) to[i] = c[g + i / 2 * 8][t + i % 2];
    }
}

const collective warp_barrier_op = {"warp_barrier", run_warp_barrier};
const collective shuffle_op = {"shuffle", run_shuffle};
const collective shuffle_xor_op = {"shuffle_xor", run_shuffle_xor};
const collective shuffle_down_op = {"shuffle_down", run_shuffle_down};
const collective vote_op = {"vote", run_vote};
const collective ldmatrix_op = {"ldmatrix4", run_ldmatrix_plain};
const collective ldmatrix_trans_op = {"ldmatrix4_trans", run_ldmatrix_trans};
const collective mma_bf16_op = {"mma_bf16", run_mma};

/* ---- cp.async -------------------------------------------------------------------------------- */

static void land(machine *m, flight *copy) {
    if (copy->from != nullptr)
        memcpy(m->shared + copy->to, copy->from, 16);
    else
        memset(m->shared + copy->to, 0, 16);
    copy->landed = true;
}

/* The copies arrive in any order, each at one of the calls below or at a barrier. */
void land_some(machine *m) {
    fiber *f = &m->fibers[m->thread];
    uint64_t bits = 0;
    for (int i = 0; i < f->flying; i++) {
        if (i % 32 == 0) {
            m->drawn = m->drawn * 6364136223846793005u + 1442695040888963407u;
            bits = m->drawn >> 1 ^ m->drawn >> 33;
        }
        if (!f->flights[i].landed && (bits >> 2 * (i % 32) & 3) == 0) land(m, &f->flights[i]);
    }
}

void copy_begin(uint32_t to, const void *from, bool unwritten, place where) {
    fiber *f = &mc->fibers[mc->thread];
    if (mc->watch) {
        check_flight(to, where);
        if (from != nullptr) check_read(from, 16, where, unwritten);
    }
    if (f->flying == f->room) {
        int room = f->room == 0 ? 16 : f->room * 2;
        if (sr_grow(&f->flights, room) != SR_OK) stop(where, "no memory for copies");
        f->room = room;
    }
    flight *copy = &f->flights[f->flying++];
    copy->to = to;
    copy->group = f->group;
    copy->landed = false;
    copy->from = from;
    copy->where = where;
    if (from != nullptr) memcpy(copy->bytes, from, 16);
}

void copy_commit() {
    mc->fibers[mc->thread].group++;
    land_some(mc);
}

/* Whoever writes the source of a copy must wait for the copy first. */
static void check_source(const flight *copy) {
    if (copy->from != nullptr && memcmp(copy->bytes, copy->from, 16) != 0)
        stop(copy->where, "what is copied was written while the copy was under way; cp_wait and a "
                          "barrier must come first");
}

void copy_wait(uint32_t left) {
    fiber *f = &mc->fibers[mc->thread];
    int done = 0;
    for (; done < f->flying && f->flights[done].group + left < f->group; done++) {
        flight *copy = &f->flights[done];
        if (mc->watch) check_source(copy);
        if (!copy->landed) land(mc, copy);
        if (mc->watch) check_landing(copy->to);
    }
    f->flying -= done;
    memmove(f->flights, f->flights + done, (size_t)f->flying * sizeof *f->flights);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Blocks may run on several threads of the host. */
void record_fault(fault_at at, fault_code code, size_t row, int64_t value, int64_t limit) {
    queue_fault *f = at.word;
    uint64_t key = (uint64_t)at.call << 32 | (uint32_t)row;
    while (__atomic_exchange_n(&f->lock, 1u, __ATOMIC_ACQUIRE) != 0) {
    }
    if (key < f->key || (key == f->key && code < f->code)) {
        f->key = key;
        f->code = code;
        f->value = value;
        f->limit = limit;
    }
    __atomic_store_n(&f->lock, 0u, __ATOMIC_RELEASE);
}

} // namespace simt
