/* split_cuda.cu - candidates that cuBLASLt does not suggest: products whose depth is cut into
 * parts.
 *
 * The gradient of a weight has few elements and is as deep as a batch has rows: its tiles fill the
 * chip once and a half, say, and half of the chip idles in the second round.  Parts make more
 * tiles. Their sums meet in the workspace and are added in order, so the bits stay the same from
 * run to run.
 */
#include "kernels/cuda/tune_cuda.h"

enum { TILE = 128, SHALLOW = 512, BASES = 4 }; /* least depth of a part; suggestions to vary */

static const int32_t PARTS[] = {2, 3, 4, 6};

/* Whether the tiles of C fill the chip less than four times, so that a last round counts. */
static bool leaves_idle(const lt_product *p, int processors) {
    int64_t tiles = (p->m + TILE - 1) / TILE * ((p->n + TILE - 1) / TILE) * p->count;
    return tiles < 4 * (int64_t)processors;
}

static bool cut(cublasLtMatmulAlgo_t *algorithm, const lt_functions *lt, int32_t parts) {
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    return lt->MatmulAlgoConfigSetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts,
                                            sizeof parts) == CUBLAS_STATUS_SUCCESS &&
           lt->MatmulAlgoConfigSetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &sums,
                                            sizeof sums) == CUBLAS_STATUS_SUCCESS;
}

int split_candidates(cublasLtMatmulHeuristicResult_t *found, int count, int room, const products *p,
                     const lt_call *call, int processors) {
    const lt_product *l = &call->product;
    int bases = count < BASES ? count : BASES;
    if (!leaves_idle(l, processors)) return count;
    for (int32_t parts : PARTS)
        for (int i = 0; i < bases && count < room && l->k >= parts * SHALLOW; i++) {
            cublasLtMatmulAlgo_t algorithm = found[i].algo;
            if (cut(&algorithm, p->lt, parts) && tuner_takes(p, call, &algorithm))
                found[count++].algo = algorithm;
        }
    return count;
}
