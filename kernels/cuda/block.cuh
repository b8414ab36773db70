/* block.cuh - reductions over the threads of a block, in an order that depends on its size only. */
#ifndef SR_CUDA_BLOCK_CUH
#define SR_CUDA_BLOCK_CUH

#include "kernels/cuda/prim.cuh"

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

#endif
