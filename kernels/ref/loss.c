/* loss.c - weighted cross entropy: on logits at hand, and fused with the tied decoder.
 *
 *   nll_m = log sum_v exp(logit_mv) - logit_m,label      total = sum_m w_m nll_m
 *   dlogit_mv = w_m (p_mv - [v = label])
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/ref/ref.h"

/* What the loss of one row leaves behind. */
typedef struct outputs {
    sr_tensor *total, *nll, *correct, *dlogits;
} outputs;

static sr_status row_loss(const outputs *out, const double *logits, int64_t m, int64_t classes,
                          int32_t label, double weight) {
    if (label < 0 || label >= classes)
        return sr_fail(SR_EINVAL,
                       "cross entropy: row %" PRId64 " has label %" PRId32
                       ", but there are %" PRId64 " classes, counted from 0",
                       m, label, classes);
    int64_t best = 0;
    for (int64_t v = 1; v < classes; v++)
        if (logits[v] > logits[best]) best = v;
    double sum = 0;
    for (int64_t v = 0; v < classes; v++) sum += exp(logits[v] - logits[best]);
    double nll = log(sum) + logits[best] - logits[label];
    SR_DATA(double, out->nll)[m] = nll;
    SR_DATA(double, out->correct)[m] = best == label;
    SR_DATA(double, out->total)[0] += weight * nll;
    if (out->dlogits == NULL) return SR_OK;
    double *d = SR_DATA(double, out->dlogits) + m * classes;
    for (int64_t v = 0; v < classes; v++)
        d[v] = weight * (exp(logits[v] - logits[best]) / sum - (v == label));
    return SR_OK;
}

sr_status ref_cross_entropy(sr_tensor *total, sr_tensor *nll, sr_tensor *correct,
                            sr_tensor *dlogits, const sr_tensor *logits, const sr_tensor *labels,
                            const sr_tensor *weights) {
    outputs out = {total, nll, correct, dlogits};
    int64_t classes = logits->shape[1];
    SR_DATA(double, total)[0] = 0;
    for (int64_t m = 0; m < logits->shape[0]; m++)
        SR_TRY(row_loss(&out, SR_DATA(double, logits) + m * classes, m, classes,
                        SR_DATA(int32_t, labels)[m], SR_DATA(double, weights)[m]));
    return SR_OK;
}

sr_status ref_mlm_loss(sr_tensor *total, sr_tensor *nll, sr_tensor *correct, sr_tensor *dlogits,
                       const sr_tensor *x, const sr_tensor *word, const sr_tensor *bias,
                       const sr_tensor *labels, const sr_tensor *weights) {
    outputs out = {total, nll, correct, dlogits};
    int64_t columns = x->shape[1], vocabulary = word->shape[0];
    double *logits;
    SR_TRY(sr_new(&logits, vocabulary));
    sr_status st = SR_OK;
    SR_DATA(double, total)[0] = 0;
    for (int64_t m = 0; m < x->shape[0] && st == SR_OK; m++) {
        for (int64_t v = 0; v < vocabulary; v++) {
            logits[v] = SR_DATA(double, bias)[v];
            for (int64_t h = 0; h < columns; h++)
                logits[v] +=
                    SR_DATA(double, x)[m * columns + h] * SR_DATA(double, word)[v * columns + h];
        }
        st = row_loss(&out, logits, m, vocabulary, SR_DATA(int32_t, labels)[m],
                      SR_DATA(double, weights)[m]);
    }
    sr_free(logits);
    return st;
}

/* Row `row` of y += a x. */
static void add_scaled(sr_tensor *y, int64_t row, double a, const double *x, int64_t columns) {
    double *to = SR_DATA(double, y) + row * columns;
    for (int64_t h = 0; h < columns; h++) to[h] += a * x[h];
}

sr_status ref_mlm_loss_backward(sr_tensor *dx, sr_tensor *dword, sr_tensor *dbias,
                                const sr_tensor *dtotal, const sr_tensor *dlogits,
                                const sr_tensor *x, const sr_tensor *word) {
    int64_t rows = x->shape[0], columns = x->shape[1], vocabulary = word->shape[0];
    if (dx != NULL) memset(sr_tensor_data(dx), 0, (size_t)(rows * columns) * sizeof(double));
    for (int64_t m = 0; m < rows; m++) {
        for (int64_t v = 0; v < vocabulary; v++) {
            double d = SR_DATA(double, dtotal)[0] * SR_DATA(double, dlogits)[m * vocabulary + v];
            if (dbias != NULL) SR_DATA(double, dbias)[v] += d;
            if (dx != NULL) add_scaled(dx, m, d, SR_DATA(double, word) + v * columns, columns);
            if (dword != NULL) add_scaled(dword, v, d, SR_DATA(double, x) + m * columns, columns);
        }
    }
    return SR_OK;
}
