/* cpu.h - declarations shared by the files of this directory: the state of the device, jobs on its
 * threads, the matrix product, and the ops in the table of cpu.c.
 *
 * The device computes in f32 and stores f32 or bf16; sums that grow long are carried in f64.  How
 * work is cut into tasks changes no bit, so none depends on the number of threads.
 */
#pragma once

#include <string.h>

#include "core/tensor/backend.h"
#include "kernels/cpu/simd.h"

SR_BEGIN_C

/* ---- device state ---------------------------------------------------------------------------- */
typedef struct sr_cpu_block {
    void *data;
    size_t bytes;
} sr_cpu_block;

struct sr_cpu_jobs;

typedef struct sr_cpu_state {
    const sr_simd *simd;
    const sr_device *device;
    int workers;              /* that `scratch` has room for; the pool may change between ops */
    sr_cpu_block *scratch;    /* one per worker: lives during a task */
    sr_cpu_block shared;      /* lives during an op */
    sr_cpu_block panels;      /* lives during a matrix product */
    sr_cpu_block across;      /* lives during an op: A of a product on tiles, packed before it */
    struct sr_cpu_jobs *jobs; /* where jobs are recorded, or NULL */
} sr_cpu_state;

/* ---- instruction sets ------------------------------------------------------------------------ */
enum { SR_ISA_PLAIN, SR_ISA_AVX2, SR_ISA_AVX512, SR_ISA_DOTS, SR_ISA_AMX };
enum { SR_ISA_COUNT = SR_ISA_AMX + 1, SR_WHY = 64, SR_REASON = 320 };

/* The instruction set of a new device; its name is "plain", "avx2", "avx512", "avx512_bf16",
 * "amx".  It is the highest that works, but dot products of bf16 only where they are clearly faster
 * than multiply-adds of f32, which is measured once per process.  SEQRUN_ISA names a lower one. */
const sr_simd *sr_cpu_simd(void);
/* Why sets above `used` are not used: "amx: ...; ..."; "" if there are none. */
void sr_cpu_isa_reason(char reason[SR_REASON], const sr_simd *used);
/* SR_EDEVICE if SEQRUN_ISA does not name an instruction set.  One that the processor lacks is
 * ignored. */
sr_status sr_cpu_check_isa(void);

/* Makes an open cpu device use this instruction set from now on, as a resumed run does.
 *
 * Errors: SR_EDEVICE  there is no such set, the processor lacks it, it does not work here, or
 *         SEQRUN_ISA rules it out */
sr_status sr_cpu_use(sr_device *device, const char *name);

/* What CPUID says of the processor, and XGETBV of the operating system: leaf 1 register C, leaf 7
 * registers B and D, leaf 7.1 register A, and the register sets that are saved. */
typedef enum sr_cpu_word {
    SR_WORD_1C,
    SR_WORD_7B,
    SR_WORD_7D,
    SR_WORD_71A,
    SR_WORD_SAVED,
    SR_WORDS
} sr_cpu_word;
void sr_cpu_words(uint32_t words[SR_WORDS]);
/* What a set needs and the words do not have, such as "the processor lacks AVX-512"; or NULL. */
const char *sr_cpu_lack(const uint32_t words[SR_WORDS], int isa);
/* Requests permission to use tiles, which Linux grants per process. */
bool sr_cpu_may_use_tiles(void);

/* A machine as the choice sees it, and the choice.  `limit`: the set that SEQRUN_ISA names (then
 * nothing is measured), or -1. */
typedef struct sr_cpu_machine {
    const char *(*lack)(int isa);    /* as sr_cpu_lack() */
    const char *(*problem)(int isa); /* NULL: it works; for sets that multiply bf16 */
    double (*gain_of_dots)(void);    /* the rate of dot products over that of multiply-adds */
} sr_cpu_machine;
typedef struct sr_cpu_choice {
    int isa;                        /* the set */
    char why[SR_ISA_COUNT][SR_WHY]; /* why not a higher one */
} sr_cpu_choice;
void sr_cpu_choose(sr_cpu_choice *choice, const sr_cpu_machine *machine, int limit);
/* Why sets above `used`, which may be below the choice, as in a resumed run, are not used; sets
 * with the same reason are listed together. */
void sr_cpu_explain(char reason[SR_REASON], const sr_cpu_choice *choice, int used);

/* Whether products of small whole numbers, which are exact, come out right on all paths of a set.
 * (Rounding of tiles is not among them: it uses no instruction that conversions do not.)
 * A virtual machine may announce instructions that its host emulates badly. */
