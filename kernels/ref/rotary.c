/* rotary.c - rotary positions: each pair of columns of a query or key head turns by its position.
 *
 * Shapes   x, y (T, C), the first `heads` x D columns are turned, the others copied
 *          table (positions, D): cos_j for j < D / 2, then sin_j      positions (T) i32 or NULL
 *
 *   y_j         = x_j cos_j - x_(j + D/2) sin_j           `inverse`: -sin, which is the backward
 *   y_(j + D/2) = x_(j + D/2) cos_j + x_j sin_j
 *
 * Slack becomes zero.  y may be x.
 * Source: Su et al. 2021, arXiv:2104.09864.
 */
#include "kernels/ref/ref.h"

static void turn(double *y, const double *x, const double *table, int64_t half, double sign) {
    for (int64_t j = 0; j < half; j++) {
        double first = x[j], second = x[half + j], c = table[j], s = sign * table[half + j];
        y[j] = first * c - second * s;
        y[half + j] = second * c + first * s;
    }
}

sr_status ref_rotary(sr_tensor *y, const sr_tensor *x, const sr_tensor *table,
                     const sr_tensor *positions, const sr_layout *layout, int heads, bool inverse) {
    int64_t columns = x->shape[1], size = table->shape[1];
    const int32_t *at = positions != NULL ? SR_DATA(int32_t, positions) : layout->position;
    for (int64_t t = 0; t < x->shape[0]; t++)
        if (layout->owner[t] >= 0 && (at[t] < 0 || at[t] >= table->shape[0]))
            return sr_fail(SR_EINVAL, "rotary: positions[%lld] is %d, but the limit is %lld",
                           (long long)t, at[t], (long long)table->shape[0]);
    for (int64_t t = 0; t < x->shape[0]; t++) {
        const double *in = SR_DATA(double, x) + t * columns;
        double *out = SR_DATA(double, y) + t * columns;
        bool slack = layout->owner[t] < 0;
        for (int64_t i = slack ? 0 : heads * size; i < columns; i++) out[i] = slack ? 0 : in[i];
        for (int h = 0; !slack && h < heads; h++)
            turn(out + h * size, in + h * size, SR_DATA(double, table) + at[t] * size, size / 2,
                 inverse ? -1 : 1);
    }
    return SR_OK;
}
