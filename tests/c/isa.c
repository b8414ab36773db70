/* isa.c - which instruction set is chosen, on machines that are made up, and on this one. */
#include <stdlib.h>

#include "kernels/cpu/cpu.h"
#include "tests/support/check.h"

static int has;                          /* the best set of the processor */
static const char *broken[SR_ISA_COUNT]; /* what is wrong with each set */
static double gain;                      /* of dot products */
static int measured, asked[SR_ISA_COUNT];

static const char *lack(int isa) {
    return isa > has ? "lacks it" : NULL;
}

static const char *problem(int isa) {
    asked[isa]++;
    return broken[isa];
}
static double gain_of_dots(void) {
    measured++;
    return gain;
}

/* The set that is chosen, with the reason that is given. */
static void check_choice(int best, int limit, int isa, const char *reason) {
    sr_cpu_machine machine = {lack, problem, gain_of_dots};
    sr_cpu_choice choice;
    char text[SR_REASON];
    has = best;
    measured = 0;
    memset(asked, 0, sizeof asked);
    sr_cpu_choose(&choice, &machine, limit);
    sr_cpu_explain(text, &choice, choice.isa);
    CHECK(choice.isa == isa);
    CHECK(strcmp(text, reason) == 0);
    if (strcmp(text, reason) != 0) printf("  reason: %s\n", text);
}

static void test_choice(void) {
    gain = 2;
    check_choice(SR_ISA_PLAIN, -1, SR_ISA_PLAIN, "amx, avx512_bf16, avx512, avx2: lacks it");
    check_choice(SR_ISA_AVX2, -1, SR_ISA_AVX2, "amx, avx512_bf16, avx512: lacks it");
    check_choice(SR_ISA_DOTS, -1, SR_ISA_DOTS, "amx: lacks it");
    CHECK(measured == 1);
    check_choice(SR_ISA_AMX, -1, SR_ISA_AMX, "");
    CHECK(measured == 0);
    broken[SR_ISA_AMX] = "no permission";
    check_choice(SR_ISA_AMX, -1, SR_ISA_DOTS, "amx: no permission");
    gain = 0.5;
    check_choice(SR_ISA_AMX, -1, SR_ISA_AVX512,
                 "amx: no permission; avx512_bf16: dot products run at 0.5 times the rate of f32");
    broken[SR_ISA_DOTS] = "wrong";
    check_choice(SR_ISA_AMX, -1, SR_ISA_AVX512, "amx: no permission; avx512_bf16: wrong");
    CHECK(measured == 0);
    broken[SR_ISA_AMX] = broken[SR_ISA_DOTS] = NULL;
}

/* A named set is taken without measuring, a lower one without trying higher ones. */
static void test_named(void) {
    gain = 0.5;
    check_choice(SR_ISA_AMX, SR_ISA_DOTS, SR_ISA_DOTS, "amx: SEQRUN_ISA is avx512_bf16");
    CHECK(measured == 0 && asked[SR_ISA_AMX] == 0 && asked[SR_ISA_DOTS] == 1);
    check_choice(SR_ISA_DOTS, SR_ISA_AVX2, SR_ISA_AVX2,
                 "amx: lacks it; avx512_bf16, avx512: SEQRUN_ISA is avx2");
    CHECK(asked[SR_ISA_DOTS] == 0);
    check_choice(SR_ISA_AVX2, SR_ISA_AMX, SR_ISA_AVX2, "amx, avx512_bf16, avx512: lacks it");
    check_choice(SR_ISA_DOTS, SR_ISA_AMX, SR_ISA_DOTS, "amx: lacks it");
    broken[SR_ISA_AMX] = "no permission";
    check_choice(SR_ISA_AMX, SR_ISA_AMX, SR_ISA_DOTS, "amx: no permission");
    CHECK(measured == 0);
    broken[SR_ISA_AMX] = NULL;
}

/* A device that a run gave a lower set than its own. */
static void test_explain(void) {
    sr_cpu_choice choice = {.isa = SR_ISA_DOTS, .why = {[SR_ISA_AMX] = "lacks it"}};
    char text[SR_REASON];
    sr_cpu_explain(text, &choice, SR_ISA_AVX2);
    CHECK(strcmp(text, "amx: lacks it; avx512_bf16, avx512: instructions is avx2 in the run's "
                       "config") == 0);
    choice.isa = SR_ISA_AVX512;
    strcpy(choice.why[SR_ISA_DOTS], "slow");
    sr_cpu_explain(text, &choice, SR_ISA_DOTS); /* a higher set than its own */
    CHECK(strcmp(text, "amx: lacks it") == 0);
    sr_cpu_explain(text, &choice, SR_ISA_AMX);
    CHECK(text[0] == '\0');
    memset(choice.why, 'x', sizeof choice.why);
    for (int i = 0; i < SR_ISA_COUNT; i++)
        choice.why[i][0] = (char)('a' + i), choice.why[i][SR_WHY - 1] = 0;
    choice.isa = SR_ISA_PLAIN;
    sr_cpu_explain(text, &choice, SR_ISA_PLAIN); /* the longest reason fits */
    CHECK(strlen(text) == strlen("amx: ; avx512_bf16: ; avx512: ; avx2: ") + 4 * (SR_WHY - 1));
}

