/* isa.c - chooses the instruction class: by processor, operating system and SEQRUN_ISA, and by what
 * trial.c finds of the classes that multiply bf16. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

static const char *const names[] = {"plain", "avx2", "avx512", "avx512_bf16", "amx"};
enum { COUNT = sizeof names / sizeof *names };

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

/* The highest class that the processor announces and whose registers the system saves. */
static int announced_class(void) {
    enum { YMM = 0x6, ZMM = 0xE6, TILES = 0x60000, VBMI = 1u << 1, BF16 = 1u << 5 };
    enum { TILES_OF_BF16 = 1u << 22 | 1u << 24 };
    unsigned a, b, c, d, a7, b7, c7, d7;
    uint64_t saved = saved_states();
    if (!__get_cpuid(1, &a, &b, &c, &d) || !__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7))
        return SR_CLASS_PLAIN;
    if ((saved & YMM) != YMM || !has(c, bit_AVX | bit_FMA | bit_F16C) || !has(b7, bit_AVX2))
        return SR_CLASS_PLAIN;
    if ((saved & ZMM) != ZMM || !has(c7, VBMI) ||
        !has(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL))
        return SR_CLASS_AVX2;
    if (a7 < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d) || !has(a, BF16)) return SR_CLASS_AVX512;
    if ((saved & TILES) != TILES || !has(d7, TILES_OF_BF16)) return SR_CLASS_DOTS;
    return SR_CLASS_AMX;
}

static const sr_simd *const classes[] = {&sr_simd_plain, &sr_simd_avx2, &sr_simd_avx512,
                                         &sr_simd_avx512_bf16, &sr_simd_amx};
#else
static bool may_use_tiles(void) {
    return false;
}
static int announced_class(void) {
    return SR_CLASS_PLAIN;
}
static const sr_simd *const classes[COUNT] = {&sr_simd_plain};
#endif

/* ---- what this machine can do ------------------------------------------------------------------
 */

static const char *find_problem(int class) {
    if (class == SR_CLASS_AMX && !may_use_tiles()) return "the system does not permit its tiles";
    if (!sr_cpu_multiplies_bf16(classes[class])) return "a product of bf16 was wrong";
    return NULL;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what is found once a process */

/* Why a class that is announced cannot be used, or NULL.  Tiles are asked for only if wanted. */
static const char *problem_of(int class) {
    static bool known[COUNT];
    static const char *problem[COUNT];
    if (class < SR_CLASS_DOTS) return NULL;
    pthread_mutex_lock(&lock);
    if (!known[class]) problem[class] = find_problem(class);
    known[class] = true;
    pthread_mutex_unlock(&lock);
    return problem[class];
}

static double gain_of_dots(void) {
    static double gain;
    pthread_mutex_lock(&lock);
    if (gain == 0) gain = sr_cpu_low_gain(classes[SR_CLASS_DOTS]);
    pthread_mutex_unlock(&lock);
    return gain;
}

/* ---- choosing ----------------------------------------------------------------------------------
 */

/* Dot products must be clearly faster, so that every start on a machine chooses alike: processors
 * have them at twice the rate of multiply-adds, or at half of it. */
static const double CLEARLY = 1.25;

static void add_reason(sr_cpu_choice *choice, const char *class, const char *text) {
    size_t at = strlen(choice->reason);
    snprintf(choice->reason + at, sizeof choice->reason - at, "%s%s: %s", at > 0 ? "; " : "", class,
             text);
}

void sr_cpu_choose(sr_cpu_choice *choice, const sr_cpu_machine *machine, int limit) {
    bool named = limit >= 0;
    choice->reason[0] = '\0';
    choice->isa = machine->announced;
    if (named && limit < machine->announced) {
        char text[32];
        snprintf(text, sizeof text, "SEQRUN_ISA is %s", names[limit]);
        add_reason(choice, names[machine->announced], text);
        choice->isa = limit;
    }
    for (; choice->isa >= SR_CLASS_DOTS; choice->isa--) {
        const char *name = names[choice->isa], *problem = machine->problem(choice->isa);
        if (problem != NULL) {
            add_reason(choice, name, problem);
            continue;
        }
        if (named || choice->isa != SR_CLASS_DOTS) return;
        double gain = machine->gain_of_dots();
        if (gain >= CLEARLY) return;
        char text[64];
        snprintf(text, sizeof text, "dot products run at %.1f times the rate of f32", gain);
        add_reason(choice, name, text);
    }
}

/* The number of the class, -1 for "", -2 for a word that is none. */
static int class_named(const char *word) {
    if (word == NULL || *word == '\0') return -1;
    for (int i = 0; i < COUNT; i++)
        if (strcmp(word, names[i]) == 0) return i;
    return -2;
}

static sr_cpu_choice choice_here(void) {
    sr_cpu_machine here = {announced_class(), problem_of, gain_of_dots};
    int wanted = class_named(getenv("SEQRUN_ISA"));
    sr_cpu_choice choice;
    sr_cpu_choose(&choice, &here, wanted);
    return choice;
}

const sr_simd *sr_cpu_simd(void) {
    return classes[choice_here().isa];
}

const char *sr_cpu_isa(void) {
    return sr_cpu_simd()->name;
}

void sr_cpu_isa_reason(char reason[SR_REASON]) {
    strcpy(reason, choice_here().reason);
}

sr_status sr_cpu_check_isa(void) {
    if (class_named(getenv("SEQRUN_ISA")) >= -1) return SR_OK;
    return sr_fail(SR_EDEVICE,
                   "cpu: SEQRUN_ISA is '%s'; use plain, avx2, avx512, avx512_bf16 or amx, or unset "
                   "it",
                   getenv("SEQRUN_ISA"));
}

sr_status sr_cpu_use(sr_device *device, const char *name) {
    int class = class_named(name), wanted = class_named(getenv("SEQRUN_ISA"));
    sr_cpu_state *cpu = device->state;
    if (class < 0)
        return sr_fail(SR_EDEVICE,
                       "cpu: '%s' is not an instruction class; choose plain, avx2, avx512, "
                       "avx512_bf16 or amx",
                       name);
    if (strcmp(cpu->simd->name, name) == 0) return SR_OK;
    if (wanted >= 0)
        return sr_fail(SR_EDEVICE, "cpu: SEQRUN_ISA=%s rules out %s; unset it", names[wanted],
                       name);
    const char *problem = "the processor lacks them";
    if (class <= announced_class()) problem = problem_of(class);
    if (problem != NULL)
        return sr_fail(SR_EDEVICE, "cpu: %s instructions are not available here: %s", name,
                       problem);
    cpu->simd = classes[class];
    return SR_OK;
}
