/* norm.cuh - layer or RMS norm of rows that teams hold in registers; for norm.cu and embed.cu.
 *
 * RUNS is how many runs of eight columns a thread owns: one for the hidden sizes that matter, more
 * for longer rows and for rows that are not aligned.
 */
#ifndef SR_CUDA_NORM_CUH
#define SR_CUDA_NORM_CUH

#include "kernels/cuda/columns.h"
#include "kernels/cuda/drop.cuh"

enum { NORM_ROOM = 4 * TEAM_WARPS, NORM_ROOM_BYTES = NORM_ROOM * 4 }; /* floats for team sums */
enum { NORM_RUNS = 2, NORM_COLUMNS = TEAM_THREADS * EIGHT * NORM_RUNS };

struct row_stats {
    float mean, rstd;
};

/* Statistics of a row whose values beyond `columns` are zero; two passes.  rms: the mean is 0. */
template <int RUNS>
DEV row_stats norm_stats(const float (&v)[RUNS][EIGHT], const team &t, int columns, float eps,
                         bool rms, shared<float> room) {
    row_stats s;
    float total = 0.0f, squares = 0.0f;
    for (int k = 0; k < RUNS; k++)
        for (int i = 0; i < EIGHT; i++) total += v[k][i];
    s.mean = rms ? 0.0f : team_sum(t, total, room) / (float)columns;
    for (int k = 0; k < RUNS; k++)
        for (int i = 0; i < EIGHT; i++) {
            float d = v[k][i] - s.mean;
            if (team_column(t, k) + i < columns) squares += d * d;
        }
    float variance = team_sum(t, squares, room + TEAM_WARPS) / (float)columns + eps;
    s.rstd = variance == 0.0f ? 0.0f : 1.0f / math_sqrt(variance); /* ref/norm.c: NaN stays NaN */
    return s;
}

/* v = (v - mean) rstd gamma + beta for the run at `column`; beta may be NULL. */
template <bool VECTOR>
DEV void norm_apply(float (&v)[EIGHT], const row_stats &s, global<const float> gamma,
                    global<const float> beta, int column, int left) {
    float g[EIGHT], b[EIGHT];
    read8<VECTOR>(g, gamma, (size_t)column, left);
    zero8(b);
    if (beta) read8<VECTOR>(b, beta, (size_t)column, left);
    for (int i = 0; i < EIGHT; i++) v[i] = (v[i] - s.mean) * s.rstd * g[i] + b[i];
}

/* ---- host ------------------------------------------------------------------------------------ */

/* How a row-wise kernel of `op` is launched: the fast one takes rows in vectors, one run per
 * thread.  SR_EINVAL: rows are too long. */
struct norm_shape {
    bool fast;
    int warps, threads, teams; /* of a team; of a block */
    size_t words_bytes;        /* of the dropout words of a block's rows */
};

static inline sr_status norm_shape_of(norm_shape *s, const char *op, int64_t columns,
                                      bool vectors) {
    if (columns > NORM_COLUMNS)
        return sr_fail(SR_EINVAL, "%s: rows have %lld columns; this device takes up to %d", op,
                       (long long)columns, (int)NORM_COLUMNS);
    s->fast = vectors && columns <= TEAM_THREADS * EIGHT;
    s->warps = team_warps(columns, s->fast ? 1 : NORM_RUNS);
    s->threads = team_block(s->warps);
    s->teams = s->threads / 32 / s->warps;
    s->words_bytes = (size_t)s->teams * DROP_WORDS((size_t)columns) * sizeof(uint32_t);
    return SR_OK;
}

#endif
