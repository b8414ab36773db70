/* embed.cu - sum of up to three embeddings, norm, dropout; the gradients of the tables.
 *
 * Shapes    ids, types, positions (T), word (V, H), position (S, H), type (kinds, H) f32 or bf16,
 *           sum, y (T, H)
 * Traffic   forward reads a row of each table (position and type rows stay in the cache) and writes
 *           two: 6 T H bytes in bf16; backward reads dy and sum, writes and reads the gradient of
 *           the sum in f32, and reads and writes each row of a table that occurs once.
 * Order     rows with the same id, position or type are added in the order of the batch
 *           (sums.cu), so bits depend on the batch alone.
 * Numerics  f32; slack is zero.
 */
#include "kernels/cuda/drop.cuh"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/sums.h"

enum { SCRATCH_DSUM = 0, SCRATCH_KEYS = 1 };

namespace {

/* NULL: sum, rstd and gamma without a norm; mean in an RMS norm; types for zeros, and the tables
 * and beta that do not exist. */
template <class T> struct embed_forward {
    global<T> y, sum;
    global<float> mean, rstd;
    global<const int32_t> ids, types, positions;
    global<const T> word, position, type;
    global<const float> gamma, beta;
    drop_rows drop;
    int rows, columns, warps, word_rows, position_rows, type_rows;
    float eps;
    fault_at faults;
};

} // namespace

namespace {

/* The rows of the tables that a token adds. */
struct embed_indices {
    int id, position, type;
};

} // namespace

template <class T> DEV embed_indices embed_find(const embed_forward<T> &a, int row) {
    return {a.ids[row], a.positions[row], a.types ? (int)a.types[row] : 0};
}

/* True if the indices of a row of a sequence are within their tables; else `first` reports it. */
template <class T>
DEV bool embed_check(const embed_forward<T> &a, const embed_indices &at, int row, bool first) {
    bool known = at.id >= 0 && at.id < a.word_rows;
    bool fits = !a.type || (at.type >= 0 && at.type < a.type_rows);
    bool inside = !a.position || (at.position >= 0 && at.position < a.position_rows);
    if (!known && first) fault(a.faults, FAULT_EMBED_ID, (size_t)row, at.id, a.word_rows);
    if (!fits && first) fault(a.faults, FAULT_EMBED_TYPE, (size_t)row, at.type, a.type_rows);
    if (!inside && first)
        fault(a.faults, FAULT_EMBED_POSITION, (size_t)row, at.position, a.position_rows);
    return known && fits && inside;
}

/* v += a row of the table, if there is one */
template <bool VECTOR, class T>
DEV void embed_add_row(float (&v)[EIGHT], global<const T> table, int row, int columns, int column,
                       int left) {
    float x[EIGHT];
    if (!table) return;
    read8<VECTOR>(x, table, (size_t)row * columns + column, left);
    for (int i = 0; i < EIGHT; i++) v[i] += x[i];
}

/* v = word + position + type */
template <bool VECTOR, class T>
DEV void embed_read(float (&v)[EIGHT], const embed_forward<T> &a, const embed_indices &at,
                    int column, int left) {
    read8<VECTOR>(v, a.word, (size_t)at.id * a.columns + column, left);
    embed_add_row<VECTOR>(v, a.position, at.position, a.columns, column, left);
    embed_add_row<VECTOR>(v, a.type, at.type, a.columns, column, left);
}

