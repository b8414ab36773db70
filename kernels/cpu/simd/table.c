/* table.c - the functions of one instruction set. */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/lanes.h"
#include "kernels/cpu/simd/bf16.h"

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

/* Each function of sr_simd, as SR_SIMD(name). */
#define DECLARE(type, name, ...) type SR_SIMD(name)(__VA_ARGS__);
SR_SIMD_FUNCTIONS(DECLARE)

#define ENTRY(type, name, ...) .name = SR_SIMD(name),
const sr_simd SR_SIMD(sr_simd) = {.name = TEXT(SR_ISA),
                                  .tile_rows = TILE_M,
                                  .bf16_rows = BF16_ROWS,
                                  .bf16_k = BF16_K,
                                  .bf16_bytes = BF16_BYTES,
                                  .bf16_depth = BF16_DEPTH,
                                  .bf16_rounds = BF16_K == 2,
                                  .tiles = BF16_K == 32,
                                  SR_SIMD_FUNCTIONS(ENTRY)};
