/* bf16_tiles.c - products on AMX, with the instructions emulated. */
#define SR_ISA emulated
#define SR_EMULATE 2
#include "kernels/cpu/simd/tiles.c"
#include "tests/c/bf16.h"
