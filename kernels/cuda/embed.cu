/* embed.cu - sum of three embeddings, layer norm, dropout; the gradients of the tables.
 *
 * Shapes    ids, types (T), word (V, H), position (S, H), type (2, H) f32 or bf16, sum, y (T, H)
 * Traffic   forward reads a row of each table (position and type rows stay in the cache) and writes
 *           two: 6 T H bytes in bf16; backward reads dy and sum, writes and reads the gradient of
 *           the sum in f32, and reads and writes each row of a table that occurs once.
 * Order     rows with the same id, position or type are added in the order of the batch
 *           (segments.cu), so bits depend on the batch alone; with any_order, by atomic additions.
 * Numerics  f32; slack is zero.
 */
#include "kernels/cuda/gpu_ops.h"
#include "kernels/cuda/norm_back.cuh"
#include "kernels/cuda/order.h"
#include "kernels/cuda/segments.h"

enum { SCRATCH_DSUM = 0, SCRATCH_KEYS = 1, ANY_ORDER_ROWS = 16 };

namespace {

template <class T> struct embed_forward {
    global<T> y, sum;
    global<float> mean, rstd;
    global<const int32_t> ids, types;
    global<const T> word, position, type;
    global<const float> gamma, beta;
    drop_rows drop;
    int rows, columns, warps, word_rows, type_rows;
    float eps;
    fault_at faults;
};

} // namespace

/* True if id and type of a row of a sequence are within their tables; else `first` reports it. */
template <class T> DEV bool embed_check(const embed_forward<T> &a, int row, bool first) {
    int id = a.ids[row], type = a.types[row];
    bool known = id >= 0 && id < a.word_rows, fits = type >= 0 && type < a.type_rows;
    if (!known && first) fault(a.faults, FAULT_EMBED_ID, (size_t)row, id, a.word_rows);
    if (!fits && first) fault(a.faults, FAULT_EMBED_TYPE, (size_t)row, type, a.type_rows);
    return known && fits;
}

/* v = word + position + type */
template <bool VECTOR, class T>
DEV void embed_read(float (&v)[EIGHT], const embed_forward<T> &a, int row, int column, int left) {
    float p[EIGHT], k[EIGHT];
    read8<VECTOR>(v, a.word, (size_t)a.ids[row] * a.columns + column, left);
    read8<VECTOR>(p, a.position, (size_t)a.drop.position[row] * a.columns + column, left);
    read8<VECTOR>(k, a.type, (size_t)a.types[row] * a.columns + column, left);
    for (int i = 0; i < EIGHT; i++) v[i] = v[i] + p[i] + k[i];
}

template <class T, bool VECTOR, int RUNS>
KERNEL(TEAM_THREADS, RUNS == 1 ? 2 : 1)
void embed_rows(embed_forward<T> a) {
    team t = team_of(a.warps);
    shared<float> room = shared_at<float>(0, NORM_ROOM);
    int each = DROP_WORDS(a.columns), row = block_x() * t.count + t.index;
    shared<uint32_t> words = shared_at<uint32_t>(NORM_ROOM_BYTES, t.count * each) + t.index * each;
    int owner = row < a.rows ? a.drop.owner[row] : -1;
    bool live = owner >= 0 && embed_check(a, row, t.rank == 0);
    float v[RUNS][EIGHT] = {};
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = row < a.rows ? a.columns - column : 0;
        if (live && left > 0) embed_read<VECTOR>(v[k], a, row, column, left);
        write8<VECTOR>(a.sum, (size_t)row * a.columns + column, v[k], left);
    }
    if (drops(a.drop) && live) drop_draw_row(words, a.drop, row, owner, t, a.columns);
    if (drops(a.drop)) barrier();
    row_stats s = norm_stats(v, t, a.columns, a.eps, room);
    if (row >= a.rows) return;
    if (t.rank == 0) {
        a.mean[row] = live ? s.mean : 0.0f;
        a.rstd[row] = live ? s.rstd : 0.0f;
    }
    for (int k = 0; k < RUNS; k++) {
        int column = team_column(t, k), left = a.columns - column;
        if (left <= 0) continue;
        if (live) norm_apply<VECTOR>(v[k], s, a.gamma, a.beta, column, left);
        if (live && drops(a.drop)) drop_apply(v[k], words, a.drop, column);
        write8<VECTOR>(a.y, (size_t)row * a.columns + column, v[k], left);
    }
}

template <class T, bool VECTOR, int RUNS>
static sr_status launch_embed(gpu *g, const embed_forward<T> &a, const norm_shape &s) {
    return launch(g, "embed", embed_rows<T, VECTOR, RUNS>, dim(ceil_div(a.rows, s.teams)),
                  s.threads, NORM_ROOM_BYTES + s.words_bytes, a);
}