template <class T, bool VECTOR, int RUNS>
KERNEL(TEAM_THREADS, RUNS == 1 ? 2 : 1)
void embed_rows(embed_forward<T> a) {
    team t = team_of(a.warps);
    shared<float> room = shared_at<float>(0, NORM_ROOM);
    int each = DROP_WORDS(a.columns), row = block_x() * t.count + t.index;
    shared<uint32_t> words = shared_at<uint32_t>(NORM_ROOM_BYTES, t.count * each) + t.index * each;
    int owner = row < a.rows ? a.drop.owner[row] : -1;
    embed_indices at = {};
    if (owner >= 0) at = embed_find(a, row);
    bool live = owner >= 0 && embed_check(a, at, row, t.rank == 0);
    float v[RUNS][EIGHT] = {};
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = row < a.rows ? a.columns - column : 0;
        if (live && left > 0) embed_read<VECTOR>(v[k], a, at, column, left);
        if (a.sum) write8<VECTOR>(a.sum, (size_t)row * a.columns + column, v[k], left);
    }
    if (drops(a.drop) && live) drop_draw_row(words, a.drop, row, owner, t, a.columns);
    if (drops(a.drop)) barrier();
    row_stats s = {0.0f, 0.0f};
    if (a.gamma) s = norm_stats(v, t, a.columns, a.eps, !a.mean, room);
    if (row >= a.rows) return;
    if (t.rank == 0 && a.mean) a.mean[row] = live ? s.mean : 0.0f;
    if (t.rank == 0 && a.rstd) a.rstd[row] = live ? s.rstd : 0.0f;
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = a.columns - column;
        if (left <= 0) continue;
        if (live && a.gamma) norm_apply<VECTOR>(v[k], s, a.gamma, a.beta, column, left);
        if (live && drops(a.drop)) drop_apply(v[k], words, a.drop, column);
        write8<VECTOR>(a.y, (size_t)row * a.columns + column, v[k], left);
    }
}

template <class T, bool VECTOR, int RUNS>
static sr_status launch_embed(gpu *g, const embed_forward<T> &a, const norm_shape &s) {
    return launch(g, "embed", embed_rows<T, VECTOR, RUNS>, dim(ceil_div(a.rows, s.teams)),
                  s.threads, NORM_ROOM_BYTES + s.words_bytes, a);
}

static int rows_of(const sr_tensor *table) {
    return table != nullptr ? (int)table->shape[0] : 0;
}

template <class T>
static sr_status embed(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                       const sr_tensor *ids, const sr_tensor *types, const sr_tensor *positions,
                       const sr_tensor *word, const sr_tensor *position, const sr_tensor *type,
                       const sr_tensor *gamma, const sr_tensor *beta, const drop_rows &drop,
                       double eps) {
    const sr_tensor *all[] = {y, sum, word, position, type, gamma, beta};
    int64_t columns = word->shape[1];
    gpu *g = gpu_of(y);
    norm_shape s = {};
    SR_TRY(norm_shape_of(&s, "embed", columns, all_in_vectors(all, 7, columns)));
    embed_forward<T> a = {};
    a.y = out<T>(y), a.sum = out<T>(sum), a.mean = out<float>(mean), a.rstd = out<float>(rstd);
    a.ids = in<int32_t>(ids), a.types = in<int32_t>(types);
    a.positions = positions != nullptr ? in<int32_t>(positions) : drop.position;
    a.word = in<T>(word), a.position = in<T>(position), a.type = in<T>(type);
    a.gamma = in<float>(gamma), a.beta = in<float>(beta);
    a.drop = drop;
    a.rows = (int)y->shape[0], a.columns = (int)columns, a.warps = s.warps;
    a.word_rows = rows_of(word), a.position_rows = rows_of(position), a.type_rows = rows_of(type);
    a.eps = (float)eps, a.faults = faults(g);
    return s.fast ? launch_embed<T, true, 1>(g, a, s) : launch_embed<T, false, NORM_RUNS>(g, a, s);
}

