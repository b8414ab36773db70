/* sequence.c - the mean of the rows of each sequence.
 *
 *   y_s  = (sum of x_t over the rows t of s, in their order) / len_s
 *   dx_t = dy_s / len_s; 0 for slack
 */
#include "kernels/ref/ref.h"

sr_status ref_sequence_mean(sr_tensor *y, const sr_tensor *x, const sr_layout *layout) {
    int64_t columns = x->shape[1];
    for (int32_t s = 0; s < layout->sequences; s++) {
        const double *from = SR_DATA(double, x) + layout->start[s] * columns;
        for (int64_t c = 0; c < columns; c++) {
            double sum = 0;
            for (int64_t i = 0; i < layout->len[s]; i++) sum += from[i * columns + c];
            SR_DATA(double, y)[s * columns + c] = sum / layout->len[s];
        }
    }
    return SR_OK;
}

sr_status ref_sequence_mean_backward(sr_tensor *dx, const sr_tensor *dy, const sr_layout *layout) {
    int64_t columns = dx->shape[1];
    for (int64_t t = 0; t < layout->rows; t++) {
        int32_t s = layout->owner[t];
        for (int64_t c = 0; c < columns; c++) {
            double g = s >= 0 ? SR_DATA(double, dy)[s * columns + c] / layout->len[s] : 0.0;
            SR_DATA(double, dx)[t * columns + c] = g;
        }
    }
    return SR_OK;
}
