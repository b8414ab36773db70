/* norm.c - dropout, residual and layer norm, row by row.
 *
 *   sum = dropout(x) + residual      y = (sum - mean) rstd gamma + beta
 *
 *   z = (sum - mean) rstd, g = dy gamma:
 *   dsum = rstd (g - mean(g) - z mean(g z))      dgamma += dy z      dbeta += dy
 */
#include <math.h>

#include "core/base/mem.h"
#include "kernels/ref/ref.h"

void ref_norm_row(double *y, double *mean, double *rstd, const double *sum, const double *gamma,
                  const double *beta, int64_t columns, double eps) {
    double m = 0, variance = 0;
    for (int64_t h = 0; h < columns; h++) m += sum[h];
    m /= (double)columns;
    for (int64_t h = 0; h < columns; h++) variance += (sum[h] - m) * (sum[h] - m);
    double r = 1.0 / sqrt(variance / (double)columns + eps);
    for (int64_t h = 0; h < columns; h++) y[h] = (sum[h] - m) * r * gamma[h] + beta[h];
    *mean = m;
    *rstd = r;
}

void ref_norm_row_backward(double *dsum, double *dgamma, double *dbeta, const double *dy,
                           const double *sum, const double *gamma, double mean, double rstd,
                           int64_t columns) {
    double g_mean = 0, gz_mean = 0;
    for (int64_t h = 0; h < columns; h++) {
        double z = (sum[h] - mean) * rstd, g = dy[h] * gamma[h];
        g_mean += g;
        gz_mean += g * z;
        if (dgamma != NULL) dgamma[h] += dy[h] * z;
        if (dbeta != NULL) dbeta[h] += dy[h];
    }
    g_mean /= (double)columns;
    gz_mean /= (double)columns;
    for (int64_t h = 0; h < columns; h++) {
        double z = (sum[h] - mean) * rstd, g = dy[h] * gamma[h];
        dsum[h] = rstd * (g - g_mean - z * gz_mean);
    }
}

sr_status ref_residual_norm(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                            const sr_tensor *x, const sr_tensor *residual, const sr_tensor *gamma,
                            const sr_tensor *beta, const sr_layout *layout, double eps,
                            sr_dropout drop) {
    int64_t rows = x->shape[0], columns = x->shape[1];
    for (int64_t t = 0; t < rows; t++) {
        const double *row = SR_DATA(double, x) + t * columns;
        if (sum != NULL) {
            double *to = SR_DATA(double, sum) + t * columns;
            for (int64_t h = 0; h < columns; h++) {
                to[h] = row[h] * ref_drop_row(layout, drop, t, h);
                if (residual != NULL) to[h] += SR_DATA(double, residual)[t * columns + h];
            }
            row = to;
        }
        ref_norm_row(SR_DATA(double, y) + t * columns, SR_DATA(double, mean) + t,
                     SR_DATA(double, rstd) + t, row, SR_DATA(double, gamma), SR_DATA(double, beta),
                     columns, eps);
    }
    return SR_OK;
}

sr_status ref_residual_norm_backward(sr_tensor *dx, sr_tensor *dresidual, sr_tensor *dgamma,
                                     sr_tensor *dbeta, const sr_tensor *dy, const sr_tensor *sum,
                                     const sr_tensor *gamma, const sr_tensor *mean,
                                     const sr_tensor *rstd, const sr_layout *layout,
                                     sr_dropout drop) {
    int64_t rows = dy->shape[0], columns = dy->shape[1];
    double *dsum;
    SR_TRY(sr_new(&dsum, columns));
    for (int64_t t = 0; t < rows; t++) {
        ref_norm_row_backward(dsum, dgamma != NULL ? SR_DATA(double, dgamma) : NULL,
                              dbeta != NULL ? SR_DATA(double, dbeta) : NULL,
                              SR_DATA(double, dy) + t * columns, SR_DATA(double, sum) + t * columns,
                              SR_DATA(double, gamma), SR_DATA(double, mean)[t],
                              SR_DATA(double, rstd)[t], columns);
        for (int64_t h = 0; h < columns; h++) {
            if (dresidual != NULL) SR_DATA(double, dresidual)[t * columns + h] = dsum[h];
            if (dx != NULL)
                SR_DATA(double, dx)[t * columns + h] = dsum[h] * ref_drop_row(layout, drop, t, h);
        }
    }
    sr_free(dsum);
    return SR_OK;
}

sr_status ref_dropout(sr_tensor *y, const sr_tensor *x, const sr_layout *layout, sr_dropout drop) {
    int64_t rows = x->shape[0], columns = x->shape[1];
    for (int64_t t = 0; t < rows; t++) {
        const double *from = SR_DATA(double, x) + t * columns;
        double *to = SR_DATA(double, y) + t * columns;
        for (int64_t h = 0; h < columns; h++) to[h] = from[h] * ref_drop_row(layout, drop, t, h);
    }
    return SR_OK;
}
