/* team.cuh - the warps of a block that share a row.
 *
 * A block is cut into teams of as many warps as a row needs, one row each, and a thread owns the
 * runs of eight columns that begin at 8 (rank + k size).  All teams of a block go through the same
 * barriers.  Sums are taken in a fixed order, so they do not depend on which block has the row.
 */
#ifndef SR_CUDA_TEAM_CUH
#define SR_CUDA_TEAM_CUH

#include "kernels/cuda/eight.cuh"

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

/* ---- host ------------------------------------------------------------------------------------ */

/* Warps that a row of `columns` needs when a thread owns `runs` runs of eight. */
static inline int team_warps(int64_t columns, int runs) {
    int64_t warps = (columns + 32 * EIGHT * runs - 1) / (32 * EIGHT * runs);
    return warps < 1 ? 1 : (int)warps;
}

/* Threads of a block: as many teams as fit. */
static inline int team_block(int warps) {
    return TEAM_WARPS / warps * warps * 32;
}

#endif
