/* isa.c - chooses the instruction set: by processor and operating system (features.c),
 * SEQRUN_ISA, and by what trial.c finds out about those that multiply bf16. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/tensor/weight.h"
#include "kernels/cpu/cpu.h"

static const char *const names[] = {"plain", "avx2", "avx512", "avx512_bf16", "amx"};
enum { COUNT = sizeof names / sizeof *names };

extern const sr_simd sr_simd_plain;
#if defined(__x86_64__)
extern const sr_simd sr_simd_avx2, sr_simd_avx512, sr_simd_avx512_bf16, sr_simd_amx;
static const sr_simd *const sets[] = {&sr_simd_plain, &sr_simd_avx2, &sr_simd_avx512,
                                      &sr_simd_avx512_bf16, &sr_simd_amx};
#else
static const sr_simd *const sets[COUNT] = {&sr_simd_plain};
#endif

/* ---- what this machine can do ---------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what is found once per process */

static const char *lack_of(int isa) {
    static uint32_t words[SR_WORDS];
    static bool known;
    pthread_mutex_lock(&lock);
    if (!known) sr_cpu_words(words);
    known = true;
    pthread_mutex_unlock(&lock);
    return sr_cpu_lack(words, isa);
}

static const char *find_problem(int isa) {
    if (isa == SR_ISA_AMX && !sr_cpu_may_use_tiles()) return "the system does not permit its tiles";
    if (!sr_cpu_multiplies_bf16(sets[isa])) return "a product of bf16 was wrong";
    return NULL;
}

/* Why a set that the processor has cannot be used, or NULL.  Permission to use tiles is requested
 * only if they are wanted. */
static const char *problem_of(int isa) {
    static bool known[COUNT];
    static const char *problem[COUNT];
    if (isa < SR_ISA_DOTS) return NULL;
    pthread_mutex_lock(&lock);
    if (!known[isa]) problem[isa] = find_problem(isa);
    known[isa] = true;
    pthread_mutex_unlock(&lock);
    return problem[isa];
}

/* Processors have dot products at about twice the rate of multiply-adds, or at half of it: a rate
 * between is of a moment that other programs spoil, and is measured again. */
static const double SLOW = 0.8, FAST = 1.5;
enum { MEASUREMENTS = 40 };

