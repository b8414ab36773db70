/* simt.h - the primitives of prim.cuh on a CPU, with checks; included by prim.cuh alone.
 *
 * Pointers know their extent, accesses their source location: a kernel that reads or writes
 * outside a tensor, races, or reads shared memory that was never written ends with a message that
 * names the kernel, the block, the thread and the line.
 */
#pragma once

#include "kernels/simt/machine.h"

#define DEV inline __attribute__((always_inline))

/* The bounds of a kernel are the number of NOPs before its first instruction, which are never run;
 * machine.cc counts them (launch_bounds). */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KERNEL(threads, min_blocks)                                                                \
    static __attribute__((                                                                         \
        patchable_function_entry((threads) / simt::WARP * simt::BOUND_STEP + (min_blocks),         \
                                 (threads) / simt::WARP * simt::BOUND_STEP + (min_blocks))))
#else
#define KERNEL(threads, min_blocks) static
#endif

namespace simt {

#define SR_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* An index, and the source location that uses it. */
struct index {
    size_t i;
    place where;
    template <class I> index(I i, SR_HERE) : i((size_t)i), where{file, line} {
    }
};

template <class T> struct plain { typedef T type; };
template <class T> struct plain<const T> { typedef T type; };

/* ---- device memory --------------------------------------------------------------------------- */

template <class T> struct global {
    T *p = nullptr;
    const char *low = nullptr, *high = nullptr; /* its extent */
    typedef typename plain<T>::type value;

    struct element {
        T *p;
        place where;
        operator value() const {
            if (mc->watch) check_read(p, sizeof(T), where);
            return *p;
        }
        const element &operator=(value v) const {
            if (mc->watch) check_write(p, sizeof(T), where);
            *p = v;
            return *this;
        }
        const element &operator=(const element &e) const {
            return *this = (value)e;
        }
        const element &operator+=(value v) const {
            return *this = (value) * this + v;
        }
        const element &operator-=(value v) const {
            return *this = (value) * this - v;
        }
        const element &operator*=(value v) const {
            return *this = (value) * this * v;
        }
    };

    global() = default;
    global(decltype(nullptr)) {
    }
    global(T *p, const void *low, const void *high)
        : p(p), low((const char *)low), high((const char *)high) {
    }
    operator global<const value>() const {
        return {p, low, high};
    }
    explicit operator bool() const {
        return p != nullptr;
    }
    global operator+(size_t n) const {
        return {p + (ptrdiff_t)n, low, high};
    }
    global operator-(size_t n) const {
        return {p - (ptrdiff_t)n, low, high};
    }
    global &operator+=(size_t n) {
        return *this = *this + n;
    }

    T *at(size_t i, size_t bytes, place where) const {
        T *q = (T *)((uintptr_t)p + i * sizeof(T));
        if (__builtin_expect((const char *)q < low || (const char *)q + bytes > high, 0))
            stop(where, "element %lld is outside of its tensor of %lld bytes",
                 (long long)(((const char *)q - low) / (ptrdiff_t)sizeof(T)),
                 (long long)(high - low));
        return q;
    }
    element operator[](index i) const {
        return {at(i.i, sizeof(T), i.where), i.where};
    }
    element operator*() const {
        return (*this)[0];
    }
};

template <class T> struct global<const T> {
    const T *p = nullptr;
    const char *low = nullptr, *high = nullptr;
    bool unwritten = false; /* by anything in the launch: see readonly */

    global() = default;
    global(decltype(nullptr)) {
    }
    global(const T *p, const void *low, const void *high, bool unwritten = false)
        : p(p), low((const char *)low), high((const char *)high), unwritten(unwritten) {
    }
    explicit operator bool() const {
        return p != nullptr;
    }
    global operator+(size_t n) const {
        return {p + (ptrdiff_t)n, low, high, unwritten};
    }
    global operator-(size_t n) const {
        return {p - (ptrdiff_t)n, low, high, unwritten};
    }
    global &operator+=(size_t n) {
        return *this = *this + n;
    }

    const T *at(size_t i, size_t bytes, place where) const {
        const T *q = (const T *)((uintptr_t)p + i * sizeof(T));
        if (__builtin_expect((const char *)q < low || (const char *)q + bytes > high, 0))
            stop(where, "element %lld is outside of its tensor of %lld bytes",
                 (long long)(((const char *)q - low) / (ptrdiff_t)sizeof(T)),
                 (long long)(high - low));
        return q;
    }
    T operator[](index i) const {
        const T *q = at(i.i, sizeof(T), i.where);
        if (mc->watch) check_read(q, sizeof(T), i.where, unwritten);
        return *q;
    }
    T operator*() const {
        return (*this)[0];
    }
};

/* Of a kernel's parameters: a launch that also writes what it reads through one is reported. */
template <class T> struct readonly : global<const T> {
    readonly() = default;
    readonly(decltype(nullptr)) {
    }
    readonly(const global<const T> &g) : global<const T>(g.p, g.low, g.high, true) {
    }
    readonly(const global<T> &g) : global<const T>(g.p, g.low, g.high, true) {
    }
};

template <class T> bool operator==(const global<T> &g, decltype(nullptr)) {
    return !g;
}
template <class T> bool operator!=(const global<T> &g, decltype(nullptr)) {
    return (bool)g;
}

/* ---- shared memory --------------------------------------------------------------------------- */

template <class T> struct shared {
    uint32_t offset = 0, low = 0, high = 0; /* bytes */
    typedef typename plain<T>::type value;

    struct element {
        uint32_t at;
        place where;
        operator value() const {
            if (mc->watch) check_shared_read(at, sizeof(T), where);
            value v;
            memcpy(&v, mc->shared + at, sizeof v);
            return v;
        }
        const element &operator=(value v) const {
            if (mc->watch) check_shared_write(at, sizeof(T), where);
            memcpy(mc->shared + at, &v, sizeof v);
            return *this;
        }
        const element &operator=(const element &e) const {
            return *this = (value)e;
        }
        const element &operator+=(value v) const {
            return *this = (value) * this + v;
        }
        const element &operator-=(value v) const {
            return *this = (value) * this - v;
        }
        const element &operator*=(value v) const {
            return *this = (value) * this * v;
        }
    };

    operator shared<const value>() const {
        return {offset, low, high};
    }
    shared operator+(size_t n) const {
        return {offset + (uint32_t)n * (uint32_t)sizeof(T), low, high};
    }
    shared operator-(size_t n) const {
        return {offset - (uint32_t)n * (uint32_t)sizeof(T), low, high};
    }
    shared &operator+=(size_t n) {
        return *this = *this + n;
    }

    uint32_t at(size_t i, uint32_t bytes, place where) const {
        int64_t q = (int64_t)(int32_t)offset + (int64_t)i * (int64_t)sizeof(T);
        if (__builtin_expect(q < (int64_t)low || q + bytes > (int64_t)high, 0))
            stop(where, "byte %lld of shared memory is outside of the array at %u to %u",
                 (long long)q, low, high);
        return (uint32_t)q;
    }
    element operator[](index i) const {
        return {at(i.i, sizeof(T), i.where), i.where};
    }
    element operator*() const {
        return (*this)[0];
    }
};

/* The alignment of vectors, in bytes. */
inline void aligned(uintptr_t at, uintptr_t to, place where) {
    if (__builtin_expect(at % to != 0, 0))
        stop(where, "an access of %d bytes at an address that is %d mod %d", (int)to,
             (int)(at % to), (int)to);
}

template <class V, class T> V load(const global<const T> &g, size_t i, place where) {
    const T *q = g.at(i, sizeof(V), where);
    aligned((uintptr_t)q, sizeof(V), where);
    if (mc->watch) check_read(q, sizeof(V), where, g.unwritten);
    V v;
    memcpy(&v, q, sizeof v);
    return v;
}
template <class V, class T> void store(const global<T> &g, size_t i, V v, place where) {
    T *q = g.at(i, sizeof(V), where);
    aligned((uintptr_t)q, sizeof(V), where);
    if (mc->watch) check_write(q, sizeof(V), where);
    memcpy(q, &v, sizeof v);
}
template <class V, class T> V load(const shared<T> &s, size_t i, place where) {
    uint32_t q = s.at(i, sizeof(V), where);
    aligned(q, sizeof(V), where);
    if (mc->watch) check_shared_read(q, sizeof(V), where);
    V v;
    memcpy(&v, mc->shared + q, sizeof v);
    return v;
}
template <class V, class T> void store(const shared<T> &s, size_t i, V v, place where) {
    uint32_t q = s.at(i, sizeof(V), where);
    aligned(q, sizeof(V), where);
    if (mc->watch) check_shared_write(q, sizeof(V), where);
    memcpy(mc->shared + q, &v, sizeof v);
}

/* ---- collectives: arguments of one lane, and what runs once for all 32 (collective.cc) ------- */

struct shuffle_args {
    uint32_t value, result;
    int from;
};
struct vote_args {
    uint32_t result;
    bool x;
};
struct ldmatrix_args {
    uint32_t *result;
    uint32_t row;
    place where;
};
struct mma_args {
    float *c;
    const uint32_t *a;
    uint32_t b[2];
};
extern const collective warp_barrier_op, shuffle_op, shuffle_xor_op, shuffle_down_op, vote_op,
    ldmatrix_op, ldmatrix_trans_op, mma_bf16_op;

template <class T> T exchange(const collective *what, T v, int from, place where) {
    static_assert(sizeof(T) == 4, "shuffles are of 4 bytes");
    shuffle_args args = {0, 0, from};
    memcpy(&args.value, &v, 4);
    collect(what, &args, where);
    memcpy(&v, &args.result, 4);
    return v;
}

/* `from` NULL: zeros; unwritten: of a readonly. */
void copy_begin(uint32_t to, const void *from, bool unwritten, place where);
void copy_commit();
void copy_wait(uint32_t left);
void record_fault(fault_at at, fault_code code, size_t row, int64_t value, int64_t limit);

} // namespace simt