#if defined(__x86_64__)
/* The best set of a processor and system by their words, and what it lacks for the next. */
static void check_words(const uint32_t words[SR_WORDS], int isa, const char *lack_of_next) {
    for (int c = SR_ISA_PLAIN; c <= isa; c++) CHECK(sr_cpu_lack(words, c) == NULL);
    for (int c = isa + 1; c < SR_ISA_COUNT; c++) {
        const char *why = sr_cpu_lack(words, c);
        CHECK(why != NULL && strcmp(why, lack_of_next) == 0);
        if (why != NULL && strcmp(why, lack_of_next) != 0) printf("  %d lacks: %s\n", c, why);
    }
}

/* Words of processors, with systems that save all that these have. */
static void test_words(void) {
    enum { AVX = 1u << 28, FMA = 1u << 12, F16C = 1u << 29, AVX2 = 1u << 5 };
    enum { F = 1u << 16, DQ = 1u << 17, BW = 1u << 30, VL = 1u << 31, BF16 = 1u << 5 };
    enum { AMX = 1u << 22 | 1u << 24, YMM = 0x7, ZMM = 0xE7, TILES = 0x602E7 };
    const uint32_t c1 = AVX | FMA | F16C, b7 = AVX2 | F | DQ | BW | VL;
    const uint32_t nothing[SR_WORDS] = {0}, haswell[SR_WORDS] = {c1, AVX2, 0, 0, YMM},
                   bridge[SR_WORDS] = {AVX | F16C, 0, 0, 0, YMM},
                   phi[SR_WORDS] = {c1, AVX2 | F, 0, 0, ZMM},
                   skylake[SR_WORDS] = {c1, b7, 0, 0, ZMM},
                   cooper[SR_WORDS] = {c1, b7, 0, BF16, ZMM},
                   rapids[SR_WORDS] = {c1, b7, AMX, BF16, TILES},
                   old_system[SR_WORDS] = {c1, b7, AMX, BF16, ZMM},
                   masked[SR_WORDS] = {c1, b7, AMX, BF16, YMM}, bare[SR_WORDS] = {c1, b7, 0, 0, 0};
    check_words(nothing, SR_ISA_PLAIN, "the processor lacks AVX2");
    check_words(bridge, SR_ISA_PLAIN, "the processor lacks AVX2");
    check_words(bare, SR_ISA_PLAIN, "the system does not save AVX registers");
    check_words(haswell, SR_ISA_AVX2, "the processor lacks AVX-512");
    check_words(phi, SR_ISA_AVX2, "the processor lacks AVX-512 BW");
    check_words(masked, SR_ISA_AVX2, "the system does not save AVX-512 registers");
    check_words(skylake, SR_ISA_AVX512, "the processor lacks AVX-512 BF16"); /* no VBMI either */
    check_words(cooper, SR_ISA_DOTS, "the processor lacks AMX");
    check_words(old_system, SR_ISA_DOTS, "the system does not save tiles");
    check_words(rapids, SR_ISA_AMX, "");
}
#else
static void test_words(void) {
}
#endif

/* The products that are tried are right on this processor, and found wrong if they are. */
static sr_simd wrong;
static const sr_simd *right;
static int64_t spoilt; /* elements of C that are still right */

static void spoil(const sr_gemm *g) {
    right->gemm_bf16(g);
    if (spoilt-- == 0) g->c[(g->m - 1) * g->ldc + g->n - 1] += 1.0f;
}
static void spoil_neighbour(const sr_gemm *g) {
    right->gemm_bf16(g);
    if (spoilt-- == 0) g->c[g->n] = 0.0f;
}

static void test_trial(void) {
    right = sr_cpu_simd();
    CHECK(sr_cpu_multiplies_bf16(right));
    for (int way = 0; way < 2; way++)
        for (int64_t n = 0; n < 60; n++) {
            wrong = *right;
            wrong.gemm_bf16 = way == 0 ? spoil : spoil_neighbour;
            spoilt = n;
            CHECK(!sr_cpu_multiplies_bf16(&wrong));
        }
    double rate = sr_cpu_bf16_gain(right);
    CHECK(rate > 0 && rate < 1e6);
}

/* An open device can be given another set, as a resumed run does; SEQRUN_ISA has the last word.
 */
static void test_use(void) {
    setenv("SEQRUN_ISA", "", 1);
    sr_device *device;
    CHECK_OK(sr_device_open(&device, &sr_backend_cpu, 0, NULL));
    const sr_cpu_state *cpu = device->state;
    const char *best = sr_cpu_simd()->name;
    CHECK_OK(sr_cpu_use(device, "plain"));
    CHECK(strcmp(cpu->simd->name, "plain") == 0);
    CHECK_FAILS(sr_cpu_use(device, "cuda sm_90"), SR_EDEVICE, "not an instruction set");
    CHECK(strcmp(cpu->simd->name, "plain") == 0);
    setenv("SEQRUN_ISA", "plain", 1);
    if (strcmp(best, "plain") != 0)
        CHECK_FAILS(sr_cpu_use(device, best), SR_EDEVICE, "SEQRUN_ISA=plain rules out");
    setenv("SEQRUN_ISA", "", 1);
    CHECK_OK(sr_cpu_use(device, best));
    CHECK(strcmp(cpu->simd->name, best) == 0);
    sr_device_close(device);
}

int main(void) {
    test_choice();
    test_named();
    test_explain();
    test_words();
    test_trial();
    test_use();
    return CHECK_DONE();
}
