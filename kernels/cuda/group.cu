/* group.cu - rows in the order of their groups; a linear layer of each group of rows, and back.
 *
 * Shapes    items, place (K, T), rows (K T), starts (groups + 1), all i32; x, dx (M, H),
 *           w (G F, H), b (G F), y, pre, dy (M, F) f32 or bf16; dw, db f32; starts (G + 1) i32, on
 *           the device: nothing waits for it
 * Traffic   of the order: a radix sort of K T keys (sums.cu) and two passes; two sorts where a
 *           capacity cuts groups.
 * Work      2 n H F flops forward and 4 n H F backward, n rows of groups
 * Grid      of the order: a thread for each item; one for each group, which finds its start by
 *           bisection.  Of products: a block for 64 x 64 elements of y, dx or dw.  The rows of a
 *           group are cut into tiles of 64; as many tiles are launched as there can be, M / 64 and
 *           one a group, and each block looks up which it has.
 * Tiles     C (64, 64) += A (64, K) B (K, 64), 32 of K at a time.  An operand is stored in runs of
 *           neighbouring elements: along K (ALONG), or along its other dimension.  A tile is moved
 *           into shared memory as it is stored; fragments turn it where needed.  Each of four warps
 *           computes 32 x 32 elements, which its threads hold as m16n8k16 leaves them.
 * Numerics  f32 sums in the order of k (tensor cores on bf16: of 16), rounded once.  Bits of a row
 *           depend on that row and its group alone.
 */
#include "core/tensor/layout_on.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/sums.h"
#include "kernels/cuda/functions.cuh"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/prim.cuh"

enum { GROUP_THREADS = 256, SCRATCH_GROUP_KEYS = 0, SCRATCH_GROUP_STARTS = 1 };

/* keys[i] = the group of item i, or -1 */
KERNEL(GROUP_THREADS, 4)
void group_keys(global<int32_t> keys, global<const int32_t> items, global<const int32_t> owner,
                int count, int rows) {
    int i = block_x() * threads() + thread();
    if (i < count) keys[i] = owner[i % rows] < 0 ? -1 : (int)items[i];
}

/* starts[g] = the first of the sorted keys that is not below g */
KERNEL(GROUP_THREADS, 4)
void group_starts(global<int32_t> starts, global<const int32_t> sorted, int count, int groups) {
    int g = block_x() * threads() + thread(), low = 0, high = count;
    if (g > groups) return;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (sorted[middle] < g)
            low = middle + 1;
        else
            high = middle;
    }
    starts[g] = low;
}

/* keys[i] = the group of item i, or -1 if it stands at or beyond the capacity of its group */
KERNEL(GROUP_THREADS, 4)
void group_cut(global<int32_t> keys, global<const int32_t> order, global<const int32_t> sorted,
               global<const int32_t> starts, int count, int groups, int64_t capacity) {
    int j = block_x() * threads() + thread();
    if (j >= count) return;
    int g = sorted[j];
    keys[order[j]] = g < groups && j - starts[g] < capacity ? g : -1;
}

KERNEL(GROUP_THREADS, 4)
void group_places(global<int32_t> to, global<int32_t> place, global<const int32_t> order, int count,
                  int rows) {
    int j = block_x() * threads() + thread();
    if (j >= count) return;
    int i = order[j];
    to[j] = i % rows;
    place[i] = j;
}

sr_status gpu_group_rows(sr_tensor *rows, sr_tensor *place, sr_tensor *starts,
                         const sr_tensor *items, const sr_layout *layout, int64_t capacity) {
    gpu *g = gpu_of(rows);
    sr_layout_on *on;
    global<int32_t> keys, order, sorted, first;
    int count = (int)sr_tensor_elements(items), groups = (int)starts->shape[0] - 1;
    int each = (int)layout->rows;
    dim grid(ceil_div((size_t)count, GROUP_THREADS));
    dim bounds(ceil_div((size_t)groups + 1, GROUP_THREADS));
    SR_TRY(sr_layout_find_on(&on, layout, g->device));
    SR_TRY(scratch(&keys, g, SCRATCH_GROUP_KEYS, (size_t)count));
    SR_TRY(launch(g, "group_rows", group_keys, grid, GROUP_THREADS, 0, keys, in<int32_t>(items),
                  gpu_pointer(on->owner, (size_t)each), count, each));
    SR_TRY(order_keys(&order, &sorted, g, keys, 1, count, groups));
    if (capacity < count) {
        SR_TRY(scratch(&first, g, SCRATCH_GROUP_STARTS, (size_t)groups + 1));
        SR_TRY(launch(g, "group_rows", group_starts, bounds, GROUP_THREADS, 0, first, sorted, count,
                      groups));
        SR_TRY(launch(g, "group_rows", group_cut, grid, GROUP_THREADS, 0, keys, order, sorted,
                      first, count, groups, capacity));
        SR_TRY(order_keys(&order, &sorted, g, keys, 1, count, groups));
    }
    SR_TRY(launch(g, "group_rows", group_starts, bounds, GROUP_THREADS, 0, out<int32_t>(starts),
                  sorted, count, groups));
    return launch(g, "group_rows", group_places, grid, GROUP_THREADS, 0, out<int32_t>(rows),
                  out<int32_t>(place), order, count, each);
}