using simt::global;
using simt::readonly;
using simt::shared;

DEV int thread() {
    return simt::mc->thread;
}
DEV int threads() {
    return simt::mc->threads;
}
DEV int lane() {
    return simt::mc->thread & 31;
}
DEV int warp() {
    return simt::mc->thread >> 5;
}
DEV int warps() {
    return simt::mc->threads >> 5;
}
DEV int block_x() {
    return simt::mc->block[0];
}
DEV int block_y() {
    return simt::mc->block[1];
}
DEV int block_z() {
    return simt::mc->block[2];
}
DEV int blocks_x() {
    return simt::mc->blocks[0];
}
DEV int blocks_y() {
    return simt::mc->blocks[1];
}

DEV void barrier(SR_HERE) {
    simt::block_barrier({file, line});
}
DEV void warp_barrier(SR_HERE) {
    simt::collect(&simt::warp_barrier_op, nullptr, {file, line});
}
template <class T> T shuffle_xor(T v, int mask, SR_HERE) {
    return simt::exchange(&simt::shuffle_xor_op, v, mask, {file, line});
}
template <class T> T shuffle(T v, int from, SR_HERE) {
    return simt::exchange(&simt::shuffle_op, v, from, {file, line});
}
template <class T> T shuffle_down(T v, int n, SR_HERE) {
    return simt::exchange(&simt::shuffle_down_op, v, n, {file, line});
}
DEV uint32_t vote(bool x, SR_HERE) {
    simt::vote_args args = {0, x};
    simt::collect(&simt::vote_op, &args, {file, line});
    return args.result;
}

