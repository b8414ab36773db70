/* fast.h - SR_FAST before a function compiles it for several vector instruction sets.
 *
 * Internal to core/pack, for loops whose result does not depend on the instruction set: each
 * element undergoes the same additions, multiplications and comparisons.
 */
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__)
#define SR_FAST __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define SR_FAST
#endif
