/* isa.c - which instruction class is chosen, on machines that are made up, and on this one. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "tests/support/check.h"

static const char *broken[5]; /* what is wrong with each class */
static double gain;           /* of dot products */
static int measured, asked[5];

static const char *problem(int class) {
    asked[class]++;
    return broken[class];
}
static double gain_of_dots(void) {
    measured++;
    return gain;
}

static sr_cpu_choice choose(int announced, int limit) {
    sr_cpu_machine machine = {announced, problem, gain_of_dots};
    sr_cpu_choice choice;
    measured = 0;
    memset(asked, 0, sizeof asked);
    sr_cpu_choose(&choice, &machine, limit);
    return choice;
}

/* The class that is chosen, with the reason that is given. */
static void check_choice(int announced, int limit, int class, const char *reason) {
    sr_cpu_choice choice = choose(announced, limit);
    CHECK(choice.isa == class);
    CHECK(strcmp(choice.reason, reason) == 0);
    if (strcmp(choice.reason, reason) != 0) printf("  reason: %s\n", choice.reason);
}

static void test_choice(void) {
    gain = 2;
    for (int c = SR_CLASS_PLAIN; c <= SR_CLASS_AMX; c++) check_choice(c, -1, c, "");
    check_choice(SR_CLASS_AMX, -1, SR_CLASS_AMX, "");
    CHECK(measured == 0);
    broken[SR_CLASS_AMX] = "no permission";
    check_choice(SR_CLASS_AMX, -1, SR_CLASS_DOTS, "amx: no permission");
    gain = 0.5;
    check_choice(SR_CLASS_AMX, -1, SR_CLASS_AVX512,
                 "amx: no permission; avx512_bf16: dot products run at 0.5 times the rate of f32");
    broken[SR_CLASS_DOTS] = "wrong";
    check_choice(SR_CLASS_AMX, -1, SR_CLASS_AVX512, "amx: no permission; avx512_bf16: wrong");
    CHECK(measured == 0);
    broken[SR_CLASS_AMX] = broken[SR_CLASS_DOTS] = NULL;
}

/* A class that is named is taken without measuring, lower ones without trying the higher. */
static void test_named(void) {
    gain = 0.5;
    check_choice(SR_CLASS_AMX, SR_CLASS_DOTS, SR_CLASS_DOTS, "amx: SEQRUN_ISA is avx512_bf16");
    CHECK(measured == 0 && asked[SR_CLASS_AMX] == 0 && asked[SR_CLASS_DOTS] == 1);
    check_choice(SR_CLASS_AMX, SR_CLASS_AVX2, SR_CLASS_AVX2, "amx: SEQRUN_ISA is avx2");
    check_choice(SR_CLASS_AVX2, SR_CLASS_AMX, SR_CLASS_AVX2, "");
    check_choice(SR_CLASS_DOTS, SR_CLASS_AMX, SR_CLASS_DOTS, "");
    broken[SR_CLASS_AMX] = "no permission";
    check_choice(SR_CLASS_AMX, SR_CLASS_AMX, SR_CLASS_DOTS, "amx: no permission");
    CHECK(measured == 0);
    broken[SR_CLASS_AMX] = NULL;
}

/* The products that are tried are right on this processor, and found wrong if they are. */
static sr_simd wrong;
static const sr_simd *right;
static int64_t spoilt; /* elements of C that are still right */

static void spoil(const sr_gemm *g) {
    right->gemm_low(g);
    if (spoilt-- == 0) g->c[(g->m - 1) * g->ldc + g->n - 1] += 1.0f;
}
static void spoil_neighbour(const sr_gemm *g) {
    right->gemm_low(g);
    if (spoilt-- == 0) g->c[g->n] = 0.0f;
}

static void test_trial(void) {
    right = sr_cpu_simd();
    CHECK(sr_cpu_multiplies_bf16(right));
    for (int way = 0; way < 2; way++)
        for (int64_t n = 0; n < 60; n++) {
            wrong = *right;
            wrong.gemm_low = way == 0 ? spoil : spoil_neighbour;
            spoilt = n;
            CHECK(!sr_cpu_multiplies_bf16(&wrong));
        }
    double rate = sr_cpu_low_gain(right);
    CHECK(rate > 0 && rate < 1e6);
}

/* An open device can be given another class, as a resumed run does; SEQRUN_ISA has the last word.
 */
static void test_use(void) {
    setenv("SEQRUN_ISA", "", 1);
    sr_device *device;
    CHECK_OK(sr_device_open(&device, &sr_backend_cpu, 0, NULL));
    const sr_cpu_state *cpu = device->state;
    const char *best = sr_cpu_isa();
    CHECK_OK(sr_cpu_use(device, "plain"));
    CHECK(strcmp(cpu->simd->name, "plain") == 0);
    CHECK_FAILS(sr_cpu_use(device, "cuda sm_90"), SR_EDEVICE, "not an instruction class");
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
    test_trial();
    test_use();
    return CHECK_DONE();
}