bool sr_cpu_multiplies_bf16(const sr_simd *simd);
/* The rate of a set's multiply-adds of bf16 relative to those of f32, in registers. */
double sr_cpu_bf16_gain(const sr_simd *simd);

/* ---- measuring ------------------------------------------------------------------------------- */
/* Multiply-adds of f32 or bf16 in registers, `rounds` on every thread of a cpu device, to be timed;
 * *flops gets their number, 0 if the instruction set has no such probe. */
sr_status sr_cpu_burst(const sr_device *device, int64_t rounds, bool bf16, double *flops);

/* The processor time of every task of a device's jobs, in order, from which a schedule on more
 * threads can be computed. */
typedef struct sr_cpu_jobs {
    int64_t *ends; /* tasks[ends[j - 1]] .. tasks[ends[j] - 1] are of job j */
    double *tasks; /* seconds */
    double *whole; /* seconds of each job, including the cost of recording */
    int64_t job_count, task_count, job_room, task_room;
    bool inside; /* a task is running: jobs that it starts are part of it */
} sr_cpu_jobs;

/* Records the jobs of a cpu device into *jobs, which begins as zeros, until called with NULL.
 *
 * Errors: SR_EINVAL  the device has several threads, which would disturb each other's tasks;
 *         it is already recording */
sr_status sr_cpu_record_jobs(const sr_device *device, sr_cpu_jobs *jobs);
void sr_cpu_jobs_clear(sr_cpu_jobs *jobs);
/* sr_threads_run() of a job that is recorded, unless there are several threads by now. */
sr_status sr_cpu_run_recorded(sr_cpu_jobs *jobs, sr_threads *threads, sr_task task, void *context,
                              int64_t count);

static inline sr_cpu_state *sr_cpu_of(const sr_tensor *t) {
    return (sr_cpu_state *)t->storage->device->state;
}

/* Reserves memory before a job starts, so that its tasks need not allocate: `each` bytes for every
 * worker, `shared` bytes for the op.  Discards their contents.  The memory is kept for later
 * ops. */
sr_status sr_cpu_reserve(sr_cpu_state *cpu, size_t each, size_t shared);
sr_status sr_cpu_reserve_panels(sr_cpu_state *cpu, size_t bytes);
sr_status sr_cpu_reserve_across(sr_cpu_state *cpu, size_t bytes);
static inline void *sr_cpu_scratch(const sr_cpu_state *cpu, int worker) {
    return cpu->scratch[worker].data;
}

/* sr_threads_run() on the device of t.  Returns SR_ESTOP before the next task if a stop was
 * requested. */
sr_status sr_cpu_run(const sr_tensor *t, sr_task task, void *context, int64_t count);
/* The same, but ignores stops: for short jobs that change values in place and must complete. */
sr_status sr_cpu_run_whole(const sr_tensor *t, sr_task task, void *context, int64_t count);

/* Large scratch on the stack that is written before it is read. */
#define SR_UNSET __attribute__((uninitialized))

static inline int64_t sr_blocks(int64_t n, int64_t block) {
    return (n + block - 1) / block;
}
static inline int64_t sr_round_up(int64_t n, int64_t step) {
    return sr_blocks(n, step) * step;
}
static inline int64_t sr_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- elements of any dtype and stride -------------------------------------------------------- */
/* The type in which a run of elements is processed. */
typedef enum sr_kind { SR_KIND_REAL, SR_KIND_WHOLE } sr_kind; /* float, int32_t */

/* Computes y[0..n) from x[k][0..n), contiguous; `first` is the row-major index of y[0]. */
typedef void (*sr_element_run)(const void *context, void *y, const void *const *x, int64_t first,
                               int64_t n);

/* Runs `run` over all elements of y and of `inputs` (at most 3) tensors expanded to y's shape,
 * converting to and from `kind`.  SR_EINVAL naming `op` for f64, which this device only stores. */
sr_status sr_cpu_map(const char *op, sr_tensor *y, int inputs, const sr_tensor *const *x,
                     sr_kind kind, sr_element_run run, const void *context);

/* Where element i, in row-major order, is. */
static inline int64_t sr_place(int ndim, const int64_t *shape, const int64_t *stride, int64_t i) {
    int64_t at = 0;
    for (int d = ndim - 1; d >= 0; d--) {
        at += i % shape[d] * stride[d];
        i /= shape[d];
    }
    return at;
}

/* n elements, `stride` apart, to and from floats. */
void sr_cpu_load(float *to, const sr_tensor *t, int64_t element, int64_t stride, int64_t n);
void sr_cpu_store(sr_tensor *t, int64_t element, int64_t stride, const float *from, int64_t n);

