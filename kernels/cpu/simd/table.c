/* table.c - the functions of one instruction class. */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/lanes.h"
#include "kernels/cpu/simd/low.h"

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

/* Each function of sr_simd, as SR_SIMD(name). */
#define DECLARE(type, name, ...) type SR_SIMD(name)(__VA_ARGS__);
SR_SIMD_FUNCTIONS(DECLARE)

#define ENTRY(type, name, ...) .name = SR_SIMD(name),
const sr_simd SR_SIMD(sr_simd) = {.name = TEXT(SR_ISA),
                                  .tile_rows = TILE_M,
                                  .low_rows = LOW_ROWS,
                                  .low_k = LOW_K,
                                  .low_bytes = LOW_BYTES,
                                  .low_depth = LOW_DEPTH,
                                  .tiles = LOW_K == 32,
                                  SR_SIMD_FUNCTIONS(ENTRY)};
