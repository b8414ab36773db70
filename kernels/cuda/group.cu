/* group.cu - rows in the order of their groups.
 *
 * Shapes    items, place (K, T), rows (K T), starts (groups + 1), all i32
 * Traffic   a radix sort of K T keys (order.cu) and two passes; two sorts where a capacity cuts
 *           groups.
 * Grid      a thread for each item; one for each group, which finds its start by bisection.
 */
#include "core/tensor/layout_on.h"
#include "kernels/cuda/gpu_ops.h"
#include "kernels/cuda/order.h"

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
