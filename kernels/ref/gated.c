/* gated.c - one half of the columns, activated, times the other half.
 *
 * Shapes   x, dx (T, 2 F)   y, dy (T, F)
 *
 *   [a, g] = x, or [g, a] if the gate comes first;  y = act(a) g
 *   da = dy g act'(a)                               dg = dy act(a)
 *
 * Source: Shazeer 2020, arXiv:2002.05202.
 */
#include "kernels/ref/ref.h"

sr_status ref_gated(sr_tensor *y, const sr_tensor *x, sr_act act, bool gate_first) {
    int64_t n = y->shape[1];
    for (int64_t t = 0; t < y->shape[0]; t++) {
        const double *row = SR_DATA(double, x) + t * 2 * n;
        const double *a = gate_first ? row + n : row, *g = gate_first ? row : row + n;
        for (int64_t i = 0; i < n; i++) SR_DATA(double, y)[t * n + i] = ref_act(act, a[i]) * g[i];
    }
    return SR_OK;
}

sr_status ref_gated_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *x, sr_act act,
                             bool gate_first) {
    int64_t n = dy->shape[1];
    for (int64_t t = 0; t < dy->shape[0]; t++) {
        int64_t at = t * 2 * n, a = gate_first ? at + n : at, g = gate_first ? at : at + n;
        for (int64_t i = 0; i < n; i++) {
            double in = SR_DATA(double, x)[a + i], value = ref_act(act, in);
            double d = SR_DATA(double, dy)[t * n + i], gate = SR_DATA(double, x)[g + i];
            double kept = sr_act_keeps_input(act) ? in : value;
            SR_DATA(double, dx)[a + i] = ref_act_backward(act, d * gate, kept);
            SR_DATA(double, dx)[g + i] = d * value;
        }
    }
    return SR_OK;
}
