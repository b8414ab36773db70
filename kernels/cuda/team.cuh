/* team.cuh - how the threads of a block share rows.
 *
 * A thread of a row-wise kernel owns columns in runs of eight: 16 bytes of bf16, 32 of f32.  Rows
 * that are aligned to 16 bytes and a multiple of eight columns long (VECTOR) move in vectors,
 * others value by value.
 *
 * A block is cut into teams of as many warps as a row needs, one row each, and a thread owns the
 * runs of eight columns that begin at 8 (rank + k size).  All teams of a block go through the same
 * barriers.  Sums are taken in a fixed order, so they do not depend on which block has the row;
 * reductions over a whole block take an order that depends on its size only.
 */
#pragma once

#include "kernels/cuda/prim.cuh"

/* ---- eight columns --------------------------------------------------------------------------- */

enum { EIGHT = 8 };

DEV void read8_vector(float (&v)[EIGHT], global<const bf16> x, size_t at) {
    unpack(v, load16(x, at));
}
DEV void read8_vector(float (&v)[EIGHT], global<const float> x, size_t at) {
    vec16 a = load16(x, at), b = load16(x, at + 4);
    for (int i = 0; i < 4; i++) {
        v[i] = bits_float(a.w[i]);
        v[i + 4] = bits_float(b.w[i]);
    }
}
DEV void write8_vector(global<bf16> y, size_t at, const float (&v)[EIGHT]) {
    store16(y, at, pack(v));
}
DEV void write8_vector(global<float> y, size_t at, const float (&v)[EIGHT]) {
    vec16 a, b;
    for (int i = 0; i < 4; i++) {
        a.w[i] = float_bits(v[i]);
        b.w[i] = float_bits(v[i + 4]);
    }
    store16(y, at, a);
    store16(y, at + 4, b);
}

/* v = x[at .. at + 7], of which the row has `left`; zeros beyond. */
template <bool VECTOR, class T>
DEV void read8(float (&v)[EIGHT], global<const T> x, size_t at, int left) {
    for (int i = 0; i < EIGHT; i++) v[i] = 0.0f;
    if (VECTOR && left > 0) read8_vector(v, x, at);
    for (int i = 0; !VECTOR && i < EIGHT; i++)
        if (i < left) v[i] = to_float(x[at + i]);
}

/* y[at .. at + 7] = v, no further than `left`. */
template <bool VECTOR, class T>
DEV void write8(global<T> y, size_t at, const float (&v)[EIGHT], int left) {
    if (VECTOR && left > 0) write8_vector(y, at, v);
    for (int i = 0; !VECTOR && i < EIGHT; i++)
        if (i < left) y[at + i] = from_float<T>(v[i]);
}

DEV void zero8(float (&v)[EIGHT]) {
    for (int i = 0; i < EIGHT; i++) v[i] = 0.0f;
}

/* ---- the warps that share a row -------------------------------------------------------------- */

enum { TEAM_THREADS = 512, TEAM_WARPS = TEAM_THREADS / 32 }; /* of a block at most */

struct team {
    int warps, size; /* of a team */
    int index, rank,
        count; /* this team in the block, this thread in the team, teams of the block */
};

DEV team team_of(int warps_each) {
    team t;
    t.warps = warps_each;
    t.size = warps_each * 32;
    t.index = thread() / t.size;
    t.rank = thread() - t.index * t.size;
    t.count = threads() / t.size;
    return t;
}

/* First column of run k of this thread. */
DEV int team_column(const team &t, int k) {
    return (k * t.size + t.rank) * EIGHT;
}

/* The sum over a team; `room`: a float for each warp of the block, not in use elsewhere until all
 * threads have passed another barrier. */
DEV float team_sum(const team &t, float x, shared<float> room) {
    x = warp_sum(x);
    if (t.warps == 1) return x;
    if (lane() == 0) room[warp()] = x;
    barrier();
    return warp_sum(lane() < t.warps ? room[t.index * t.warps + lane()] : 0.0f);
}

/* Two sums at the price of one; `room` is twice as large. */
DEV void team_sum2(const team &t, float &a, float &b, shared<float> room) {
    a = warp_sum(a);
    b = warp_sum(b);
    if (t.warps == 1) return;
    if (lane() == 0) {
        room[2 * warp()] = a;
        room[2 * warp() + 1] = b;
    }
    barrier();
    int from = 2 * (t.index * t.warps + lane());
    a = warp_sum(lane() < t.warps ? room[from] : 0.0f);
    b = warp_sum(lane() < t.warps ? room[from + 1] : 0.0f);
}

/* Warps that a row of `columns` needs when a thread owns `runs` runs of eight. */
static inline int team_warps(int64_t columns, int runs) {
    int64_t warps = (columns + 32 * EIGHT * runs - 1) / (32 * EIGHT * runs);
    return warps < 1 ? 1 : (int)warps;
}

/* Threads of a block: as many teams as fit in `most` warps, at least one. */
static inline int team_block(int warps, int most = TEAM_WARPS) {
    return (warps < most ? most / warps : 1) * warps * 32;
}

/* ---- a block --------------------------------------------------------------------------------- */

/* Joins slots [first, first + count) of `room` into the first of them, for all groups of `count`
 * slots at once; count is a power of 2 and every thread of the block has filled its slot. */
template <class A, class Join> DEV void join_slots(shared<A> room, int slot, int count, Join join) {
    for (int half = count / 2; half > 0; half /= 2) {
        barrier();
        if (slot % count < half) {
            A a = room[slot], b = room[slot + half];
            join(a, b);
            room[slot] = a;
        }
    }
    barrier();
}

/* The join of every thread's value, for all of them; `room` has a slot per thread. */
template <class A, class Join> DEV A join_block(shared<A> room, A mine, Join join) {
    room[thread()] = mine;
    join_slots(room, thread(), threads(), join);
    A all = room[0];
    barrier();
    return all;
}

struct add_f64 {
    DEV void operator()(double &a, double b) const {
        a += b;
    }
};

struct greater_f32 { /* NaN wins */
    DEV void operator()(float &a, float b) const {
        if (b > a || b != b) a = b;
    }
};
