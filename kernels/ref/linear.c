/* linear.c - y = act(x w^T + b), and its way back. */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/ref/ref.h"

sr_status ref_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                     const sr_tensor *b, sr_act act) {
    int64_t rows = x->shape[0], inputs = x->shape[1], outputs = w->shape[0];
    for (int64_t t = 0; t < rows; t++) {
        const double *xt = SR_DATA(double, x) + t * inputs;
        for (int64_t f = 0; f < outputs; f++) {
            const double *wf = SR_DATA(double, w) + f * inputs;
            double z = b != NULL ? SR_DATA(double, b)[f] : 0.0;
            for (int64_t h = 0; h < inputs; h++) z += xt[h] * wf[h];
            if (pre != NULL) SR_DATA(double, pre)[t * outputs + f] = z;
            SR_DATA(double, y)[t * outputs + f] = ref_act(act, z);
        }
    }
    return SR_OK;
}

sr_status ref_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db, const sr_tensor *dy,
                              const sr_tensor *x, const sr_tensor *w, const sr_tensor *pre,
                              const sr_tensor *y, sr_act act) {
    int64_t rows = x->shape[0], inputs = x->shape[1], outputs = w->shape[0];
    const sr_tensor *at_hand = pre != NULL ? pre : y;
    if (dx != NULL) memset(sr_tensor_data(dx), 0, (size_t)(rows * inputs) * sizeof(double));
    for (int64_t t = 0; t < rows; t++) {
        for (int64_t f = 0; f < outputs; f++) {
            double dz = SR_DATA(double, dy)[t * outputs + f];
            if (act != SR_ACT_NONE)
                dz *= ref_act_slope(act, SR_DATA(double, at_hand)[t * outputs + f]);
            if (db != NULL) SR_DATA(double, db)[f] += dz;
            for (int64_t h = 0; h < inputs; h++) {
                if (dx != NULL)
                    SR_DATA(double, dx)[t * inputs + h] += dz * SR_DATA(double, w)[f * inputs + h];
                if (dw != NULL)
                    SR_DATA(double, dw)[f * inputs + h] += dz * SR_DATA(double, x)[t * inputs + h];
            }
        }
    }
    return SR_OK;
}
