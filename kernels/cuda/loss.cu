/* loss.cu - weighted cross entropy, from given logits and from the tied decoder.
 *
 * Shapes    x (M, H), word (V, H), bias (V), logits, dlogits (M, V) f32 or bf16, labels (M)
 * Traffic   the decoder's logits are f32 and exist for a chunk of rows at a time; a row is read
 *           twice, the second time from the cache, and its gradient written once: 4 + 4 + 2 bytes
 *           per logit in bf16.
 * Grid      a team of warps per row: one for small C, sixteen for a vocabulary.
 * Numerics  f32: maximum and sum of exponentials in one pass; `total` in f64 in a fixed order.
 *           Logits are not rounded before the loss, whatever the dtype.
 */
#include "kernels/cuda/activation.h"
#include "kernels/cuda/team.cuh"
#include "kernels/cuda/sums.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gpu.h"

enum { TOTAL_THREADS = 512, SCRATCH_LOGITS = 0, LOGIT_BYTES = 32 << 20, CHUNK_ROWS = 128 };

namespace {

template <class L, class T> struct entropy_job {
    global<float> nll, correct;
    global<T> dlogits; /* or null */
    global<const L> logits;
    global<const T> bias; /* added to the logits; or null */
    global<const int32_t> labels;
    global<const float> weights;
    size_t stride, dstride; /* elements between rows of logits and dlogits */
    int rows, columns, warps;
    int first; /* the row of the batch that row 0 is, for faults */
    fault_code code;
    fault_at faults;
};

/* Largest logit, where it is first, and the sum of exp(x - most). */
struct entropy_state {
    float most, sum;
    int best;
};

} // namespace

/* exp(x - most); minus infinity gives 0 even where all are. */
DEV float entropy_exp(float x, float most) {
    return math_exp(x - (most == -INFINITY ? 0.0f : most));
}

/* v = eight logits of a row, fewer at its end. */
template <bool VECTOR, class L, class T>
DEV void entropy_read(float (&v)[EIGHT], const entropy_job<L, T> &a, int row, int column) {
    int left = a.columns - column;
    size_t at = (size_t)row * a.stride + column;
    bool whole = VECTOR && left >= EIGHT;
    float b[EIGHT] = {};
    if (whole)
        read8<true>(v, a.logits, at, left);
    else
        read8<false>(v, a.logits, at, left);
    if (a.bias && whole)
        read8<true>(b, a.bias, (size_t)column, left);
    else if (a.bias)
        read8<false>(b, a.bias, (size_t)column, left);
    for (int i = 0; i < EIGHT; i++) v[i] += b[i];
}

/* Adds columns from `column` on, ascending within a thread. */
DEV void entropy_add(entropy_state &s, const float (&v)[EIGHT], int column, int left) {
    float most = s.most;
    for (int i = 0; i < EIGHT; i++)
        if (i < left && v[i] > most) {
            most = v[i];
            s.best = column + i;
        }
    float sum = s.sum * entropy_exp(s.most, most);
    for (int i = 0; i < EIGHT; i++)
        if (i < left) sum += entropy_exp(v[i], most);
    s.most = most;
    s.sum = sum;
}

DEV void entropy_take(entropy_state &s, float most, int best) {
    if (most > s.most || (most == s.most && best < s.best)) {
        s.most = most;
        s.best = best;
    }
}

/* Joins the threads of a team: all get the row's state. */
DEV void entropy_join(entropy_state &s, const team &t) {
    shared<float> room = shared_at<float>(0, 2 * TEAM_WARPS);
    shared<int32_t> best = shared_at<int32_t>(2 * TEAM_WARPS * (int)sizeof(float), TEAM_WARPS);
    float own = s.most;
    for (int mask = 16; mask > 0; mask >>= 1) {
        float most = shuffle_xor(s.most, mask);
        entropy_take(s, most, shuffle_xor(s.best, mask));
    }
    if (t.warps > 1) {
        if (lane() == 0) {
            room[warp()] = s.most;
            best[warp()] = s.best;
        }
        barrier();
        for (int w = 0; w < t.warps; w++)
            entropy_take(s, room[t.index * t.warps + w], best[t.index * t.warps + w]);
    }
    s.sum = team_sum(t, s.sum * entropy_exp(own, s.most), room + TEAM_WARPS);
}

