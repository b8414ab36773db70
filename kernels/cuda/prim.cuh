/* prim.cuh - every device primitive that kernels use; no kernel contains PTX or an intrinsic.
 *
 * One source, two hosts: nvcc compiles the .cu files for a GPU with the definitions below, g++
 * with -DSR_SIMT compiles the same files for the CPU, where kernels/simt/simt.h gives the same
 * names and checks every access (docs/reference/kernels.md).
 *
 *   here                              in CUDA
 *   KERNEL(threads, min_blocks)       static __global__ __launch_bounds__(threads, min_blocks)
 *   DEV                               __device__ __forceinline__
 *   thread() threads()                threadIdx.x, blockDim.x
 *   lane() warp() warps()             threadIdx.x % 32, threadIdx.x / 32, blockDim.x / 32
 *   block_x() ... blocks_x() ...      blockIdx.x, y, z; gridDim.x, y, z
 *   barrier() warp_barrier()          __syncthreads, __syncwarp
 *   shuffle() shuffle_xor()           __shfl_sync, __shfl_xor_sync,
 *   shuffle_down() vote()             __shfl_down_sync, __ballot_sync, of all lanes of a warp
 *   again(), kept()                   the same value: what must be computed where it stands,
 *                                     and not again (by __shfl_sync)
 *   global<T>, shared<T>              T *: g[i], g + n; T may be const
 *   readonly<T>                       const T *__restrict__, a kernel's parameter that nothing in
 *                                     the launch writes by another pointer: loads may be cached
 *   shared_at<T>(byte, count)         extern __shared__: a part of the launch's shared memory
 *   recast<U>(p)                      reinterpret_cast<U *>
 *   load16<T>(p, i), store16, 8, 4    uint4, uint2, uint32_t from element i, aligned
 *   cp_async16, cp_commit, cp_wait    cp.async.cg, cp.async.commit_group, cp.async.wait_group
 *   ldmatrix4, ldmatrix4_trans        ldmatrix.m8n8.x4, .trans
 *   mma_bf16                          mma.m16n8k16 of bf16 with f32 accumulation
 *   mulhi, float_bits, bits_float     __umulhi, __float_as_uint, __uint_as_float
 *   pack2_bf16, exp2_fast, log2_fast  cvt.rn.bf16x2, ex2.approx, lg2.approx (ftz)
 *   rcp_fast, sign_halves             rcp.approx (ftz), prmt of sign bytes
 *   math_exp, math_erf ...            expf, erff ...: within an ulp
 *   exact_add, exact_mul              __dadd_rn, __dmul_rn: never fused into a multiply-add
 *   fault(at, code, row, value, limit)  reports bad data (gpu.h), by atomicCAS on a lock
 */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- types that both hosts share ------------------------------------------------------------- */

struct bf16 {
    uint16_t bits;
};
struct alignas(16) vec16 {
    uint32_t w[4];
};
struct alignas(8) vec8 {
    uint32_t w[2];
};

/* Errors in data that only the device can detect. */
enum fault_code : uint32_t {
    FAULT_EMBED_ID,
    FAULT_EMBED_TYPE,
    FAULT_EMBED_POSITION,
    FAULT_ROTARY_POSITION,
    FAULT_MLM_LABEL,
    FAULT_CROSS_ENTROPY_LABEL,
    FAULT_GATHER_ROW,
    FAULT_SCATTER_ROW,
    FAULT_PUT_ROW,
    FAULT_PUT_DUPLICATE
};

/* The first fault since the last wait: lowest call, then lowest row, then lowest code. */
struct queue_fault {
    uint32_t lock;
    uint32_t code;
    uint64_t key; /* call << 32 | row; all ones: none */
    int64_t value, limit;
};

/* Where the kernels of a call report; from faults() on the host. */
struct fault_at {
    queue_fault *word;
    uint32_t call;
};

#ifdef SR_SIMT
#include "kernels/simt/simt.h"
#else

#define DEV __device__ __forceinline__
#define KERNEL(threads, min_blocks) static __global__ __launch_bounds__(threads, min_blocks)

template <class T> using global = T *;
template <class T> using readonly = const T *__restrict__;
template <class T> using shared = T *;

/* ---- coordinates ----------------------------------------------------------------------------- */

#define INDEX_OF(name, value)                                                                      \
    DEV int name() {                                                                               \
        return (int)(value);                                                                       \
    }
