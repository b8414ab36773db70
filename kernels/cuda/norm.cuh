/* norm.cuh - layer or RMS norm of rows that teams hold in registers, and back; for norm.cu and
 * embed.cu.
 *
 * RUNS is how many runs of eight columns a thread owns: one for the hidden sizes that matter, more
 * for longer rows and for rows that are not aligned.
 *
 * Backward, with g = dy gamma and hat = (sum - mean) rstd:
 *   dsum = rstd (g - mean(g) - hat mean(g hat)) + more, dx = dropout(dsum)
 *   dgamma += dy hat, dbeta += dy, dbias += dx
 * `more` is a gradient of the sum from elsewhere, if any.  An RMS norm has no mean and no mean(g).
 * At most NORM_PARTS blocks walk over the rows, each team with a row of its own, and leave a part
 * of dgamma, dbeta and dbias each (sums.h).  The sums of dbias are in shared memory, as the
 * registers are full; where rows are not in vectors, they are a pass of their own.
 */
#pragma once

#include "kernels/cuda/activation.h"
#include "kernels/cuda/sums.h"
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

static inline sr_status norm_shape_of(norm_shape *s, const char *op, int64_t columns, bool vectors,
                                      int most = TEAM_WARPS) {
    if (columns > NORM_COLUMNS)
        return sr_fail(SR_EINVAL, "%s: rows have %lld columns; this device takes up to %d", op,
                       (long long)columns, (int)NORM_COLUMNS);
    s->fast = vectors && columns <= TEAM_THREADS * EIGHT;
    s->warps = team_warps(columns, s->fast ? 1 : NORM_RUNS);
    s->threads = team_block(s->warps, most);
    s->teams = s->threads / 32 / s->warps;
    s->words_bytes = (size_t)s->teams * DROP_WORDS((size_t)columns) * sizeof(uint32_t);
    return SR_OK;
}

/* ---- backward -------------------------------------------------------------------------------- */

enum { NORM_PARTS = 264 };

/* D is what dsum is stored as. */
template <class T, class D> struct norm_back {
    global<T> dx;          /* or NULL */
    global<D> dsum;        /* or NULL */
    global<float> partial; /* (parts, 2 or 3, columns), or NULL */
    global<const T> dy, sum;
    global<const T> more;            /* or NULL */
    global<const float> gamma, mean; /* mean: NULL for an RMS norm */
    global<const float> rstd;
    drop_rows drop;
    int rows, columns, warps;
    int bias_at; /* byte of shared memory where the teams' sums of dx begin; 0: not wanted */
};

/* A thread's part of a row.  Its owner is -1 for slack and -2 beyond the batch. */
template <int RUNS> struct norm_row {
    float g[RUNS][EIGHT], hat[RUNS][EIGHT];
    row_stats stats;
    int row, owner;
};

template <bool VECTOR, int RUNS, class T, class D>
DEV void norm_back_read(norm_row<RUNS> &r, const norm_back<T, D> &a, const team &t, int row) {
    r.row = row;
    r.owner = row >= a.rows ? -2 : a.drop.owner ? a.drop.owner[row] : 0;
    r.stats = {0.0f, 0.0f};
    if (r.owner >= 0) r.stats = {a.mean ? a.mean[row] : 0.0f, a.rstd[row]};
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = r.owner >= 0 ? a.columns - column : 0;
        size_t at = (size_t)row * a.columns + column;
        read8<VECTOR>(r.g[k], a.dy, at, left);
        read8<VECTOR>(r.hat[k], a.sum, at, left);
    }
}

/* What a thread has summed of its columns. */
template <int RUNS> struct norm_sums { float dgamma[RUNS][EIGHT], dbeta[RUNS][EIGHT]; };

/* dy becomes g, sum becomes hat; g_sum and gh_sum are the thread's. */
template <bool VECTOR, int RUNS, class T, class D>
DEV void norm_back_add(norm_row<RUNS> &r, norm_sums<RUNS> &s, const norm_back<T, D> &a,
                       const team &t, float &g_sum, float &gh_sum) {
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k);
        float gamma[EIGHT]; /* from the cache: registers are short */
        read8<VECTOR>(gamma, a.gamma, (size_t)column, a.columns - column);
        for (int i = 0; i < EIGHT; i++) {
            float dy = r.g[k][i], hat = (r.hat[k][i] - r.stats.mean) * r.stats.rstd;
            s.dbeta[k][i] += dy;
            s.dgamma[k][i] += dy * hat;
            r.g[k][i] = dy * gamma[i];
            r.hat[k][i] = hat;
            g_sum += r.g[k][i];
            gh_sum += r.g[k][i] * hat;
        }
    }
}