sr_status gpu_embed(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                    const sr_tensor *ids, const sr_tensor *types, const sr_tensor *positions,
                    const sr_tensor *word, const sr_tensor *position, const sr_tensor *type,
                    const sr_tensor *gamma, const sr_tensor *beta, const sr_layout *layout,
                    double eps, sr_dropout drop) {
    drop_rows d;
    SR_TRY(drop_rows_of(&d, layout, drop, y->storage->device));
    return (y->dtype == SR_BF16 ? embed<bf16> : embed<float>)(y, sum, mean, rstd, ids, types,
                                                              positions, word, position, type,
                                                              gamma, beta, d, eps);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* keys[r] = index[r] (0 without an index) for rows of sequences, -1 for slack */
KERNEL(256, 4)
void embed_keys(global<int32_t> keys, readonly<int32_t> index, readonly<int32_t> owner, int rows) {
    for (int r = block_x() * threads() + thread(); r < rows; r += blocks_x() * threads())
        keys[r] = owner[r] < 0 ? -1 : index ? (int)index[r] : 0;
}

/* table[index[r]] += dsum[r], row 0 without an index; nothing without a table */
static sr_status add_rows(gpu *g, sr_tensor *table, global<const int32_t> index,
                          const drop_rows &drop, global<const float> dsum, int rows) {
    if (table == nullptr) return SR_OK;
    int columns = (int)table->shape[1], limit = (int)table->shape[0];
    global<int32_t> keys, order, sorted;
    SR_TRY(scratch(&keys, g, SCRATCH_KEYS, (size_t)rows));
    SR_TRY(launch(g, "embed", embed_keys, dim(ceil_div(rows, 256)), 256, 0, keys, index, drop.owner,
                  rows));
    SR_TRY(order_keys(&order, &sorted, g, keys, 1, rows, limit));
    segment_list list = {out<float>(table), dsum,  order,   sorted, nullptr,
                         (size_t)rows,      limit, columns, 0};
    return add_segments(g, "embed", list, in_vectors(sr_tensor_data(table), columns));
}

template <class T>
static sr_status dsum_of(global<float> dsum, sr_tensor *dgamma, sr_tensor *dbeta,
                         const sr_tensor *dy, const sr_tensor *sum, const sr_tensor *gamma,
                         const sr_tensor *mean, const sr_tensor *rstd, const drop_rows &drop) {
    const sr_tensor *all[] = {dy, sum, gamma};
    norm_back<T, float> a = {};
    a.dsum = dsum, a.dy = in<T>(dy), a.sum = in<T>(sum);
    a.gamma = in<float>(gamma), a.mean = in<float>(mean), a.rstd = in<float>(rstd);
    a.drop = drop;
    a.rows = (int)dy->shape[0], a.columns = (int)dy->shape[1];
    return run_norm_back<T, float, true>(gpu_of(dy), "embed", a, dgamma, dbeta, nullptr,
                                         all_in_vectors(all, 3, dy->shape[1]));
}

sr_status gpu_embed_backward(sr_tensor *dword, sr_tensor *dposition, sr_tensor *dtype,
                             sr_tensor *dgamma, sr_tensor *dbeta, const sr_tensor *dy,
                             const sr_tensor *ids, const sr_tensor *types,
                             const sr_tensor *positions, const sr_tensor *sum,
                             const sr_tensor *gamma, const sr_tensor *mean, const sr_tensor *rstd,
                             const sr_layout *layout, sr_dropout drop) {
    gpu *g = gpu_of(dy);
    int rows = (int)dy->shape[0];
    drop_rows d;
    global<float> dsum;
    if (rows == 0) return SR_OK;
    SR_TRY(drop_rows_of(&d, layout, drop, g->device));
    SR_TRY(scratch(&dsum, g, SCRATCH_DSUM, (size_t)rows * (size_t)dy->shape[1]));
    if (gamma == nullptr)
        SR_TRY(dropped_rows(dsum, "embed", dy, d));
    else
        SR_TRY((dy->dtype == SR_BF16 ? dsum_of<bf16> : dsum_of<float>)(dsum, dgamma, dbeta, dy, sum,
                                                                       gamma, mean, rstd, d));
    SR_TRY(add_rows(g, dword, in<int32_t>(ids), d, dsum, rows));
    global<const int32_t> at = positions != nullptr ? in<int32_t>(positions) : d.position;
    SR_TRY(add_rows(g, dposition, at, d, dsum, rows));
    return add_rows(g, dtype, in<int32_t>(types), d, dsum, rows);
}