INDEX_OF(thread, threadIdx.x)
INDEX_OF(threads, blockDim.x)
INDEX_OF(lane, threadIdx.x & 31)
INDEX_OF(warp, threadIdx.x >> 5)
INDEX_OF(warps, blockDim.x >> 5)
INDEX_OF(block_x, blockIdx.x)
INDEX_OF(block_y, blockIdx.y)
INDEX_OF(block_z, blockIdx.z)
INDEX_OF(blocks_x, gridDim.x)
INDEX_OF(blocks_y, gridDim.y)
#undef INDEX_OF

/* ---- block and warp -------------------------------------------------------------------------- */

DEV void barrier() {
    __syncthreads();
}
DEV void warp_barrier() {
    __syncwarp();
}
template <class T> DEV T shuffle_xor(T v, int mask) {
    return __shfl_xor_sync(~0u, v, mask);
}
template <class T> DEV T shuffle(T v, int from) {
    return __shfl_sync(~0u, v, from);
}
template <class T> DEV T shuffle_down(T v, int n) {
    return __shfl_down_sync(~0u, v, n);
}
/* x, read where it stands: what is computed from it is not kept in registers before. */
DEV int again(int x) {
    asm volatile("" : "+r"(x));
    return x;
}
/* x, from here on in a register: what it is made of is not computed again. */
DEV int kept(int x) {
    return __shfl_sync(~0u, x, lane());
}
DEV uint32_t vote(bool x) {
    return __ballot_sync(~0u, x);
}

/* ---- memory ---------------------------------------------------------------------------------- */

template <class T> DEV shared<T> shared_at(int byte_offset, int count) {
    extern __shared__ __align__(128) unsigned char shared_memory[];
    (void)count;
    return reinterpret_cast<T *>(shared_memory + byte_offset);
}

/* The same memory as elements of another type. */
template <class U, class T> DEV U *recast(T *p) {
    return reinterpret_cast<U *>(p);
}

template <class T> DEV vec16 load16(const T *p, size_t i) {
    uint4 v = *reinterpret_cast<const uint4 *>(p + i);
    return vec16{{v.x, v.y, v.z, v.w}};
}
template <class T> DEV vec8 load8(const T *p, size_t i) {
    uint2 v = *reinterpret_cast<const uint2 *>(p + i);
    return vec8{{v.x, v.y}};
}
template <class T> DEV uint32_t load4(const T *p, size_t i) {
    return *reinterpret_cast<const uint32_t *>(p + i);
}
template <class T> DEV void store16(T *p, size_t i, vec16 v) {
    *reinterpret_cast<uint4 *>(p + i) = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]);
}
template <class T> DEV void store8(T *p, size_t i, vec8 v) {
    *reinterpret_cast<uint2 *>(p + i) = make_uint2(v.w[0], v.w[1]);
}
template <class T> DEV void store4(T *p, size_t i, uint32_t v) {
    *reinterpret_cast<uint32_t *>(p + i) = v;
}

DEV uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Fills 16 bytes of shared memory from global memory, or with zeros (and reads nothing) when not
 * `valid`.  They may be read by this thread after its cp_wait, by others after a barrier. */
template <class T, class F> DEV void cp_async16(T *to, F *from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)),
                 "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}
DEV void cp_commit() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
/* Waits until at most the last N groups of this thread are in flight. */
template <int N> DEV void cp_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

/* ---- tensor cores ---------------------------------------------------------------------------- */

/* Lane l names row l % 8 of matrix l / 8 (16 bytes); r[m] holds elements (l / 4, 2 (l % 4) + {0,
 * 1}) of matrix m, or of its transpose. */