/* ---- tiles of products ----------------------------------------------------------------------- */

#ifdef SR_SIMT
#define GROUPED_UNROLL
#else
#define GROUPED_UNROLL _Pragma("unroll")
#endif

namespace grouped {

enum { THREADS = 128, TILE = 64, DEPTH = 32, RUN = 8, PAD = 8 };

/* How a tile lies in shared memory. */
template <bool ALONG> struct laid {
    static constexpr int LENGTH = ALONG ? DEPTH : TILE; /* of a run */
    static constexpr int RUNS = ALONG ? TILE : DEPTH;
    static constexpr int STEP = LENGTH + PAD; /* from one to the next */
    static constexpr int ELEMENTS = RUNS * STEP;
};
/* Element (i, k) of a tile. */
template <bool ALONG> DEV int place_of(int i, int k) {
    return ALONG ? i * laid<true>::STEP + k : k * laid<false>::STEP + i;
}

/* to[i .. i + 7] = from[at .. at + 7], of which `left` exist; zeros beyond. */
template <bool VECTOR, class T>
DEV void move8(const shared<T> &to, int i, const global<const T> &from, size_t at, int left) {
    const vec16 zero = {{0, 0, 0, 0}};
    for (int j = 0; VECTOR && j < RUN; j += 16 / (int)sizeof(T))
        store16(to, (size_t)(i + j), left > 0 ? load16(from, at + (size_t)j) : zero);
    for (int j = 0; !VECTOR && j < RUN; j++) {
        T x = from_float<T>(0.0f);
        if (j < left) x = from[at + (size_t)j];
        to[i + j] = x;
    }
}

/* A tile from element `at` on: `runs` of its runs exist, `left` elements of each. */
template <bool ALONG, bool VECTOR, class T>
DEV void move_tile(const shared<T> &to, const global<const T> &from, size_t at, int64_t step,
                   int64_t runs, int64_t left) {
    constexpr int PARTS = laid<ALONG>::LENGTH / RUN, ALL = PARTS * laid<ALONG>::RUNS;
    for (int v = thread(); v < ALL; v += THREADS) {
        int run = v / PARTS, column = v % PARTS * RUN;
        int64_t here = run < runs && column < left ? left - column : 0;
        size_t source = at + (size_t)(run * step) + (size_t)column;
        move8<VECTOR>(to, run * laid<ALONG>::STEP + column, from, here > 0 ? source : at,
                      here < RUN ? (int)here : (int)RUN);
    }
}

/* Where the 32 x 32 elements of a warp begin in the tile, and element r of its fragment (i, j). */
DEV int first_row() {
    return warp() / 2 * 32;
}
DEV int first_column() {
    return warp() % 2 * 32;
}
DEV int row_of(int i, int r) {
    return first_row() + 16 * i + (lane() >> 2) + 8 * (r >> 1);
}
DEV int column_of(int j, int r) {
    return first_column() + 8 * j + 2 * (lane() & 3) + (r & 1);
}

typedef float sums[2][4][4];

/* c += a b, on tiles in shared memory */
template <bool A, bool B>
DEV void multiply(sums &c, const shared<float> &a, const shared<float> &b) {
    for (int k = 0; k < DEPTH; k++) {
        float x[2][2], y[4][2];
        GROUPED_UNROLL for (int i = 0; i < 2; i++) for (int r = 0; r < 2; r++) x[i][r] =
            a[place_of<A>(row_of(i, 2 * r), k)];
        GROUPED_UNROLL for (int j = 0; j < 4; j++) for (int r = 0; r < 2; r++) y[j][r] =
            b[place_of<B>(column_of(j, r), k)];
        GROUPED_UNROLL for (int i = 0; i < 2; i++) GROUPED_UNROLL for (int j = 0; j < 4; j++)
            GROUPED_UNROLL for (int r = 0; r < 4; r++) c[i][j][r] =
                math_fma(x[i][r >> 1], y[j][r & 1], c[i][j][r]);
    }
}

template <bool A, bool B> DEV void multiply(sums &c, const shared<bf16> &a, const shared<bf16> &b) {
    int half = lane() >> 4, odd = lane() >> 3 & 1, line = lane() & 7;
    GROUPED_UNROLL for (int k = 0; k < DEPTH; k += 16) {
        uint32_t x[2][4], y[4];
        GROUPED_UNROLL for (int i = 0; i < 2; i++) {
            int row = first_row() + 16 * i;
            if (A)
                ldmatrix4(x[i], a + (size_t)place_of<A>(row + 8 * odd + line, k + 8 * half));
            else
                ldmatrix4_trans(x[i], a + (size_t)place_of<A>(row + 8 * odd, k + 8 * half + line));
        }
        GROUPED_UNROLL for (int j = 0; j < 4; j += 2) {
            int column = first_column() + 8 * j;
            if (B)
                ldmatrix4(y, b + (size_t)place_of<B>(column + 8 * half + line, k + 8 * odd));
            else
                ldmatrix4_trans(y, b + (size_t)place_of<B>(column + 8 * half, k + 8 * odd + line));
            GROUPED_UNROLL for (int i = 0; i < 2; i++) {
                mma_bf16(c[i][j], x[i], y[0], y[1]);
                mma_bf16(c[i][j + 1], x[i], y[2], y[3]);
            }
        }
    }
}

} // namespace grouped

