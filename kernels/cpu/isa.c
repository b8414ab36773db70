/* isa.c - chooses the instruction class, by processor, operating system and SEQRUN_ISA. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

extern const sr_simd sr_simd_plain;
#if defined(__x86_64__)
#include <cpuid.h>
extern const sr_simd sr_simd_avx2, sr_simd_avx512;

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

static int highest_class(void) {
    enum { YMM = 0x6, ZMM = 0xE6, VBMI = 1u << 1 };
    unsigned a, b, c, d, b7, c7;
    uint64_t saved = saved_states();
    if (!__get_cpuid(1, &a, &b, &c, &d) || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d)) return 0;
    if ((saved & YMM) != YMM || !has(c, bit_AVX | bit_FMA | bit_F16C) || !has(b7, bit_AVX2))
        return 0;
    if ((saved & ZMM) != ZMM || !has(c7, VBMI) ||
        !has(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL))
        return 1;
    return 2;
}

static const sr_simd *const classes[] = {&sr_simd_plain, &sr_simd_avx2, &sr_simd_avx512};
#else
static int highest_class(void) {
    return 0;
}
static const sr_simd *const classes[] = {&sr_simd_plain};
#endif

const sr_simd *sr_cpu_simd(void) {
    int class = highest_class();
    const char *wanted = getenv("SEQRUN_ISA");
    for (int i = 0; wanted != NULL && i < class; i++)
        if (strcmp(wanted, classes[i]->name) == 0) class = i;
    return classes[class];
}

sr_status sr_cpu_check_isa(void) {
    static const char *const names[] = {"", "plain", "avx2", "avx512"};
    const char *wanted = getenv("SEQRUN_ISA");
    for (size_t i = 0; wanted != NULL && i < sizeof names / sizeof *names; i++)
        if (strcmp(wanted, names[i]) == 0) return SR_OK;
    if (wanted == NULL) return SR_OK;
    return sr_fail(SR_EDEVICE, "cpu: SEQRUN_ISA is '%s'; use plain, avx2 or avx512, or unset it",
                   wanted);
}

const char *sr_cpu_isa(void) {
    return sr_cpu_simd()->name;
}
