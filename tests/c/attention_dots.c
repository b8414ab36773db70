/* attention_dots.c - attention on bf16 with dot products of pairs, whose instruction is emulated.
 */
#define SR_ISA emulated
#define SR_EMULATE 1
#include "kernels/cpu/simd/dots.c"
#include "tests/support/attention.h"