/* The row's loss; a label out of range is reported. */
template <class L, class T>
DEV void entropy_store(const entropy_job<L, T> &a, const entropy_state &s, int row, int label) {
    if (label < 0 || label >= a.columns) {
        fault(a.faults, a.code, (size_t)(a.first + row), label, a.columns);
        return;
    }
    float target = to_float(a.logits[(size_t)row * a.stride + label]);
    if (a.bias) target += to_float(a.bias[label]);
    a.nll[row] = math_log(s.sum) + s.most - target;
    a.correct[row] = s.best == label ? 1.0f : 0.0f;
}

template <class L, class T, bool VECTOR>
KERNEL(TEAM_THREADS, 2)
void entropy_rows(entropy_job<L, T> a) {
    team t = team_of(a.warps);
    int row = block_x() * t.count + t.index;
    float v[EIGHT];
    entropy_state s = {-INFINITY, 0.0f, a.columns};
    for (int c = t.rank * EIGHT; row < a.rows && c < a.columns; c += t.size * EIGHT) {
        entropy_read<VECTOR>(v, a, row, c);
        entropy_add(s, v, c, a.columns - c);
    }
    entropy_join(s, t);
    if (row >= a.rows) return;
    int label = a.labels[row];
    float weight = a.weights[row], scale = weight / s.sum;
    if (t.rank == 0) entropy_store(a, s, row, label);
    for (int c = t.rank * EIGHT; a.dlogits && c < a.columns; c += t.size * EIGHT) {
        entropy_read<VECTOR>(v, a, row, c);
        for (int i = 0; i < EIGHT; i++) {
            float d = entropy_exp(v[i], s.most) * scale - (c + i == label ? weight : 0.0f);
            v[i] = c + i < a.columns ? d : 0.0f; /* padding of the row */
        }
        write8<VECTOR>(a.dlogits, (size_t)row * a.dstride + c, v, (int)a.dstride - c);
    }
}

/* total = sum of weights[m] nll[m] */
KERNEL(TOTAL_THREADS, 1)
void entropy_total(global<float> total, readonly<float> nll, readonly<float> weights, int rows) {
    double sum = 0.0;
    for (int m = thread(); m < rows; m += TOTAL_THREADS) sum += (double)weights[m] * (double)nll[m];
    sum = join_block(shared_at<double>(0, TOTAL_THREADS), sum, add_f64());
    if (thread() == 0) total[0] = (float)sum;
}

/* ---- host ------------------------------------------------------------------------------------ */

template <class L, class T> static sr_status entropy(gpu *g, const char *op, entropy_job<L, T> a) {
    bool vectors = in_vectors(raw(a.logits), (int64_t)a.stride) &&
                   in_vectors(raw(a.dlogits), (int64_t)a.dstride) && in_vectors(raw(a.bias), 0);
    int warps = team_warps(a.columns, 1);
    a.warps = warps < TEAM_WARPS ? warps : TEAM_WARPS;
    int threads = team_block(a.warps), teams = threads / 32 / a.warps;
    size_t room = (2 * sizeof(float) + sizeof(int32_t)) * TEAM_WARPS;
    return launch(g, op, vectors ? entropy_rows<L, T, true> : entropy_rows<L, T, false>,
                  dim(ceil_div(a.rows, teams)), threads, room, a);
}

static sr_status add_up(gpu *g, const char *op, sr_tensor *total, const sr_tensor *nll,
                        const sr_tensor *weights) {
    return launch(g, op, entropy_total, 1, TOTAL_THREADS, TOTAL_THREADS * sizeof(double),
                  out<float>(total), in<float>(nll), in<float>(weights), (int)nll->shape[0]);
}

/* ---- given logits ---------------------------------------------------------------------------- */

template <class T>
static sr_status entropy_of_logits(sr_tensor *nll, sr_tensor *correct, sr_tensor *dlogits,
                                   const sr_tensor *logits, const sr_tensor *labels,
                                   const sr_tensor *weights) {
    gpu *g = gpu_of(nll);
    size_t columns = (size_t)logits->shape[1];
    entropy_job<T, T> a = {out<float>(nll),
                           out<float>(correct),
                           out<T>(dlogits),
                           in<T>(logits),
                           nullptr,
                           in<int32_t>(labels),
                           in<float>(weights),
                           columns,
                           columns,
                           (int)logits->shape[0],
                           (int)columns,
                           0,
                           0,
                           FAULT_CROSS_ENTROPY_LABEL,
                           faults(g)};
    return entropy(g, "cross_entropy", a);
}