static double gain_of_dots(void) {
    static double gain;
    pthread_mutex_lock(&lock);
    for (int i = 1; gain == 0; i++) {
        double found = sr_cpu_bf16_gain(sets[SR_ISA_DOTS]);
        if (found < SLOW || found > FAST || i == MEASUREMENTS)
            gain = found;
        else
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    pthread_mutex_unlock(&lock);
    return gain;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Dot products must be clearly faster, so that every run on a machine chooses the same: processors
 * have them at twice the rate of multiply-adds, or at half of it. */
static const double CLEARLY = 1.25;

/* Records why a set is not used. */
static void refuse(sr_cpu_choice *choice, int isa, const char *why) {
    snprintf(choice->why[isa], sizeof choice->why[isa], "%s", why);
}

/* Whether dot products are worth using; if not, records why. */
static bool gains(sr_cpu_choice *choice, const sr_cpu_machine *machine) {
    double gain = machine->gain_of_dots();
    char why[SR_WHY];
    snprintf(why, sizeof why, "dot products run at %.1f times the rate of f32", gain);
    if (gain < CLEARLY) refuse(choice, SR_ISA_DOTS, why);
    return gain >= CLEARLY;
}

/* Whether a set can be used and, unless `limit` names it, is worth using. */
static bool suits(sr_cpu_choice *choice, const sr_cpu_machine *machine, int isa, int limit) {
    const char *lack = machine->lack(isa);
    char why[SR_WHY];
    if (lack == NULL && limit >= 0 && isa > limit) {
        snprintf(why, sizeof why, "SEQRUN_ISA is %s", names[limit]);
        lack = why;
    }
    if (lack == NULL && isa >= SR_ISA_DOTS) lack = machine->problem(isa);
    if (lack != NULL) {
        refuse(choice, isa, lack);
        return false;
    }
    return isa != SR_ISA_DOTS || limit >= 0 || gains(choice, machine);
}

void sr_cpu_choose(sr_cpu_choice *choice, const sr_cpu_machine *machine, int limit) {
    choice->isa = SR_ISA_AMX;
    while (choice->isa > SR_ISA_PLAIN && !suits(choice, machine, choice->isa, limit)) choice->isa--;
}

/* Appends to a reason, as far as there is room. */
static void append(char reason[SR_REASON], const char *before, const char *text) {
    size_t at = strlen(reason);
    snprintf(reason + at, SR_REASON - at, "%s%s", before, text);
}

static const char *why_not(const sr_cpu_choice *choice, int isa, const char *others) {
    return isa > choice->isa ? choice->why[isa] : others;
}

void sr_cpu_explain(char reason[SR_REASON], const sr_cpu_choice *choice, int used) {
    char others[SR_WHY];
    snprintf(others, sizeof others, "instructions is %s in the run's config", names[used]);
    reason[0] = '\0';
    for (int isa = SR_ISA_AMX; isa > used; isa--) {
        const char *why = why_not(choice, isa, others);
        append(reason, "", names[isa]);
        bool last = isa - 1 == used || strcmp(why, why_not(choice, isa - 1, others)) != 0;
        append(reason, last ? ": " : ", ", last ? why : "");
        if (last && isa - 1 > used) append(reason, "; ", "");
    }
}

/* The number of an instruction set, -1 for "", -2 for an unknown name. */
static int isa_named(const char *word) {
    if (word == NULL || *word == '\0') return -1;
    for (int i = 0; i < COUNT; i++)
        if (strcmp(word, names[i]) == 0) return i;
    return -2;
}

static sr_cpu_choice choice_here(void) {
    sr_cpu_machine here = {lack_of, problem_of, gain_of_dots};
    sr_cpu_choice choice;
    sr_cpu_choose(&choice, &here, isa_named(getenv("SEQRUN_ISA")));
    return choice;
}

const sr_simd *sr_cpu_simd(void) {
    return sets[choice_here().isa];
}

void sr_cpu_isa_reason(char reason[SR_REASON], const sr_simd *used) {
    sr_cpu_choice choice = choice_here();
    sr_cpu_explain(reason, &choice, isa_named(used->name));
}

sr_status sr_cpu_check_isa(void) {
    if (isa_named(getenv("SEQRUN_ISA")) >= -1) return SR_OK;
    return sr_fail(SR_EDEVICE,
                   "cpu: SEQRUN_ISA is '%s'; use plain, avx2, avx512, avx512_bf16 or amx, or unset "
                   "it",
                   getenv("SEQRUN_ISA"));
}

sr_status sr_cpu_use(sr_device *device, const char *name) {
    int isa = isa_named(name), wanted = isa_named(getenv("SEQRUN_ISA"));
    sr_cpu_state *cpu = device->state;
    if (isa < 0)
        return sr_fail(SR_EDEVICE,
                       "cpu: '%s' is not an instruction set; choose plain, avx2, avx512, "
                       "avx512_bf16 or amx",
                       name);
    if (strcmp(cpu->simd->name, name) == 0) return SR_OK;
    if (wanted >= 0)
        return sr_fail(SR_EDEVICE, "cpu: SEQRUN_ISA=%s rules out %s; unset it", names[wanted],
                       name);
    const char *problem = lack_of(isa);
    if (problem == NULL) problem = problem_of(isa);
    if (problem != NULL) return sr_fail(SR_EDEVICE, "cpu: no %s instructions: %s", name, problem);
    sr_weight_drop_all(device); /* of the other instruction set */
    cpu->simd = sets[isa];
    return SR_OK;
}