template <class T>
static sr_status embed(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                       const sr_tensor *ids, const sr_tensor *types, const sr_tensor *word,
                       const sr_tensor *position, const sr_tensor *type, const sr_tensor *gamma,
                       const sr_tensor *beta, const drop_rows &drop, double eps) {
    const sr_tensor *all[] = {y, sum, word, position, type, gamma, beta};
    int64_t columns = word->shape[1];
    gpu *g = gpu_of(y);
    norm_shape s = {};
    SR_TRY(norm_shape_of(&s, "embed", columns, all_in_vectors(all, 7, columns)));
    embed_forward<T> a = {
        out<T>(y),           out<T>(sum),        out<float>(mean), out<float>(rstd),
        in<int32_t>(ids),    in<int32_t>(types), in<T>(word),      in<T>(position),
        in<T>(type),         in<float>(gamma),   in<float>(beta),  drop,
        (int)y->shape[0],    (int)columns,       s.warps,          (int)word->shape[0],
        (int)type->shape[0], (float)eps,         faults(g)};
    return s.fast ? launch_embed<T, true, 1>(g, a, s) : launch_embed<T, false, NORM_RUNS>(g, a, s);
}

sr_status gpu_embed(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                    const sr_tensor *ids, const sr_tensor *types, const sr_tensor *word,
                    const sr_tensor *position, const sr_tensor *type, const sr_tensor *gamma,
                    const sr_tensor *beta, const sr_layout *layout, double eps, sr_dropout drop) {
    drop_rows d;
    SR_TRY(drop_rows_of(&d, layout, drop, y->storage->device));
    return (y->dtype == SR_BF16 ? embed<bf16> : embed<float>)(y, sum, mean, rstd, ids, types, word,
                                                              position, type, gamma, beta, d, eps);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* keys[r] = index[r] for rows of sequences, -1 for slack */
KERNEL(256, 4)
void embed_keys(global<int32_t> keys, global<const int32_t> index, global<const int32_t> owner,
                int rows) {
    for (int r = block_x() * threads() + thread(); r < rows; r += blocks_x() * threads())
        keys[r] = owner[r] >= 0 ? index[r] : -1;
}

/* table[index[r]] += dsum[r], element by element in any order */
KERNEL(256, 4)
void embed_add(global<float> table, global<const int32_t> index, global<const int32_t> owner,
               global<const float> dsum, size_t count, int columns, int limit) {
    size_t step = (size_t)blocks_x() * threads();
    for (size_t i = (size_t)block_x() * threads() + thread(); i < count; i += step) {
        size_t row = i / columns, column = i - row * columns;
        int key = owner[row] >= 0 ? (int)index[row] : -1;
        if (key >= 0 && key < limit) add_atomic(table, (size_t)key * columns + column, dsum[i]);
    }
}

/* For tables of many rows: additions to one row wait for each other. */
static sr_status add_rows_in_any_order(gpu *g, sr_tensor *table, global<const int32_t> index,
                                       const drop_rows &drop, global<const float> dsum, int rows) {
    const int columns = (int)table->shape[1];
    const size_t count = (size_t)rows * columns, blocks = ceil_div(count, 256);
    return launch(g, "embed", embed_add, dim(blocks < 8192 ? blocks : 8192), 256, 0,
                  out<float>(table), index, drop.owner, dsum, count, columns, (int)table->shape[0]);
}

/* table[index[r]] += dsum[r] */
static sr_status add_rows(gpu *g, sr_tensor *table, global<const int32_t> index,
                          const drop_rows &drop, global<const float> dsum, int rows) {
    if (table == nullptr) return SR_OK;
    int columns = (int)table->shape[1], limit = (int)table->shape[0];
    global<int32_t> keys, order, sorted;
    if (g->any_order && limit >= ANY_ORDER_ROWS)
        return add_rows_in_any_order(g, table, index, drop, dsum, rows);
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
    norm_back<T, float> a = {nullptr,
                             dsum,
                             nullptr,
                             in<T>(dy),
                             in<T>(sum),
                             in<float>(gamma),
                             in<float>(mean),
                             in<float>(rstd),
                             drop,
                             (int)dy->shape[0],
                             (int)dy->shape[1],
                             0};
    return run_norm_back<T, float, true>(gpu_of(dy), "embed", a, dgamma, dbeta,
                                         all_in_vectors(all, 3, dy->shape[1]));
}

sr_status gpu_embed_backward(sr_tensor *dword, sr_tensor *dposition, sr_tensor *dtype,
                             sr_tensor *dgamma, sr_tensor *dbeta, const sr_tensor *dy,
                             const sr_tensor *ids, const sr_tensor *types, const sr_tensor *sum,
                             const sr_tensor *gamma, const sr_tensor *mean, const sr_tensor *rstd,
                             const sr_layout *layout, sr_dropout drop) {
    gpu *g = gpu_of(dy);
    int rows = (int)dy->shape[0];
    drop_rows d;
    global<float> dsum;
    if (rows == 0) return SR_OK;
    SR_TRY(drop_rows_of(&d, layout, drop, g->device));
    SR_TRY(scratch(&dsum, g, SCRATCH_DSUM, (size_t)rows * (size_t)dy->shape[1]));
    SR_TRY((dy->dtype == SR_BF16 ? dsum_of<bf16> : dsum_of<float>)(dsum, dgamma, dbeta, dy, sum,
                                                                   gamma, mean, rstd, d));
    SR_TRY(add_rows(g, dword, in<int32_t>(ids), d, dsum, rows));
    SR_TRY(add_rows(g, dposition, d.position, d, dsum, rows));
    return add_rows(g, dtype, in<int32_t>(types), d, dsum, rows);
}