template <class T> shared<T> shared_at(int byte_offset, int count, SR_HERE) {
    uint32_t low = (uint32_t)byte_offset, high = low + (uint32_t)count * (uint32_t)sizeof(T);
    if (high > simt::mc->shared_bytes)
        simt::stop({file, line}, "shared memory of %u bytes is smaller than the array at %u to %u",
                   simt::mc->shared_bytes, low, high);
    simt::aligned(low, alignof(T), {file, line});
    return {low, low, high};
}

template <class U, class T> global<U> recast(const global<T> &g) {
    return {(U *)g.p, g.low, g.high};
}
template <class U, class T> global<const U> recast(const global<const T> &g) {
    return {(const U *)g.p, g.low, g.high, g.unwritten};
}

/* Vectors, from and to device memory or shared memory. */
#define SR_VECTORS(name, V)                                                                        \
    template <class T> V load##name(const global<T> &g, size_t i, SR_HERE) {                       \
        global<const typename simt::plain<T>::type> c = g;                                         \
        return simt::load<V>(c, i, {file, line});                                                  \
    }                                                                                              \
    template <class T> V load##name(const shared<T> &s, size_t i, SR_HERE) {                       \
        return simt::load<V>(s, i, {file, line});                                                  \
    }                                                                                              \
    template <class T> void store##name(const global<T> &g, size_t i, V v, SR_HERE) {              \
        simt::store<V>(g, i, v, {file, line});                                                     \
    }                                                                                              \
    template <class T> void store##name(const shared<T> &s, size_t i, V v, SR_HERE) {              \
        simt::store<V>(s, i, v, {file, line});                                                     \
    }
