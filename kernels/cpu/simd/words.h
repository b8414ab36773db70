/* words.h - what packing of bf16 reads and writes: 32-bit words, each a float or a pair of
 * neighbours in k.
 */
#pragma once

#include "core/tensor/dtype.h"
#include "kernels/cpu/simd/bf16.h"

enum { UNIT = BF16_BYTES == 4 ? 1 : 2 }; /* elements of k in a word */

/* Words of a block: (r, x) has element k = UNIT x of row r, and its neighbour if UNIT is 2. */
typedef struct source {
    const sr_bf16 *at;
    int64_t row, column; /* element strides; one of them is usually 1 */
    int64_t rows, k;
} source;

typedef struct target {
    uint32_t *at;
    int64_t row, column; /* word strides; one of them is 1 */
    int64_t rows, words; /* beyond the source: zeros */
} target;

INLINE uint32_t word(const source *s, int64_t r, int64_t x) {
    if (r >= s->rows || UNIT * x >= s->k) return 0;
    const sr_bf16 *p = s->at + r * s->row + UNIT * x * s->column;
    if (UNIT == 1) return (uint32_t)p[0] << 16;
    return p[0] | (UNIT * x + 1 < s->k ? (uint32_t)p[s->column] << 16 : 0);
}
