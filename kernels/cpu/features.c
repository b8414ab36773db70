/* features.c - what each instruction set needs from the processor and the operating system, and the
 * first thing that is missing. */
#include "kernels/cpu/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { YMM = 0x6, ZMM = 0xE6, TILES = 0x60000 }; /* register sets in XCR0 */
enum { BF16 = 1u << 5, AMX = 1u << 24 | 1u << 22 };

/* Sets ascend: each needs everything listed up to it.  The code of a set is compiled with these
 * instructions and no others (ISA_* in the Makefile): Skylake and Cascade Lake have no VBMI. */
static const struct {
    int isa;
    sr_cpu_word word;
    uint32_t bits;
    const char *lack;
} needs[] = {
    {SR_ISA_AVX2, SR_WORD_1C, bit_AVX, "the processor lacks AVX2"},
    {SR_ISA_AVX2, SR_WORD_7B, bit_AVX2, "the processor lacks AVX2"},
    {SR_ISA_AVX2, SR_WORD_1C, bit_FMA, "the processor lacks FMA"},
    {SR_ISA_AVX2, SR_WORD_1C, bit_F16C, "the processor lacks F16C"},
    {SR_ISA_AVX2, SR_WORD_SAVED, YMM, "the system does not save AVX registers"},
    {SR_ISA_AVX512, SR_WORD_7B, bit_AVX512F, "the processor lacks AVX-512"},
    {SR_ISA_AVX512, SR_WORD_7B, bit_AVX512BW, "the processor lacks AVX-512 BW"},
    {SR_ISA_AVX512, SR_WORD_7B, bit_AVX512DQ, "the processor lacks AVX-512 DQ"},
    {SR_ISA_AVX512, SR_WORD_7B, bit_AVX512VL, "the processor lacks AVX-512 VL"},
    {SR_ISA_AVX512, SR_WORD_SAVED, ZMM, "the system does not save AVX-512 registers"},
    {SR_ISA_DOTS, SR_WORD_71A, BF16, "the processor lacks AVX-512 BF16"},
    {SR_ISA_AMX, SR_WORD_7D, AMX, "the processor lacks AMX"},
    {SR_ISA_AMX, SR_WORD_SAVED, TILES, "the system does not save tiles"},
};

const char *sr_cpu_lack(const uint32_t words[SR_WORDS], int isa) {
    for (size_t i = 0; i < sizeof needs / sizeof *needs && needs[i].isa <= isa; i++)
        if ((words[needs[i].word] & needs[i].bits) != needs[i].bits) return needs[i].lack;
    return NULL;
}

/* The low half of XCR0: the register sets that the operating system saves; 0 if it says nothing. */
static uint32_t saved_states(uint32_t word_1c) {
    uint32_t low, high;
    if (!(word_1c & bit_OSXSAVE)) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

void sr_cpu_words(uint32_t words[SR_WORDS]) {
    unsigned a, b, c, d;
    for (int i = 0; i < SR_WORDS; i++) words[i] = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    words[SR_WORD_1C] = c;
    words[SR_WORD_SAVED] = saved_states(c);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    words[SR_WORD_7B] = b;
    words[SR_WORD_7D] = d;
    if (a < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d)) return;
    words[SR_WORD_71A] = a;
}

bool sr_cpu_may_use_tiles(void) {
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return false;
#endif
}

#else

const char *sr_cpu_lack(const uint32_t words[SR_WORDS], int isa) {
    (void)words;
    return isa == SR_ISA_PLAIN ? NULL : "the processor is not an x86";
}

void sr_cpu_words(uint32_t words[SR_WORDS]) {
    for (int i = 0; i < SR_WORDS; i++) words[i] = 0;
}

bool sr_cpu_may_use_tiles(void) {
    return false;
}
#endif