SR_VECTORS(16, vec16)
SR_VECTORS(8, vec8)
SR_VECTORS(4, uint32_t)

template <class T, class F>
void cp_async16(const shared<T> &to, const global<F> &from, bool valid, SR_HERE) {
    global<const typename simt::plain<F>::type> source = from;
    uint32_t at = to.at(0, 16, {file, line});
    simt::aligned(at, 16, {file, line});
    if (valid) simt::aligned((uintptr_t)source.p, 16, {file, line});
    simt::copy_begin(at, valid ? source.at(0, 16, {file, line}) : nullptr, source.unwritten,
                     {file, line});
}
DEV void cp_commit() {
    simt::copy_commit();
}
template <int N> void cp_wait() {
    simt::copy_wait(N);
}

template <class T> void ldmatrix4(uint32_t (&r)[4], const shared<T> &row, SR_HERE) {
    simt::ldmatrix_args args = {r, row.at(0, 16, {file, line}), {file, line}};
    simt::collect(&simt::ldmatrix_op, &args, {file, line});
}
template <class T> void ldmatrix4_trans(uint32_t (&r)[4], const shared<T> &row, SR_HERE) {
    simt::ldmatrix_args args = {r, row.at(0, 16, {file, line}), {file, line}};
    simt::collect(&simt::ldmatrix_trans_op, &args, {file, line});
}
DEV void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, SR_HERE) {
    simt::mma_args args = {c, a, {b0, b1}};
    simt::collect(&simt::mma_bf16_op, &args, {file, line});
}

DEV uint32_t mulhi(uint32_t a, uint32_t b) {
    return (uint32_t)((uint64_t)a * b >> 32);
}
DEV uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
DEV float bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
DEV uint32_t round_bf16(float x) {
    uint32_t bits = float_bits(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFFu;
    return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
}
DEV int again(int x) {
    return x;
}
DEV int kept(int x) {
    return x;
}
DEV uint32_t sign_halves(uint32_t x, int pair) {
    const uint32_t two = x >> 16 * pair;
    return (two >> 7 & 1) * 0xFFFFu | (two >> 15 & 1) * 0xFFFF0000u;
}
DEV uint32_t pack2_bf16(float low, float high) {
    return round_bf16(low) | round_bf16(high) << 16;
}
DEV double exact_add(double a, double b) {
    return a + b;
}
DEV double exact_mul(double a, double b) {
    return a * b;
}
DEV float exp2_fast(float x) {
    return exp2f(x);
}
DEV float log2_fast(float x) {
    return log2f(x);
}
DEV float rcp_fast(float x) {
    return 1.0f / x;
}
DEV void fault(fault_at at, fault_code code, size_t row, int64_t value, int64_t limit) {
    simt::record_fault(at, code, row, value, limit);
}
