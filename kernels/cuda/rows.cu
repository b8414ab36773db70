/* rows.cu - rows of a tensor by number: gather, add back, replace.
 *
 * Traffic   gather and put move each row once; scatter also reads y.
 * Order     scatter adds in the order of m: rows are sorted first, and a warp owns 128 columns of
 *           a row with all that is added to them.
 */
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/sums.h"

enum { ROWS_THREADS = 256, SLAB = 128 };

namespace {

/* Rows of `width` elements; `flat` rows are contiguous. */
struct row_table {
    operand t;
    walk<1> w;    /* along a row */
    int64_t step; /* from row to row */
    bool flat;
};

} // namespace

DEV int64_t place(const row_table &t, int64_t row, int64_t col) {
    int64_t at[1] = {col};
    if (!t.flat) locate(at, t.w, col);
    return row * t.step + at[0];
}

static row_table rows_in(const sr_tensor *x) {
    const sr_tensor *const t[] = {x};
    row_table r = {operand_of(x), walk_over(t, 1, x->ndim), x->stride[0], false};
    r.flat = is_flat(r.w, 0);
    return r;
}

/* ---- moving ---------------------------------------------------------------------------------- */

namespace {

/* Pieces of `bytes` bytes, 1, 2, 4, 8 or 16, from row to row. */
struct move {
    row_table to, from; /* from.t.data is NULL: zeros */
    int64_t width;      /* pieces in a row */
    int bytes;
};

} // namespace

DEV void move_piece(const move &m, int64_t to_row, int64_t from_row, int64_t col) {
    size_t to = (size_t)place(m.to, to_row, col), from = 0;
    bool zero = m.from.t.data == NULL;
    if (!zero) from = (size_t)place(m.from, from_row, col);
    global<uint8_t> y = m.to.t.data, x = m.from.t.data;
    switch (m.bytes) {
    case 16:
        store16(y, 16 * to, zero ? vec16{{0, 0, 0, 0}} : load16(x, 16 * from));
        break;
    case 8:
        store8(y, 8 * to, zero ? vec8{{0, 0}} : load8(x, 8 * from));
        break;
    case 4:
        store4(y, 4 * to, zero ? 0u : load4(x, 4 * from));
        break;
    case 2:
        recast<bf16>(y)[to] = zero ? bf16{0} : (bf16)recast<bf16>(x)[from];
        break;
    default:
        y[to] = zero ? (uint8_t)0 : (uint8_t)x[from];
    }
}

/* y[m] = x[rows[m]] */
KERNEL(ROWS_THREADS, 4)
void gather(move v, readonly<int32_t> rows, int64_t stride, int64_t count, int64_t limit,
            fault_at faults) {
    int64_t step = (int64_t)blocks_x() * threads();
    for (int64_t i = (int64_t)block_x() * threads() + thread(); i < count * v.width; i += step) {
        int64_t col, m = divide(i, v.width, &col), row = rows[m * stride];
        bool good = row >= 0 && row < limit;
        if (good) move_piece(v, m, row, col);
        if (!good && col == 0) fault(faults, FAULT_GATHER_ROW, (size_t)m, row, limit);
    }
}

/* y[sorted[p]] = x[order[p]], for the first of equal rows */
KERNEL(ROWS_THREADS, 4)
void put(move v, readonly<int32_t> order, readonly<int32_t> sorted, readonly<int32_t> rows,
         int64_t stride, int64_t count, int64_t limit, fault_at faults) {
    int64_t step = (int64_t)blocks_x() * threads();
    for (int64_t i = (int64_t)block_x() * threads() + thread(); i < count * v.width; i += step) {
        int64_t col, p = divide(i, v.width, &col), row = sorted[p];
        bool inside = row < limit, again = inside && p > 0 && sorted[p - 1] == row;
        if (inside && !again) move_piece(v, row, order[p], col);
        if (col > 0) continue;
        int64_t m = order[p];
        if (again) fault(faults, FAULT_PUT_DUPLICATE, (size_t)m, row, limit);
        if (!inside) fault(faults, FAULT_PUT_ROW, (size_t)m, rows[m * stride], limit);
    }
}

/* Larger pieces, where rows are contiguous and aligned. */
static void widen(move *v, const sr_tensor *y, const sr_tensor *x) {
    int size = (int)sr_dtype_size(y->dtype), most = 16 / size;
    const sr_tensor *both[] = {y, x};
    v->bytes = size;
    if (!v->to.flat || (x != NULL && !v->from.flat)) return;
    for (int k = 0; k < 2 && both[k] != NULL; k++)
        while (v->width % most != 0 || (both[k]->shape[0] > 1 && both[k]->stride[0] % most != 0) ||
               (uintptr_t)sr_tensor_data(both[k]) % (uintptr_t)(most * size) != 0)
            most /= 2;
    v->width /= most;
    v->to.step /= most;
    v->from.step /= most;
    v->bytes = size * most;
}