using namespace grouped;

namespace {

template <class T> struct grouped_job {
    global<T> y, pre; /* pre may be NULL; dx as y in backward */
    global<float> dw, db;
    global<const T> x, w, b, dz;
    global<const int32_t> starts;
    int64_t rows, inputs, outputs;
    int groups, act;
};

/* Rows first .. end - 1 of a group; of the rest if it is G. */
struct row_tile {
    int group;
    int64_t first, end;
};

} // namespace

/* Where group g begins; within the tensor, whatever `starts` says. */
DEV int64_t start_of(global<const int32_t> starts, int g, int groups, int64_t rows) {
    if (g == 0 || g > groups) return g == 0 ? 0 : rows;
    int64_t at = starts[g];
    return at < 0 ? 0 : at < rows ? at : rows;
}

/* Tile `number` of all groups and the rest; false beyond the last. */
DEV bool find_tile(row_tile &t, global<const int32_t> starts, int groups, int64_t rows,
                   int64_t number) {
    for (int g = 0; g <= groups; g++) {
        int64_t from = start_of(starts, g, groups, rows);
        int64_t to = start_of(starts, g + 1, groups, rows);
        int64_t tiles = to > from ? (to - from + TILE - 1) / TILE : 0;
        if (number < tiles) {
            t.group = g, t.first = from + number * TILE, t.end = to;
            return true;
        }
        number -= tiles;
    }
    return false;
}

/* Calls put(row, column, sum) for the elements of the tile at (first, column) that exist. */
template <class F>
DEV void each_element(const sums &c, int64_t first, int64_t end, int64_t column, int64_t columns,
                      F put) {
    GROUPED_UNROLL for (int n = 0; n < 32; n++) {
        int i = n >> 4, j = n >> 2 & 3, r = n & 3;
        int64_t row = first + row_of(i, r), at = column + column_of(j, r);
        if (row < end && at < columns) put(row, at, c[i][j][r]);
    }
}

/* c = A (64, K) B (K, 64): A from element a_at of `a`, its rows a_step apart where it is stored
 * along K; likewise B; a_left and b_left: rows and columns of C that exist. */
template <bool A, bool B, bool VECTOR, class T>
DEV void tile_product(sums &c, global<const T> a, size_t a_at, int64_t a_step, int64_t a_left,
                      global<const T> b, size_t b_at, int64_t b_step, int64_t b_left,
                      int64_t depth) {
    shared<T> left = shared_at<T>(0, laid<A>::ELEMENTS);
    shared<T> right = shared_at<T>(laid<A>::ELEMENTS * (int)sizeof(T), laid<B>::ELEMENTS);
    for (int64_t k = 0; k < depth; k += DEPTH) {
        int64_t rest = depth - k;
        barrier();
        move_tile<A, VECTOR>(left, a, a_at + (size_t)(A ? k : k * a_step), a_step,
                             A ? a_left : rest, A ? rest : a_left);
        move_tile<B, VECTOR>(right, b, b_at + (size_t)(B ? k : k * b_step), b_step,
                             B ? b_left : rest, B ? rest : b_left);
        barrier();
        multiply<A, B>(c, left, right);
    }
}

