/* attention_tiles.c - attention on bf16 with the products of AMX, whose instructions are emulated.
 */
#define SR_ISA emulated
#define SR_EMULATE 2
#include "kernels/cpu/simd/tiles.c"
#include "tests/c/attention.h"