sr_status gpu_cross_entropy(sr_tensor *total, sr_tensor *nll, sr_tensor *correct,
                            sr_tensor *dlogits, const sr_tensor *logits, const sr_tensor *labels,
                            const sr_tensor *weights) {
    SR_TRY((logits->dtype == SR_BF16
                ? entropy_of_logits<bf16>
                : entropy_of_logits<float>)(nll, correct, dlogits, logits, labels, weights));
    return add_up(gpu_of(total), "cross_entropy", total, nll, weights);
}

/* ---- the tied decoder ------------------------------------------------------------------------ */

/* Rows whose f32 logits are in memory at a time: chosen by shape, so that a loss without gradient
 * has the same bits. */
static int64_t chunk_rows(int64_t rows, int64_t stride) {
    int64_t most = (int64_t)LOGIT_BYTES / (int64_t)sizeof(float) / stride / CHUNK_ROWS * CHUNK_ROWS;
    if (most < CHUNK_ROWS) most = CHUNK_ROWS;
    return rows < most ? rows : most;
}

template <class T>
static sr_status decode(sr_tensor *nll, sr_tensor *correct, sr_tensor *dlogits, const sr_tensor *x,
                        const sr_tensor *word, const sr_tensor *bias, const sr_tensor *labels,
                        const sr_tensor *weights) {
    gpu *g = gpu_of(nll);
    int64_t rows = x->shape[0], columns = word->shape[0], stride = (columns + 7) / 8 * 8;
    int64_t dstride = dlogits != nullptr ? dlogits->stride[0] : 0, chunk = chunk_rows(rows, stride);
    fault_at at = faults(g);
    global<float> logits;
    SR_TRY(scratch(&logits, g, SCRATCH_LOGITS, (size_t)(chunk * stride)));
    for (int64_t m = 0; m < rows; m += chunk) {
        int64_t some = rows - m < chunk ? rows - m : chunk;
        matrix c = matrix_at(raw(logits), SR_F32, some, columns);
        c.row = stride;
        product p = product_of(c, rows_of(matrix_of(x), m, some), transposed(matrix_of(word)));
        SR_TRY(gemm(g, "mlm_loss", &p));
        entropy_job<float, T> a = {out<float>(nll) + m,
                                   out<float>(correct) + m,
                                   nullptr,
                                   logits,
                                   in<T>(bias),
                                   in<int32_t>(labels) + m,
                                   in<float>(weights) + m,
                                   (size_t)stride,
                                   (size_t)dstride,
                                   (int)some,
                                   (int)columns,
                                   0,
                                   (int)m,
                                   FAULT_MLM_LABEL,
                                   at};
        if (dlogits != nullptr)
            a.dlogits = gpu_pointer(SR_DATA(T, dlogits) + m * dstride, (size_t)(some * dstride));
        SR_TRY(entropy(g, "mlm_loss", a));
    }
    return SR_OK;
}

sr_status gpu_mlm_loss(sr_tensor *total, sr_tensor *nll, sr_tensor *correct, sr_tensor *dlogits,
                       const sr_tensor *x, const sr_tensor *word, const sr_tensor *bias,
                       const sr_tensor *labels, const sr_tensor *weights) {
    if (x->shape[0] > 0)
        SR_TRY((x->dtype == SR_BF16 ? decode<bf16> : decode<float>)(nll, correct, dlogits, x, word,
                                                                    bias, labels, weights));
    return add_up(gpu_of(total), "mlm_loss", total, nll, weights);
}

sr_status gpu_mlm_loss_backward(sr_tensor *dx, sr_tensor *dword, sr_tensor *dbias,
                                const sr_tensor *dtotal, const sr_tensor *dlogits,
                                const sr_tensor *x, const sr_tensor *word) {
    gpu *g = gpu_of(dlogits);
    int64_t rows = x->shape[0];
    const float *factor = SR_DATA(const float, dtotal);
    if (rows == 0) return SR_OK;
    if (dx != nullptr) {
        product p = product_of(matrix_of(dx), matrix_of(dlogits), matrix_of(word));
        p.alpha_at = factor;
        SR_TRY(gemm(g, "mlm_loss", &p));
    }
    if (dword != nullptr) {
        product p = product_of(matrix_of(dword), transposed(matrix_of(dlogits)), matrix_of(x));
        p.alpha_at = factor;
        p.add = true;
        SR_TRY(gemm(g, "mlm_loss", &p));
    }
    if (dbias == nullptr) return SR_OK;
    return add_columns(g, "mlm_loss", SR_DATA(float, dbias), sr_tensor_data(dlogits), factor,
                       dlogits->dtype, rows, dbias->shape[0], dlogits->stride[0]);
}