/* SR_EINVAL naming `op` unless t is f32; coarse ops call it for each tensor that is not NULL. */
sr_status sr_cpu_need_f32(const char *op, const sr_tensor *const *t, int count);
sr_status sr_cpu_need_f32_or_bf16(const char *op, const sr_tensor *const *t, int count);
/* Their last two arguments: these tensors, and how many they are. */
#define SR_TENSORS(...)                                                                            \
    (const sr_tensor *[]){__VA_ARGS__},                                                            \
        (int)(sizeof((const sr_tensor *[]){__VA_ARGS__}) / sizeof(sr_tensor *))

/* ---- rows of f32 or bf16 --------------------------------------------------------------------- */

/* A contiguous tensor whose rows an op reads or writes as floats: in place, or through room for one
 * row if it is bf16.  data is NULL for an absent tensor. */
typedef struct sr_float_rows {
    void *data;
    bool bf16;
    int64_t cols;
} sr_float_rows;

static inline sr_float_rows sr_rows_of(const sr_tensor *t) {
    if (t == NULL) return (sr_float_rows){NULL, false, 0};
    return (sr_float_rows){sr_tensor_data(t), t->dtype == SR_BF16, t->shape[t->ndim - 1]};
}

/* Row r in the tensor's dtype, declared as floats; NULL for an absent tensor. */
static inline float *sr_row_at(sr_float_rows x, int64_t r) {
    if (x.data == NULL) return NULL;
    return (float *)((char *)x.data + (size_t)(r * x.cols) * (x.bf16 ? 2 : 4));
}

/* Row r, converted into `room` if necessary; NULL for an absent tensor. */
static inline const float *sr_row_in(const sr_simd *simd, sr_float_rows x, int64_t r, float *room) {
    if (x.data == NULL) return NULL;
    if (!x.bf16) return (const float *)x.data + r * x.cols;
    simd->widen(room, (const sr_bf16 *)x.data + r * x.cols, x.cols);
    return room;
}

/* Where to write row r: the tensor itself, or `room`; sr_row_done() then rounds it. */
static inline float *sr_row_out(sr_float_rows y, int64_t r, float *room) {
    if (y.data == NULL) return NULL;
    return y.bf16 ? room : (float *)y.data + r * y.cols;
}
static inline void sr_row_done(const sr_simd *simd, sr_float_rows y, int64_t r, const float *from) {
    if (y.data != NULL && y.bf16) simd->narrow((sr_bf16 *)y.data + r * y.cols, from, y.cols);
}
static inline void sr_row_clear(sr_float_rows y, int64_t r) {
    size_t row = (size_t)y.cols * (y.bf16 ? sizeof(sr_bf16) : sizeof(float));
    if (y.data != NULL) memset((char *)y.data + (size_t)r * row, 0, row);
}

/* ---- the matrix product ---------------------------------------------------------------------- */
typedef struct sr_product sr_product;
/* Called for each block of rows x columns of C when it is complete and still in cache; c is its
 * element (row, col), rows are ld apart. */
typedef void (*sr_epilogue)(const sr_product *p, float *c, int64_t ld, int64_t row, int64_t rows,
                            int64_t col, int64_t cols);

/* What linear does to C: y = act(C + b), pre = C + b; rows of p->n columns. */
typedef struct sr_finish {
    const void *b; /* of the dtype of y; b and pre may be NULL */
    void *pre, *y;
    sr_act act;
} sr_finish;

/* A (m, k) of a product on tiles, packed from rows of A^T: parts of k, each [m / 16][k / 32] tiles,
 * 16 rows of A `apart` bytes apart. */
typedef struct sr_across {
    char *tiles;
    int64_t m, k, part, apart;
    size_t bytes;
} sr_across;
/* Its sizes; tiles is NULL.  SR_ENOMEM if they do not fit in memory. */
sr_status sr_cpu_across_size(sr_across *a, int64_t m, int64_t k);
/* Packs `rows` rows of A^T, from row k on (a multiple of 32), which are `row` elements apart. */
void sr_cpu_across_pack(const sr_across *a, const sr_simd *simd, const sr_bf16 *from, int64_t row,
                        int64_t k, int64_t rows);

/* C (m, n), rows ldc apart, = or += alpha A (m, k) B (k, n), with element strides.
 * An element of C is a fixed chain over k: it depends on its row of A and its column of B alone,
 * not on their position or the number of threads.  Rows of C may be skipped (m == 0). */
