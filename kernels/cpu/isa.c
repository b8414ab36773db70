/* isa.c - chooses the instruction class, by processor, operating system and SEQRUN_ISA. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

extern const sr_simd sr_simd_plain;
#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
extern const sr_simd sr_simd_avx2, sr_simd_avx512, sr_simd_avx512_bf16, sr_simd_amx;

/* The register sets that the operating system saves, or 0. */
static uint64_t saved_states(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has(unsigned word, unsigned bits) {
    return (word & bits) == bits;
}

/* Permission to use tiles, which Linux grants to a process on request. */
static bool may_use_tiles(void) {
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return false;
#endif
}

/* The highest class of those below `limit`, so that tiles are asked for only if wanted. */
static int highest_class(int limit) {
    enum { YMM = 0x6, ZMM = 0xE6, TILES = 0x60000, VBMI = 1u << 1, BF16 = 1u << 5 };
    enum { AMX = 1u << 22 | 1u << 24 }; /* bf16, tile */
    unsigned a, b, c, d, a7, b7, c7, d7;
    uint64_t saved = saved_states();
    if (!__get_cpuid(1, &a, &b, &c, &d) || !__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7)) return 0;
    if ((saved & YMM) != YMM || !has(c, bit_AVX | bit_FMA | bit_F16C) || !has(b7, bit_AVX2))
        return 0;
    if ((saved & ZMM) != ZMM || !has(c7, VBMI) ||
        !has(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL))
        return 1;
    if (a7 < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d) || !has(a, BF16)) return 2;
    if (limit < 4 || (saved & TILES) != TILES || !has(d7, AMX) || !may_use_tiles()) return 3;
    return 4;
}

static const sr_simd *const classes[] = {&sr_simd_plain, &sr_simd_avx2, &sr_simd_avx512,
                                         &sr_simd_avx512_bf16, &sr_simd_amx};
#else
static int highest_class(int limit) {
    (void)limit;
    return 0;
}
static const sr_simd *const classes[] = {&sr_simd_plain};
#endif

/* Returns the number of the class that SEQRUN_ISA names, -1 for a misspelled one.  AMX must be
 * asked for: its products have only been run with the instructions emulated. */
static int wanted_class(void) {
    static const char *const names[] = {"plain", "avx2", "avx512", "avx512_bf16", "amx"};
    enum { COUNT = sizeof names / sizeof *names, DEFAULT = 3 };
    const char *wanted = getenv("SEQRUN_ISA");
    if (wanted == NULL || *wanted == 0) return DEFAULT;
    for (int i = 0; i < COUNT; i++)
        if (strcmp(wanted, names[i]) == 0) return i;
    return -1;
}

/* Whether a product of small whole numbers, which is exact, comes out right.  A virtual machine may
 * announce instructions that its host lacks or emulates badly. */
static bool multiplies_bf16(const sr_simd *simd) {
    enum { M = 17, N = 18, K = 36, ROOM = 32 * 64 };
    sr_bf16 a[M * K], b[K * N], pa[ROOM] __attribute__((aligned(64))),
        pb[ROOM] __attribute__((aligned(64)));
    float c[M * N];
    for (int i = 0; i < M * K; i++) a[i] = sr_bf16_from_f32((float)(i % 7 - 3));
    for (int i = 0; i < K * N; i++) b[i] = sr_bf16_from_f32((float)(i % 5 - 2));
    simd->pack_a_low(pa, a, K, 1, M, K);
    simd->pack_b_low(pb, b, N, 1, K, N);
    simd->gemm_low(
        &(sr_gemm){.c = c, .a = pa, .b = pb, .ldc = N, .m = M, .n = N, .k = K, .alpha = 1});
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++)
            sum += (float)((i / N * K + k) % 7 - 3) * (float)((k * N + i % N) % 5 - 2);
        if (c[i] != sum) return false;
    }
    return true;
}

const sr_simd *sr_cpu_simd(void) {
    int wanted = wanted_class(), class = highest_class(wanted);
    if (wanted >= 0 && wanted < class) class = wanted;
    while (class > 2 && !multiplies_bf16(classes[class])) class --;
    return classes[class];
}

sr_status sr_cpu_check_isa(void) {
    if (wanted_class() >= 0) return SR_OK;
    return sr_fail(SR_EDEVICE,
                   "cpu: SEQRUN_ISA is '%s'; use plain, avx2, avx512, avx512_bf16 or amx, or unset "
                   "it",
                   getenv("SEQRUN_ISA"));
}

const char *sr_cpu_isa(void) {
    return sr_cpu_simd()->name;
}
