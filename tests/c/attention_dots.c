/* attention_dots.c - attention on bf16 with dot products of pairs, whose instruction is emulated.
 */
#define SR_ISA emulated
#define SR_EMULATE 1
#include "kernels/cpu/simd/dots.c"

/* Products of attention are not rounded. */
void act_bf16_emulated(const sr_rounded *to, const float *x, int64_t ld, int64_t rows, int64_t n) {
    (void)to, (void)x, (void)ld, (void)rows, (void)n;
    __builtin_trap();
}

#include "tests/c/attention.h"