static move move_of(const sr_tensor *y, const sr_tensor *x) {
    move v = {rows_in(y), x != NULL ? rows_in(x) : row_table{}, 1, 0};
    v.width = v.to.w.count;
    widen(&v, y, x);
    return v;
}

sr_status gpu_gather_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows) {
    move v = move_of(y, x);
    int64_t count = rows->shape[0];
    if (count == 0) return SR_OK;
    gpu *g = gpu_of(y);
    return launch(g, "gather_rows", gather, dim(map_grid(count * v.width)), ROWS_THREADS, 0, v,
                  in<int32_t>(rows), rows->stride[0], count, x->shape[0], faults(g));
}

sr_status gpu_put_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows) {
    move v = move_of(y, x);
    global<int32_t> order, sorted;
    int64_t count = rows->shape[0], limit = y->shape[0];
    if (count == 0) return SR_OK;
    gpu *g = gpu_of(y);
    SR_TRY(order_keys(&order, &sorted, g, in<int32_t>(rows), rows->stride[0], count, limit));
    return launch(g, "put_rows", put, dim(map_grid(count * v.width)), ROWS_THREADS, 0, v, order,
                  sorted, in<int32_t>(rows), rows->stride[0], count, limit, faults(g));
}

/* ---- adding ---------------------------------------------------------------------------------- */

namespace {

struct addition {
    row_table y, x;
    int64_t width, slabs;
    bool groups; /* rows may be read 4 elements at once */
};

} // namespace

/* The 4 columns from `col` on of row `row`, fewer at the end of the row. */
DEV void load_columns(float (&v)[4], const row_table &t, int64_t row, int64_t col, int64_t width,
                      bool groups) {
    if (groups) {
        load_group(v, t.t, place(t, row, col));
        return;
    }
    for (int k = 0; k < 4; k++)
        v[k] = col + k < width ? load_as<float>(t.t, place(t, row, col + k)) : 0.0f;
}

/* One warp per position in the order and slab of columns; the first of equal rows adds all. */
KERNEL(ROWS_THREADS, 4)
void scatter(addition a, readonly<int32_t> order, readonly<int32_t> sorted, readonly<int32_t> rows,
             int64_t stride, int64_t count, int64_t limit, fault_at faults) {
    int64_t item = (int64_t)block_x() * warps() + warp(), slab;
    int64_t p = divide(item, a.slabs, &slab);
    if (p >= count) return;
    int64_t row = sorted[p], col = slab * SLAB + 4 * lane();
    if (row == limit && slab == 0 && lane() == 0)
        fault(faults, FAULT_SCATTER_ROW, (size_t)order[p], rows[order[p] * stride], limit);
    if (row == limit || (p > 0 && sorted[p - 1] == row) || col >= a.width) return;
    float sum[4], more[4];
    load_columns(sum, a.y, row, col, a.width, a.groups);
    for (; p < count && sorted[p] == row; p++) {
        load_columns(more, a.x, order[p], col, a.width, a.groups);
        for (int k = 0; k < 4; k++) sum[k] += more[k];
    }
    if (a.groups)
        store_group(a.y.t, place(a.y, row, col), sum);
    else
        for (int k = 0; k < 4 && col + k < a.width; k++)
            store_as(a.y.t, place(a.y, row, col + k), sum[k]);
}

static bool in_groups(const row_table &t, const sr_tensor *x, int64_t width) {
    return t.flat && width % 4 == 0 && (x->shape[0] <= 1 || x->stride[0] % 4 == 0) &&
           is_aligned(x, 4);
}

sr_status gpu_scatter_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows) {
    const sr_tensor *all[] = {y, x};
    addition a = {rows_in(y), rows_in(x), 0, 0, false};
    global<int32_t> order, sorted;
    int64_t count = rows->shape[0], limit = y->shape[0];
    SR_TRY(need_no_f64("scatter_rows", all, 2));
    a.width = a.y.w.count;
    a.slabs = (a.width + SLAB - 1) / SLAB;
    a.groups = in_groups(a.y, y, a.width) && in_groups(a.x, x, a.width);
    if (count == 0 || a.width == 0) return SR_OK;
    gpu *g = gpu_of(y);
    SR_TRY(order_keys(&order, &sorted, g, in<int32_t>(rows), rows->stride[0], count, limit));
    int64_t warps = ROWS_THREADS / 32, blocks = (count * a.slabs + warps - 1) / warps;
    return launch(g, "scatter_rows", scatter, dim(blocks), ROWS_THREADS, 0, a, order, sorted,
                  in<int32_t>(rows), rows->stride[0], count, limit, faults(g));
}
