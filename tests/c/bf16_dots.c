/* bf16_dots.c - products by dot products of pairs, with the instruction emulated. */
#define SR_ISA emulated
#define SR_EMULATE 1
#include "kernels/cpu/simd/dots.c"
#include "tests/c/bf16.h"