template <class T, bool VECTOR> KERNEL(THREADS, 4) void grouped_forward(grouped_job<T> a) {
    row_tile t;
    int64_t column = (int64_t)block_y() * TILE;
    if (!find_tile(t, a.starts, a.groups, a.rows, block_x())) return;
    sums c = {};
    bool rest = t.group == a.groups;
    int64_t first = rest ? 0 : t.group * a.outputs;
    if (!rest)
        tile_product<true, true, VECTOR>(
            c, a.x, (size_t)(t.first * a.inputs), a.inputs, t.end - t.first, a.w,
            (size_t)((first + column) * a.inputs), a.inputs, a.outputs - column, a.inputs);
    each_element(c, t.first, t.end, column, a.outputs, [&](int64_t row, int64_t at, float sum) {
        size_t place = (size_t)(row * a.outputs + at);
        if (a.b && !rest) sum += to_float((T)a.b[(size_t)(first + at)]);
        if (a.pre) a.pre[place] = from_float<T>(sum);
        a.y[place] = from_float<T>(rest ? 0.0f : sr_act_value(a.act, sum));
    });
}

/* dx = dz w_g */
template <class T, bool VECTOR> KERNEL(THREADS, 4) void grouped_inputs(grouped_job<T> a) {
    row_tile t;
    int64_t column = (int64_t)block_y() * TILE;
    if (!find_tile(t, a.starts, a.groups, a.rows, block_x())) return;
    sums c = {};
    if (t.group < a.groups)
        tile_product<true, false, VECTOR>(c, a.dz, (size_t)(t.first * a.outputs), a.outputs,
                                          t.end - t.first, a.w,
                                          (size_t)(t.group * a.outputs * a.inputs + column),
                                          a.inputs, a.inputs - column, a.outputs);
    each_element(c, t.first, t.end, column, a.inputs, [&](int64_t row, int64_t at, float sum) {
        a.y[(size_t)(row * a.inputs + at)] = from_float<T>(sum);
    });
}

/* dw_g += dz^T x */
template <class T, bool VECTOR> KERNEL(THREADS, 4) void grouped_weights(grouped_job<T> a) {
    int g = block_z();
    int64_t row = (int64_t)block_x() * TILE, column = (int64_t)block_y() * TILE;
    int64_t from = start_of(a.starts, g, a.groups, a.rows);
    int64_t to = start_of(a.starts, g + 1, a.groups, a.rows), first = g * a.outputs;
    if (to <= from) return;
    sums c = {};
    tile_product<false, false, VECTOR>(c, a.dz, (size_t)(from * a.outputs + row), a.outputs,
                                       a.outputs - row, a.x, (size_t)(from * a.inputs + column),
                                       a.inputs, a.inputs - column, to - from);
    each_element(c, row, a.outputs, column, a.inputs, [&](int64_t at, int64_t h, float sum) {
        a.dw[(size_t)((first + at) * a.inputs + h)] += sum;
    });
}

/* db_g += the sums of the columns of dz: threads of a block take every 8th row, and are added up in
 * order */
template <class T> KERNEL(256, 4) void grouped_bias(grouped_job<T> a) {
    shared<float> parts = shared_at<float>(0, 256);
    int g = block_y(), column = thread() & 31, part = thread() >> 5;
    int64_t f = (int64_t)block_x() * 32 + column;
    int64_t from = start_of(a.starts, g, a.groups, a.rows);
    int64_t to = start_of(a.starts, g + 1, a.groups, a.rows);
    float sum = 0.0f;
    if (f < a.outputs)
        for (int64_t r = from + part; r < to; r += 8)
            sum += to_float((T)a.dz[(size_t)(r * a.outputs + f)]);
    parts[thread()] = sum;
    barrier();
    if (part != 0 || f >= a.outputs) return;
    for (int i = 1; i < 8; i++) sum += parts[32 * i + column];
    a.db[(size_t)(g * a.outputs + f)] += sum;
}