template <class T> DEV void ldmatrix4(uint32_t (&r)[4], T *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
template <class T> DEV void ldmatrix4_trans(uint32_t (&r)[4], T *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
/* c (16, 8) += a (16, 16) b (16, 8) */
DEV void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---- numbers --------------------------------------------------------------------------------- */

DEV uint32_t mulhi(uint32_t a, uint32_t b) {
    return __umulhi(a, b);
}
DEV uint32_t float_bits(float x) {
    return __float_as_uint(x);
}
DEV float bits_float(uint32_t x) {
    return __uint_as_float(x);
}

DEV uint32_t pack2_bf16(float low, float high) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

/* All ones in each half where the top bit of its byte is set: bytes 2 `pair` and 2 `pair` + 1. */
DEV uint32_t sign_halves(uint32_t x, int pair) {
    uint32_t r;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(r) : "r"(x), "r"(pair ? 0xBBAA : 0x9988));
    return r;
}

DEV float exp2_fast(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
DEV float log2_fast(float x) {
    float r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
DEV float rcp_fast(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

/* Each rounded: never fused into a multiply-add. */
DEV double exact_add(double a, double b) {
    return __dadd_rn(a, b);
}
DEV double exact_mul(double a, double b) {
    return __dmul_rn(a, b);
}

/* Called once by a thread that has found bad data.  Of lanes that have come together one takes the
 * lock at a time, so that none waits for one that waits for it. */
DEV void fault(fault_at at, fault_code code, size_t row, int64_t value, int64_t limit) {
    uint64_t key = (uint64_t)at.call << 32 | (uint32_t)row;
    volatile queue_fault *f = at.word;
    const unsigned together = __activemask();
#pragma unroll 1
    for (int turn = 0; turn < 32; turn++) {
        __syncwarp(together);
        if (turn != lane()) continue;
        while (atomicCAS(&at.word->lock, 0u, 1u) != 0u) {
        }
        __threadfence();
        if (key < f->key || (key == f->key && code < f->code)) {
            f->key = key;
            f->code = code;
            f->value = value;
            f->limit = limit;
        }
        __threadfence();
        atomicExch(&at.word->lock, 0u);
    }
}
#endif

/* ---- what follows from the above ------------------------------------------------------------- */

DEV float to_float(float x) {
    return x;
}
DEV float to_float(bf16 x) {
    return bits_float((uint32_t)x.bits << 16);
}
DEV float low_bf16(uint32_t two) {
    return bits_float(two << 16);
}
DEV float high_bf16(uint32_t two) {
    return bits_float(two & 0xFFFF0000u);
}

/* Rounds to nearest, ties to even. */
template <class T> DEV T from_float(float x);
template <> DEV float from_float<float>(float x) {
    return x;
}
template <> DEV bf16 from_float<bf16>(float x) {
    return bf16{(uint16_t)pack2_bf16(x, 0.0f)};
}

/* A vector of 16 bytes holds per16<T>() elements. */
template <class T> constexpr int per16() {
    return (int)(16 / sizeof(T));
}

DEV void unpack(float (&x)[4], vec16 v) {
    for (int i = 0; i < 4; i++) x[i] = bits_float(v.w[i]);
}
DEV void unpack(float (&x)[8], vec16 v) { /* bf16 */
    for (int i = 0; i < 4; i++) {
        x[2 * i] = low_bf16(v.w[i]);
        x[2 * i + 1] = high_bf16(v.w[i]);
    }
}
DEV vec16 pack(const float (&x)[4]) {
    vec16 v;
    for (int i = 0; i < 4; i++) v.w[i] = float_bits(x[i]);
    return v;
}
DEV vec16 pack(const float (&x)[8]) { /* bf16 */
    vec16 v;
    for (int i = 0; i < 4; i++) v.w[i] = pack2_bf16(x[2 * i], x[2 * i + 1]);
    return v;
}

/* Over the lanes of a warp, in one fixed order; every lane gets the result. */
DEV float warp_sum(float x) {
    for (int mask = 16; mask > 0; mask >>= 1) x += shuffle_xor(x, mask);
    return x;
}
DEV float warp_max(float x) {
    for (int mask = 16; mask > 0; mask >>= 1) x = fmaxf(x, shuffle_xor(x, mask));
    return x;
}

/* Accurate functions, by the names that kernels use. */
#define MATH(type, name, function)                                                                 \
    DEV type math_##name(type x) {                                                                 \
        return function(x);                                                                        \
    }
MATH(float, exp, expf)
MATH(float, log, logf)
MATH(float, erf, erff)
MATH(float, tanh, tanhf)
MATH(float, sqrt, sqrtf)
MATH(float, sin, sinf)
MATH(float, cos, cosf)
MATH(float, floor, floorf)
MATH(float, abs, fabsf)
MATH(double, log, log)
MATH(double, sqrt, sqrt)
MATH(double, sin, sin)
MATH(double, cos, cos)
MATH(double, abs, fabs)
#undef MATH
DEV float math_pow(float x, float y) {
    return powf(x, y);
}
DEV float math_fma(float a, float b, float c) {
    return fmaf(a, b, c);
}
DEV double math_pow(double x, double y) {
    return pow(x, y);
}