struct sr_product {
    float *c;          /* NULL: bf16, and C goes where `finish` says; not for nested products */
    const void *a, *b; /* floats */
    bool bf16;         /* a and b are bf16 */
    int64_t ldc, a_row, a_col, b_row, b_col;
    int64_t m, n, k;
    float alpha;
    bool add;
    bool nested; /* called within a task; its job reserved sr_cpu_product_room() per worker */
    sr_epilogue epilogue;    /* or NULL */
    const sr_tensor *weight; /* what b is, if it may be a parameter; or NULL */
    const sr_across *across; /* on tiles: A, packed; or NULL */
    const sr_finish *finish; /* if c is NULL, what becomes of C: the epilogue does the same, for
                                sets whose products do not */
    const void *context;     /* passed to the epilogue */
};

/* Where results in bf16 go, from (row, col) on: p->c is NULL, finish has bf16. */
static inline sr_rounded sr_rounded_at(const sr_product *p, int64_t row, int64_t col) {
    const sr_finish *f = p->finish;
    int64_t at = row * p->n + col;
    return (sr_rounded){.y = (sr_bf16 *)f->y + at,
                        .pre = f->pre != NULL ? (sr_bf16 *)f->pre + at : NULL,
                        .bias = f->b != NULL ? (const sr_bf16 *)f->b + col : NULL,
                        .ld = p->n,
                        .act = f->act};
}

/* Columns of the widest block that an epilogue gets. */
enum { SR_BLOCK_COLUMNS = 192 };

/* Element i of an operand. */
static inline const void *sr_operand_at(const void *base, bool bf16, int64_t i) {
    return (const char *)base + i * (bf16 ? 2 : 4);
}

/* Runs p on the threads of t's device.  Uses the workers' scratch, but not `shared`, which an
 * earlier sr_cpu_reserve(cpu, 0, ...) may have filled. */
sr_status sr_cpu_product(const sr_tensor *t, const sr_product *p);
/* The same on tiles, for products that it takes; called by sr_cpu_product(). */
bool sr_cpu_takes_strips(const sr_cpu_state *cpu, const sr_product *p);
sr_status sr_cpu_strips(const sr_tensor *t, const sr_product *p);
/* The panels of a weight, for sr_cpu_strips(): see backend.h. */
sr_status sr_cpu_weight_build(sr_weight *weight, const sr_tensor *w);
void sr_cpu_weight_free(sr_weight *weight);
/* What the panels of a bf16 weight take once it was read forward and backward; 0 without tiles. */
int64_t sr_cpu_weight_bytes(const sr_cpu_state *cpu, int64_t rows, int64_t cols);
/* Scratch bytes per worker that suffice for any product. */
size_t sr_cpu_product_room(void);

/* sums[c] += sum of x[r][c], f32 or (bf16) bf16, over rows in ascending order: blocks of rows in
 * f32, the blocks in f64.  Uses `panels`. */
sr_status sr_cpu_add_columns(const sr_tensor *t, float *sums, const void *x, bool bf16,
                             int64_t rows, int64_t cols);
/* sums[c] += sum of parts[b * stride + c] over the blocks in ascending order, in f64. */
sr_status sr_cpu_add_parts(const sr_tensor *t, float *sums, const float *parts, int64_t stride,
                           int64_t blocks, int64_t cols);

/* ---- the tied decoder ------------------------------------------------------------------------ */
/* The loss of each row, and its dlogits unless NULL; bias may be NULL. */
sr_status sr_cpu_mlm_chunks(sr_tensor *nll, sr_tensor *correct, sr_tensor *dlogits,
                            const sr_tensor *x, const sr_tensor *word, const sr_tensor *bias,
                            const sr_tensor *labels, const sr_tensor *weights);

/* Whether it is in bf16 on tiles; dlogits may be NULL. */
bool sr_cpu_mlm_on_tiles(const sr_tensor *x, const sr_tensor *word, const sr_tensor *dlogits);
/* dx = factor dlogits word */
sr_status sr_cpu_mlm_dx(sr_tensor *dx, const sr_tensor *dlogits, const sr_tensor *word,
                        float factor);
/* dword += factor dlogits^T x */
sr_status sr_cpu_mlm_dword(sr_tensor *dword, const sr_tensor *dlogits, const sr_tensor *x,
                           float factor);

/* ---- keyed dropout --------------------------------------------------------------------------- */
/* The key of sequence s of the layout at this site. */
sr_key sr_cpu_key(const sr_layout *layout, int32_t s, sr_dropout drop, uint32_t head);

/* ---- the ops: sr_cpu_NAME for each slot ------------------------------------------------------ */
#define SR_SLOT(name, ...) sr_status sr_cpu_##name(SR_PARAMETERS(__VA_ARGS__));
#include "core/tensor/slots.h"

SR_END_C
