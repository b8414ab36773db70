/* loss.c - weighted cross entropy, from given logits and from the tied decoder.
 *
 * Shapes   x (M, H)   word (V, H)   bias (V)   logits, dlogits (M, V)   labels (M) i32
 *          weights, nll, correct (M)   total ()
 *
 *   logits  = x word^T + bias                 nll_m = log sum_c exp(logits_mc) - logits_m,label
 *   total   = sum_m weights_m nll_m           correct_m = 1 if the first arg max is the label
 *   dlogits = weights_m (softmax - onehot)    (for dtotal = 1)
 *
 *   dx = dtotal dlogits word     dword += dtotal dlogits^T x     dbias += dtotal sum_m dlogits
 */
#include <math.h>

#include "core/base/mem.h"
#include "kernels/ref/ref.h"

typedef struct losses {
    double total, *nll, *correct, *dlogits;
    const double *weights;
    const int32_t *labels;
    int64_t classes;
} losses;

static losses start(sr_tensor *nll, sr_tensor *correct, sr_tensor *dlogits, const sr_tensor *labels,
                    const sr_tensor *weights, int64_t classes) {
    return (losses){.nll = SR_DATA(double, nll),
                    .correct = SR_DATA(double, correct),
                    .dlogits = dlogits != NULL ? SR_DATA(double, dlogits) : NULL,
                    .weights = SR_DATA(double, weights),
                    .labels = SR_DATA(int32_t, labels),
                    .classes = classes};
}

static sr_status loss_row(losses *l, const char *op, const double *logits, int64_t m) {
    int32_t label = l->labels[m];
    if (label < 0 || label >= l->classes)
        return sr_fail(SR_EINVAL, "%s: labels[%lld] is %d, but there are %lld classes", op,
                       (long long)m, label, (long long)l->classes);
    int64_t best = 0;
    double sum = 0;
    for (int64_t c = 1; c < l->classes; c++)
        if (logits[c] > logits[best]) best = c;
    for (int64_t c = 0; c < l->classes; c++) sum += exp(logits[c] - logits[best]);
    double lse = logits[best] + log(sum);
    l->nll[m] = lse - logits[label];
    l->correct[m] = best == label;
    l->total += l->weights[m] * l->nll[m];
    for (int64_t c = 0; l->dlogits != NULL && c < l->classes; c++)
        l->dlogits[m * l->classes + c] = l->weights[m] * (exp(logits[c] - lse) - (c == label));
    return SR_OK;
}

sr_status ref_cross_entropy(sr_tensor *total, sr_tensor *nll, sr_tensor *correct,
                            sr_tensor *dlogits, const sr_tensor *logits, const sr_tensor *labels,
                            const sr_tensor *weights) {
    losses l = start(nll, correct, dlogits, labels, weights, logits->shape[1]);
    for (int64_t m = 0; m < logits->shape[0]; m++)
        SR_TRY(loss_row(&l, "cross_entropy", SR_DATA(double, logits) + m * l.classes, m));
    SR_DATA(double, total)[0] = l.total;
    return SR_OK;
}

sr_status ref_mlm_loss(sr_tensor *total, sr_tensor *nll, sr_tensor *correct, sr_tensor *dlogits,
                       const sr_tensor *x, const sr_tensor *word, const sr_tensor *bias,
                       const sr_tensor *labels, const sr_tensor *weights) {
    int64_t hidden = x->shape[1];
    losses l = start(nll, correct, dlogits, labels, weights, word->shape[0]);
    double *logits = NULL;
    SR_TRY(sr_new(&logits, l.classes));
    sr_status st = SR_OK;
    for (int64_t m = 0; m < x->shape[0] && st == SR_OK; m++) {
        for (int64_t v = 0; v < l.classes; v++) {
            logits[v] = bias != NULL ? SR_DATA(double, bias)[v] : 0.0;
            for (int64_t h = 0; h < hidden; h++)
                logits[v] +=
                    SR_DATA(double, x)[m * hidden + h] * SR_DATA(double, word)[v * hidden + h];
        }
        st = loss_row(&l, "mlm_loss", logits, m);
        if (st == SR_OK) st = ref_poll("mlm_loss");
    }
    sr_free(logits);
    SR_DATA(double, total)[0] = l.total;
    return st;
}

sr_status ref_mlm_loss_backward(sr_tensor *dx, sr_tensor *dword, sr_tensor *dbias,
                                const sr_tensor *dtotal, const sr_tensor *dlogits,
                                const sr_tensor *x, const sr_tensor *word) {
    int64_t rows = x->shape[0], hidden = x->shape[1], classes = word->shape[0];
    if (dx != NULL) SR_TRY(ref_fill(dx, 0));
    for (int64_t m = 0; m < rows; m++) {
        SR_TRY(ref_poll("mlm_loss"));
        for (int64_t v = 0; v < classes; v++) {
            double g = SR_DATA(double, dtotal)[0] * SR_DATA(double, dlogits)[m * classes + v];
            if (dbias != NULL) SR_DATA(double, dbias)[v] += g;
            for (int64_t h = 0; h < hidden; h++) {
                int64_t at = m * hidden + h, in = v * hidden + h;
                if (dx != NULL) SR_DATA(double, dx)[at] += g * SR_DATA(double, word)[in];
                if (dword != NULL) SR_DATA(double, dword)[in] += g * SR_DATA(double, x)[at];
            }
        }
    }
    return SR_OK;
}
