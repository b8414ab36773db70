/* rotary.cu - rotary positions of query and key heads; backward turns the other way.
 *
 * Shapes    x, y (T, C) f32 or bf16, of which `heads` x D columns are turned, table (positions, D)
 *           f32, positions (T)
 * Traffic   in place it reads and writes the heads that turn: 4 T (A + K) D bytes in bf16; else all
 *           of x and y.  Rows of the table stay in the cache.
 * Grid      a thread for eight pairs of columns of a head, or for eight columns to be copied.
 * Numerics  f32, rounded once.
 */
#include "core/tensor/layout_on.h"
#include "kernels/cuda/sums.h"
#include "kernels/cuda/team.cuh"
#include "kernels/cuda/gpu.h"

namespace {

template <class T> struct rotary_job {
    global<T> y;
    global<const T> x;
    global<const float> table;
    global<const int32_t> at, owner; /* position and sequence of each row */
    size_t rows;
    int columns, heads, half, limit;
    int runs, copies; /* threads of a head; of the columns that are copied */
    bool in_place;    /* y is x: copies are for slack only */
    float sign;
    fault_at faults;
};

} // namespace

/* Eight pairs of head h, from column c of its first half. */
template <class T, bool VECTOR>
DEV void rotary_turn(const rotary_job<T> &a, size_t row, int h, int c, int position) {
    float first[EIGHT], second[EIGHT], cosine[EIGHT], sine[EIGHT];
    size_t at = row * a.columns + (size_t)h * 2 * a.half + c,
           from = (size_t)position * 2 * a.half + c;
    int left = a.half - c;
    read8<VECTOR>(first, a.x, at, left);
    read8<VECTOR>(second, a.x, at + a.half, left);
    read8<VECTOR>(cosine, a.table, from, left);
    read8<VECTOR>(sine, a.table, from + a.half, left);
    for (int i = 0; i < EIGHT; i++) {
        float x = first[i], z = second[i], s = a.sign * sine[i];
        first[i] = x * cosine[i] - z * s;
        second[i] = z * cosine[i] + x * s;
    }
    write8<VECTOR>(a.y, at, first, left);
    write8<VECTOR>(a.y, at + a.half, second, left);
}

/* y = x, or 0, for eight columns from c on, no further than `end`. */
template <class T, bool VECTOR>
DEV void rotary_copy(const rotary_job<T> &a, size_t row, int c, int end, bool zero) {
    float v[EIGHT];
    size_t at = row * a.columns + c;
    zero8(v);
    if (!zero) read8<VECTOR>(v, a.x, at, end - c);
    write8<VECTOR>(a.y, at, v, end - c);
}

template <class T, bool VECTOR> KERNEL(256, 4) void rotary_rows(rotary_job<T> a) {
    int turns = a.heads * a.runs, items = turns + a.copies;
    size_t i = (size_t)block_x() * threads() + thread(), row = i / items;
    if (row >= a.rows) return;
    int item = (int)(i - row * items), rest = 2 * a.half * a.heads;
    bool slack = a.owner[row] < 0;
    if (item >= turns) {
        if (slack || !a.in_place)
            rotary_copy<T, VECTOR>(a, row, rest + (item - turns) * EIGHT, a.columns, slack);
        return;
    }
    int h = item / a.runs, c = (item - h * a.runs) * EIGHT, first = h * 2 * a.half;
    if (slack) {
        rotary_copy<T, VECTOR>(a, row, first + c, first + a.half, true);
        rotary_copy<T, VECTOR>(a, row, first + a.half + c, first + 2 * a.half, true);
        return;
    }
    int position = a.at[row];
    if (position >= 0 && position < a.limit)
        rotary_turn<T, VECTOR>(a, row, h, c, position);
    else if (item == 0)
        fault(a.faults, FAULT_ROTARY_POSITION, row, position, a.limit);
}

template <class T, bool VECTOR> static sr_status launch_rotary(gpu *g, const rotary_job<T> &a) {
    size_t threads = a.rows * (size_t)(a.heads * a.runs + a.copies);
    return launch(g, "rotary", rotary_rows<T, VECTOR>, dim(ceil_div(threads, 256)), 256, 0, a);
}

template <class T>
static sr_status rotary(sr_tensor *y, const sr_tensor *x, const sr_tensor *table,
                        const sr_tensor *positions, const sr_layout_on *on, int heads, float sign) {
    gpu *g = gpu_of(y);
    int64_t size = table->shape[1], columns = x->shape[1], rest = columns - heads * size;
    rotary_job<T> a = {};
    a.y = out<T>(y), a.x = in<T>(x), a.table = in<float>(table);
    a.rows = (size_t)x->shape[0];
    a.owner = gpu_pointer(on->owner, a.rows);
    a.at = positions != nullptr ? in<int32_t>(positions) : gpu_pointer(on->position, a.rows);
    a.columns = (int)columns, a.heads = heads, a.half = (int)(size / 2);
    a.limit = (int)table->shape[0];
    a.runs = (int)ceil_div(a.half, EIGHT);
    a.sign = sign, a.faults = faults(g);
    a.copies = (int)ceil_div(rest, EIGHT);
    a.in_place = sr_tensor_data(y) == sr_tensor_data(x);
    bool vectors = in_vectors(sr_tensor_data(y), columns) &&
                   in_vectors(sr_tensor_data(x), a.half) &&
                   in_vectors(sr_tensor_data(table), a.half);
    return vectors ? launch_rotary<T, true>(g, a) : launch_rotary<T, false>(g, a);
}

sr_status gpu_rotary(sr_tensor *y, const sr_tensor *x, const sr_tensor *table,
                     const sr_tensor *positions, const sr_layout *layout, int heads, bool inverse) {
    sr_layout_on *on;
    SR_TRY(sr_layout_find_on(&on, layout, y->storage->device));
    return (x->dtype == SR_BF16 ? rotary<bf16> : rotary<float>)(y, x, table, positions, on, heads,
                                                                inverse ? -1.0f : 1.0f);
}
