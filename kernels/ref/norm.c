/* norm.c - residual add, dropout and layer or RMS norm; dropout alone.
 *
 * Shapes   x, residual, sum, y (T, H)   gamma, beta (H)   mean, rstd (T)
 *
 *   sum  = dropout(x) + residual
 *   mean, var over the H of a row (var divides by H);  rstd = 1 / sqrt(var + eps)
 *   y    = (sum - mean) rstd gamma + beta             beta is 0 where there is none
 *
 * Backward, with n = (sum - mean) rstd and g = dy gamma:
 *   ds   = rstd (g - mean_h(g) - n mean_h(g n)) + dsum, what the sum gets elsewhere, if anything
 *   dresidual = ds                                    dx = dropout(ds)
 *   dgamma += sum_t dy n                              dbeta += sum_t dy
 *
 * A row whose var and eps are both 0, as slack may be, has rstd = 0: y = beta, and no NaN that the
 * zero gradient of slack would carry into that of a weight.
 *
 * In an RMS norm mean is 0, hence rstd = 1 / sqrt(mean_h(sum^2) + eps), and mean_h(g) is left out.
 *
 * Slack rows are normalised like others, without dropout.  If a layout is given, their gradients
 * are zero and they contribute to no other gradient.
 */
#include <math.h>

#include "kernels/ref/ref.h"

void ref_norm_row(double *y, double *mean, double *rstd, const double *sum, const double *gamma,
                  const double *beta, int64_t columns, double eps) {
    double total = 0, squares = 0, m = 0;
    for (int64_t i = 0; mean != NULL && i < columns; i++) total += sum[i];
    if (mean != NULL) *mean = m = total / (double)columns;
    for (int64_t i = 0; i < columns; i++) squares += (sum[i] - m) * (sum[i] - m);
    double variance = squares / (double)columns + eps;
    *rstd = variance == 0 ? 0.0 : 1.0 / sqrt(variance);
    for (int64_t i = 0; i < columns; i++)
        y[i] = (sum[i] - m) * *rstd * gamma[i] + (beta != NULL ? beta[i] : 0.0);
}

void ref_norm_row_backward(double *dsum, double *dgamma, double *dbeta, const double *dy,
                           const double *sum, const double *gamma, const double *mean, double rstd,
                           int64_t columns) {
    double g_mean = 0, gn_mean = 0, m = mean != NULL ? *mean : 0;
    for (int64_t i = 0; i < columns; i++) {
        double n = (sum[i] - m) * rstd, g = dy[i] * gamma[i];
        if (mean != NULL) g_mean += g / (double)columns;
        gn_mean += g * n / (double)columns;
        if (dgamma != NULL) dgamma[i] += dy[i] * n;
        if (dbeta != NULL) dbeta[i] += dy[i];
    }
    for (int64_t i = 0; dsum != NULL && i < columns; i++) {
        double n = (sum[i] - m) * rstd;
        dsum[i] = rstd * (dy[i] * gamma[i] - g_mean - n * gn_mean);
    }
}

double *ref_element(const sr_tensor *t, int64_t i) {
    return t != NULL ? SR_DATA(double, t) + i : NULL;
}

sr_status ref_residual_norm(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                            const sr_tensor *x, const sr_tensor *residual, const sr_tensor *gamma,
                            const sr_tensor *beta, const sr_layout *layout, double eps,
                            sr_dropout drop) {
    int64_t rows = x->shape[0], columns = x->shape[1];
    for (int64_t t = 0; t < rows; t++) {
        const double *in = SR_DATA(double, x) + t * columns;
        if (sum != NULL) {
            double *s = SR_DATA(double, sum) + t * columns;
            for (int64_t i = 0; i < columns; i++) {
                double z = drop.keep < 256 ? ref_drop_row(layout, drop, t, i) : 1.0;
                s[i] = z != 0 ? z * in[i] : 0.0;
                if (residual != NULL) s[i] += SR_DATA(double, residual)[t * columns + i];
            }
            in = s;
        }
        ref_norm_row(SR_DATA(double, y) + t * columns, ref_element(mean, t),
                     SR_DATA(double, rstd) + t, in, SR_DATA(double, gamma), ref_element(beta, 0),
                     columns, eps);
    }
    return SR_OK;
}

sr_status ref_residual_norm_backward(sr_tensor *dx, sr_tensor *dresidual, sr_tensor *dgamma,
                                     sr_tensor *dbeta, sr_tensor *dbias, const sr_tensor *dy,
                                     const sr_tensor *dsum, const sr_tensor *sum,
                                     const sr_tensor *gamma, const sr_tensor *mean,
                                     const sr_tensor *rstd, const sr_layout *layout,
                                     sr_dropout drop) {
    int64_t rows = dy->shape[0], columns = dy->shape[1];
    for (int64_t t = 0; t < rows; t++) {
        int64_t at = t * columns;
        double *px = ref_element(dx, at), *pr = ref_element(dresidual, at);
        double *ds = pr != NULL ? pr : px;
        bool slack = layout != NULL && layout->owner[t] < 0;
        if (slack) {
            for (int64_t i = 0; px != NULL && i < columns; i++) px[i] = 0;
            for (int64_t i = 0; pr != NULL && i < columns; i++) pr[i] = 0;
            continue;
        }
        ref_norm_row_backward(ds, ref_element(dgamma, 0), ref_element(dbeta, 0),
                              SR_DATA(double, dy) + at, SR_DATA(double, sum) + at,
                              SR_DATA(double, gamma), ref_element(mean, t),
                              SR_DATA(double, rstd)[t], columns);
        for (int64_t i = 0; ds != NULL && dsum != NULL && i < columns; i++)
            ds[i] += SR_DATA(double, dsum)[at + i];
        for (int64_t i = 0; px != NULL && i < columns; i++)
            px[i] = ds[i] * (drop.keep < 256 ? ref_drop_row(layout, drop, t, i) : 1.0);
        const double *sums = px != NULL ? px : ds; /* without dropout both are one tensor */
        for (int64_t i = 0; dbias != NULL && i < columns; i++) SR_DATA(double, dbias)[i] += sums[i];
    }
    return SR_OK;
}

/* Slack rows become zero: forward and backward are the same function, and slack has no gradient. */
sr_status ref_dropout(sr_tensor *y, const sr_tensor *x, const sr_layout *layout, sr_dropout drop) {
    int64_t rows = x->shape[0], columns = x->shape[1];
    for (int64_t t = 0; t < rows; t++) {
        for (int64_t i = 0; i < columns; i++) {
            double z = layout->owner[t] >= 0 ? ref_drop_row(layout, drop, t, i) : 0.0;
            SR_DATA(double, y)
            [t * columns + i] = z != 0 ? z * SR_DATA(double, x)[t * columns + i] : 0.0;
        }
    }
    return SR_OK;
}