/* ---- launches -------------------------------------------------------------------------------- */

template <class T, bool A, bool B> static size_t tile_bytes(void) {
    return (size_t)(laid<A>::ELEMENTS + laid<B>::ELEMENTS) * sizeof(T);
}

template <class T>
static grouped_job<T> job_of(const sr_tensor *x, const sr_tensor *w, const sr_tensor *starts) {
    grouped_job<T> a = {};
    a.x = in<T>(x), a.w = in<T>(w), a.starts = in<int32_t>(starts);
    a.groups = (int)starts->shape[0] - 1;
    a.rows = x->shape[0], a.inputs = x->shape[1], a.outputs = w->shape[0] / a.groups;
    return a;
}

/* Tiles of rows that there can be. */
template <class T> static size_t most_tiles(const grouped_job<T> &a) {
    return ceil_div((size_t)a.rows, TILE) + (size_t)a.groups;
}

template <class T> static bool is_in_vectors(const sr_tensor *const *t, const grouped_job<T> &a) {
    return all_in_vectors(t, 3, a.inputs) && a.outputs % RUN == 0;
}

template <class T>
static sr_status forward(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                         const sr_tensor *b, const sr_tensor *starts, sr_act act) {
    grouped_job<T> a = job_of<T>(x, w, starts);
    const sr_tensor *all[] = {x, w, nullptr};
    a.y = out<T>(y), a.pre = out<T>(pre), a.b = in<T>(b), a.act = act;
    dim grid(most_tiles(a), ceil_div((size_t)a.outputs, TILE));
    auto kernel = is_in_vectors(all, a) ? grouped_forward<T, true> : grouped_forward<T, false>;
    return launch(gpu_of(y), "grouped_linear", kernel, grid, THREADS, tile_bytes<T, true, true>(),
                  a);
}

sr_status gpu_grouped_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                             const sr_tensor *b, const sr_tensor *starts, sr_act act) {
    return (x->dtype == SR_BF16 ? forward<bf16> : forward<float>)(y, pre, x, w, b, starts, act);
}

template <class T>
static sr_status backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db, const sr_tensor *dy,
                          const sr_tensor *x, const sr_tensor *w, const sr_tensor *kept,
                          const sr_tensor *starts, sr_act act) {
    gpu *g = gpu_of(dy);
    grouped_job<T> a = job_of<T>(x, w, starts);
    size_t count = (size_t)(a.rows * a.outputs);
    a.dz = in<T>(dy), a.y = out<T>(dx), a.dw = out<float>(dw), a.db = out<float>(db);
    if (act != SR_ACT_NONE) {
        global<T> room;
        SR_TRY(scratch(&room, g, 0, count));
        SR_TRY(act_backward(g, "grouped_linear", raw(room), nullptr, sr_tensor_data(dy),
                            sr_tensor_data(kept), dy->dtype, a.rows, a.outputs, act));
        a.dz = room;
    }
    const sr_tensor *all[] = {x, w, act == SR_ACT_NONE ? dy : nullptr};
    bool vectors = is_in_vectors(all, a);
    size_t down = ceil_div((size_t)a.outputs, TILE), across = ceil_div((size_t)a.inputs, TILE);
    if (dx != nullptr)
        SR_TRY(launch(g, "grouped_linear",
                      vectors ? grouped_inputs<T, true> : grouped_inputs<T, false>,
                      dim(most_tiles(a), across), THREADS, tile_bytes<T, true, false>(), a));
    if (dw != nullptr)
        SR_TRY(launch(
            g, "grouped_linear", vectors ? grouped_weights<T, true> : grouped_weights<T, false>,
            dim(down, across, (size_t)a.groups), THREADS, tile_bytes<T, false, false>(), a));
    if (db == nullptr) return SR_OK;
    return launch(g, "grouped_linear", grouped_bias<T>,
                  dim(ceil_div((size_t)a.outputs, 32), (size_t)a.groups), 256, 256 * sizeof(float),
                  a);
}

sr_status gpu_grouped_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db,
                                      const sr_tensor *dy, const sr_tensor *x, const sr_tensor *w,
                                      const sr_tensor *pre, const sr_tensor *y,
                                      const sr_tensor *starts, sr_act act) {
    const sr_tensor *kept = sr_act_keeps_input(act) ? pre : y;
    return (dy->dtype == SR_BF16 ? backward<bf16> : backward<float>)(dx, dw, db, dy, x, w, kept,
                                                                     starts, act);
}
