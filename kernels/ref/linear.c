/* linear.c - y = act(x w^T + b).
 *
 * Shapes   x (T, H)   w (F, H)   b (F)   y, pre (T, F)
 */
#include "kernels/ref/ref.h"

sr_status ref_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                     const sr_tensor *b, sr_act act) {
    int64_t rows = x->shape[0], hidden = x->shape[1], outputs = w->shape[0];
    const double *px = SR_DATA(double, x), *pw = SR_DATA(double, w);
    double *py = SR_DATA(double, y);
    for (int64_t t = 0; t < rows; t++) {
        SR_TRY(ref_poll("linear"));
        for (int64_t f = 0; f < outputs; f++) {
            double z = b != NULL ? SR_DATA(double, b)[f] : 0.0;
            for (int64_t h = 0; h < hidden; h++) z += px[t * hidden + h] * pw[f * hidden + h];
            if (pre != NULL) SR_DATA(double, pre)[t * outputs + f] = z;
            py[t * outputs + f] = ref_act(act, z);
        }
    }
    return SR_OK;
}

/* With dz = dy act'(z):  dx = dz w,  dw (+)= dz^T x,  db += sum_t dz. */
sr_status ref_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db, const sr_tensor *dy,
                              const sr_tensor *x, const sr_tensor *w, const sr_tensor *pre,
                              const sr_tensor *y, sr_act act, bool add_x, bool set_w) {
    int64_t rows = x->shape[0], hidden = x->shape[1], outputs = w->shape[0];
    const double *px = SR_DATA(double, x), *pw = SR_DATA(double, w), *pdy = SR_DATA(double, dy);
    const sr_tensor *kept = sr_act_keeps_input(act) ? pre : y;
    if (dx != NULL && !add_x) SR_TRY(ref_fill(dx, 0));
    if (dw != NULL && set_w) SR_TRY(ref_fill(dw, 0));
    for (int64_t t = 0; t < rows; t++) {
        SR_TRY(ref_poll("linear"));
        for (int64_t f = 0; f < outputs; f++) {
            double dz = pdy[t * outputs + f];
            if (act != SR_ACT_NONE)
                dz = ref_act_backward(act, dz, SR_DATA(double, kept)[t * outputs + f]);
            if (db != NULL) SR_DATA(double, db)[f] += dz;
            for (int64_t h = 0; h < hidden; h++) {
                if (dx != NULL) SR_DATA(double, dx)[t * hidden + h] += dz * pw[f * hidden + h];
                if (dw != NULL) SR_DATA(double, dw)[f * hidden + h] += dz * px[t * hidden + h];
            }
        }
    }
    return SR_OK;
}
