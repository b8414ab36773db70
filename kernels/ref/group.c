/* group.c - rows in the order of their groups, and a linear layer of each group.
 *
 *   y_r = act(x_r w_g^T + b_g) for the rows r of group g; 0 for those of none
 */
#include "core/tensor/group.h"
#include "kernels/ref/ref.h"

sr_status ref_group_rows(sr_tensor *rows, sr_tensor *place, sr_tensor *starts,
                         const sr_tensor *items, const sr_layout *layout, int64_t capacity) {
    return sr_host_group_rows(rows, place, starts, items, layout, capacity);
}

sr_status ref_grouped_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                             const sr_tensor *b, const sr_tensor *starts, sr_act act) {
    return sr_host_grouped_linear(y, pre, x, w, b, starts, act);
}

sr_status ref_grouped_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db,
                                      const sr_tensor *dy, const sr_tensor *x, const sr_tensor *w,
                                      const sr_tensor *pre, const sr_tensor *y,
                                      const sr_tensor *starts, sr_act act) {
    return sr_host_grouped_linear_backward(dx, dw, db, dy, x, w, pre, y, starts, act);
}