/* ---- sums of dx over the rows of a team, in shared memory at `bias`: of rows in vectors -------
 */

/* Each thread has its columns; the halves of a run are apart, so that no bank is met twice. */
DEV size_t norm_half(int column, int half, int columns) {
    return (size_t)(half * columns + column) / 2;
}

DEV void norm_bias_clear(shared<float> bias, int column, int columns) {
    for (int h = 0; h < 2; h++)
        if (column < columns) store16(bias, norm_half(column, h, columns), vec16{});
}

/* bias += v */
DEV void norm_bias_add(shared<float> bias, const float (&v)[EIGHT], int column, int columns) {
    for (int h = 0; h < 2; h++) {
        float sum[4];
        unpack(sum, load16(bias, norm_half(column, h, columns)));
        for (int i = 0; i < 4; i++) sum[i] += v[4 * h + i];
        store16(bias, norm_half(column, h, columns), pack(sum));
    }
}

/* The sums of all teams, in order; after a barrier. */
DEV void norm_bias_part(global<float> part, shared<float> bias, const team &t, int columns) {
    for (int c = 4 * thread(); c < columns; c += 4 * threads()) {
        const size_t at = norm_half(c & ~7, c >> 2 & 1, columns);
        float sum[4], more[4];
        unpack(sum, load16(bias, at));
        for (int i = 1; i < t.count; i++) {
            unpack(more, load16(bias + i * columns, at));
            for (int e = 0; e < 4; e++) sum[e] += more[e];
        }
        store16(part, (size_t)c, pack(sum));
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

template <bool VECTOR, int RUNS, class T, class D>
DEV void norm_back_write(norm_row<RUNS> &r, const norm_back<T, D> &a, const team &t, float g_mean,
                         float gh_mean, shared<uint32_t> words, shared<float> bias, bool drop) {
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = a.columns - column;
        if (left <= 0) continue;
        size_t at = (size_t)r.row * a.columns + column;
        for (int i = 0; i < EIGHT; i++)
            r.g[k][i] = r.stats.rstd * (r.g[k][i] - g_mean - r.hat[k][i] * gh_mean);
        if (a.more && r.owner >= 0) {
            float more[EIGHT];
            read8<VECTOR>(more, a.more, at, left);
            for (int i = 0; i < EIGHT; i++) r.g[k][i] += more[i];
        }
        if (a.dsum) write8<VECTOR>(a.dsum, at, r.g[k], left);
        if (drop) drop_apply(r.g[k], words, a.drop, column);
        if (a.dx) write8<VECTOR>(a.dx, at, r.g[k], left);
        if (VECTOR && a.bias_at > 0) norm_bias_add(bias, r.g[k], column, a.columns);
    }
}

/* The teams of a block add their sums in order into the block's part. */
template <int RUNS>
DEV void norm_back_part(global<float> part, const norm_sums<RUNS> &s, const team &t, int columns) {
    shared<float> room = shared_at<float>(0, 2 * columns);
    for (int turn = 0; turn < t.count; turn++) {
        barrier();
        for (int k = 0; k < RUNS && t.index == turn; k++)
            for (int i = 0; i < EIGHT; i++) {
                int c = team_column(t, k) + i;
                if (c >= columns) continue;
                room[c] = turn > 0 ? room[c] + s.dgamma[k][i] : s.dgamma[k][i];
                room[columns + c] = turn > 0 ? room[columns + c] + s.dbeta[k][i] : s.dbeta[k][i];
            }
    }
    barrier();
    for (int c = thread(); c < 2 * columns; c += threads()) part[c] = room[c];
}

/* AFTER: the dropout follows the norm (embed), so it applies to dy and not to dx. */
template <class T, class D, bool AFTER, bool VECTOR, int RUNS>
KERNEL(TEAM_THREADS, RUNS == 1 ? 2 : 1)
void norm_back_rows(norm_back<T, D> a) {
    team t = team_of(a.warps);
    int each = DROP_WORDS(a.columns), parity = 0;
    shared<float> room = shared_at<float>(0, NORM_ROOM);
    shared<uint32_t> words = shared_at<uint32_t>(NORM_ROOM_BYTES, 2 * t.count * each);
    shared<float> bias = shared_at<float>(a.bias_at, a.bias_at > 0 ? t.count * a.columns : 0);
    norm_sums<RUNS> sums = {};
    bool sums_bias = VECTOR && !AFTER && a.bias_at > 0;
    if (sums_bias) norm_bias_clear(bias + t.index * a.columns, team_column(t, 0), a.columns);
    /* Rooms alternate: some threads still read this row's when others write the next row's. */
    for (int first = block_x() * t.count; first < a.rows;
         first += blocks_x() * t.count, parity ^= 1) {
        norm_row<RUNS> r;
        norm_back_read<VECTOR>(r, a, t, first + t.index);
        shared<uint32_t> mine = words + (parity * t.count + t.index) * each;
        bool drop = drops(a.drop) && r.owner >= 0;
        if (drop) drop_draw_row(mine, a.drop, r.row, r.owner, t, a.columns);
        if (drops(a.drop)) barrier();
        for (int k = 0; AFTER && k < RUNS; k++)
            if (drop && team_column(t, k) < a.columns)
                drop_apply(r.g[k], mine, a.drop, team_column(t, k));
        float g_mean = 0.0f, gh_mean = 0.0f;
        norm_back_add<VECTOR>(r, sums, a, t, g_mean, gh_mean);
        team_sum2(t, g_mean, gh_mean, room + parity * 2 * TEAM_WARPS);
        g_mean = a.mean ? g_mean / (float)a.columns : 0.0f;
        if (r.owner >= -1)
            norm_back_write<VECTOR>(r, a, t, g_mean, gh_mean / (float)a.columns, mine,
                                    bias + t.index * a.columns, !AFTER && drop);
    }
    if (!a.partial) return;
    size_t stride = (size_t)(sums_bias ? 3 : 2) * a.columns;
    global<float> part = a.partial + block_x() * stride;
    norm_back_part(part, sums, t, a.columns);
    if (sums_bias) norm_bias_part(part + 2 * a.columns, bias, t, a.columns);
}

/* ---- host ------------------------------------------------------------------------------------ */

template <class T, class D, bool AFTER, bool VECTOR, int RUNS>
static sr_status launch_norm_back(gpu *g, const char *op, norm_back<T, D> a, const norm_shape &s,
                                  int parts) {
    size_t room = NORM_ROOM_BYTES + 2 * s.words_bytes, sums = 2 * sizeof(float) * a.columns;
    if (room < sums) room = sums;
    if (a.bias_at > 0) {
        a.bias_at = (int)((room + 15) / 16 * 16);
        room = a.bias_at + (size_t)s.teams * a.columns * sizeof(float);
    }
    return launch(g, op, norm_back_rows<T, D, AFTER, VECTOR, RUNS>, dim(parts), s.threads, room, a);
}

/* Fills in partial, warps and bias_at, and adds to dgamma, dbeta and dbias, which may be NULL. */
template <class T, class D, bool AFTER>
static sr_status run_norm_back(gpu *g, const char *op, norm_back<T, D> a, sr_tensor *dgamma,
                               sr_tensor *dbeta, sr_tensor *dbias, bool vectors) {
    norm_shape s = {};
    SR_TRY(norm_shape_of(&s, op, a.columns, vectors));
    a.warps = s.warps;
    a.bias_at = dbias != nullptr && s.fast;
    int parts = parts_of(a.rows, s.teams, NORM_PARTS), stride = (2 + a.bias_at) * a.columns;
    if (dgamma != nullptr || dbeta != nullptr || a.bias_at > 0)
        SR_TRY(scratch(&a.partial, g, SCRATCH_PARTS, (size_t)parts * stride));
    if (s.fast)
        SR_TRY((launch_norm_back<T, D, AFTER, true, 1>(g, op, a, s, parts)));
    else
        SR_TRY((launch_norm_back<T, D, AFTER, false, NORM_RUNS>(g, op, a, s, parts)));
    part_sums sums = {
        {out<float>(dgamma), out<float>(dbeta)}, a.partial, nullptr, parts, a.columns, stride};
    if (a.bias_at > 0) sums.out[2] = out<float>(dbias);
    SR_TRY(add_parts(g, op, &sums));
    if (dbias == nullptr || a.bias_at > 0) return SR_OK;
    const void *dx = a.dx ? (const void *)raw(a.dx) : (const void *)raw(a.dsum);
    return add_columns(g, op, SR_DATA(float, dbias), dx, nullptr, sizeof(T) == 2 ? SR_BF16 : SR_F32,
                       a.rows, a.columns, a.columns);
}
