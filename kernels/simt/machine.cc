#include "kernels/simt/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/mem.h"
#include "kernels/simt/report.h"

namespace simt {

__thread machine *mc;

enum : size_t { STACK = 96 * 1024 };
enum : uint32_t { TIME_STEP = 1u << 11 };

/* ---- switching ------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* Saves what a call must preserve, and its stack; continues the other. */
extern "C" void simt_switch(void **from, void *to) __attribute__((visibility("hidden")));
asm(R"(
    .text
    .hidden simt_switch
    .globl simt_switch
    .type simt_switch, @function
    .p2align 4
simt_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size simt_switch, . - simt_switch
)");

static void prepare(fiber *f, char *stack, size_t bytes, void (*entry)(void)) {
    void **top = (void **)(stack + bytes - 64);
    *--top = nullptr; /* keeps the stack aligned at entry */
    *--top = (void *)entry;
    for (int i = 0; i < 6; i++) *--top = nullptr;
    f->sp = top;
}
#else
#include <ucontext.h>
static void simt_switch(void **from, void *to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, (ucontext_t *)to);
}
static void prepare(fiber *f, char *stack, size_t bytes, void (*entry)(void)) {
    ucontext_t *context = (ucontext_t *)stack; /* at the far end of its own stack */
    getcontext(context);
    context->uc_stack.ss_sp = stack + sizeof *context;
    context->uc_stack.ss_size = bytes - sizeof *context;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    f->sp = context;
}
#endif

static void entry(void);

/* Continues a thread, or starts it on a stack of its own. */
static void resume(machine *m, int thread) {
    void **from = &m->fibers[m->thread].sp;
    fiber *f = &m->fibers[thread];
    if (f->sp == nullptr) {
        int i = m->free_stacks > 0 ? m->free_stack[--m->free_stacks] : m->used_stacks++;
        f->stack = i;
        /* Staggered: else the frames of all threads compete for the same cache lines. */
        prepare(f, m->stacks + (size_t)i * STACK, STACK - (size_t)(i * 5 % 64) * 128, entry);
    }
    m->thread = thread;
    m->switches++;
    simt_switch(from, f->sp);
}

[[noreturn]] static void leave(machine *m) {
    void *rest;
    simt_switch(&rest, m->host_sp);
    abort();
}

/* ---- bounds of kernels ----------------------------------------------------------------------- */

/* Where the NOPs of each kernel begin, which end where it does. */
extern "C" __attribute__((weak, visibility("hidden")))
const uintptr_t __start___patchable_function_entries[],
    __stop___patchable_function_entries[];

bounds bounds_of(const void *kernel) {
    uintptr_t begin = 0, end = (uintptr_t)kernel;
    for (const uintptr_t *at = __start___patchable_function_entries;
         at < __stop___patchable_function_entries; at++)
        if (*at <= end && *at > begin) begin = *at;
    uintptr_t nops = end - begin, most = (MAX_THREADS / WARP + 1) * BOUND_STEP;
    if (begin == 0 || nops == 0 || nops >= most) return {0, 0};
    return {(int)(nops / BOUND_STEP) * WARP, (int)(nops % BOUND_STEP)};
}

/* ---- failing --------------------------------------------------------------------------------- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != nullptr ? slash + 1 : path;
}

void stop(place where, const char *format, ...) {
    machine *m = mc;
    char reason[320];
    va_list list;
    va_start(list, format);
    vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    m->failed = true;
    snprintf(m->message, sizeof m->message, "block (%d, %d, %d), thread %d, %s:%d: %s", m->block[0],
             m->block[1], m->block[2], m->thread, base_name(where.file), where.line, reason);
    leave(m);
}

static bool waits_in_warp(const machine *m, int thread) {
    return m->warps[thread / WARP].arrived >> thread % WARP & 1;
}

[[noreturn]] static void diverged(const char *name, place where, int other, const char *there,
                                  place at) {
    stop(where, "divergent %s: thread %d waits in %s at %s:%d", name, other, there,
         base_name(at.file), at.line);
}

/* No thread can run: one waits for a thread that waits elsewhere or has returned. */
[[noreturn]] static void stuck(machine *m) {
    int waits = -1;
    for (int i = 0; i < m->threads; i++)
        if (!m->fibers[i].done && (waits < 0 || (waits_in_warp(m, i) && !waits_in_warp(m, waits))))
            waits = i;
    const warp_state *warp = waits_in_warp(m, waits) ? &m->warps[waits / WARP] : nullptr;
    const char *name = warp != nullptr ? warp->what->name : "barrier";
    place where = warp != nullptr ? warp->where : m->where;
    int first = warp != nullptr ? waits / WARP * WARP : 0;
    int end = warp != nullptr ? first + WARP : m->threads;
    m->thread = waits;
    for (int i = first; i < end; i++) {
        if (m->fibers[i].done) stop(where, "divergent %s: thread %d has returned", name, i);
        if (warp != nullptr && !waits_in_warp(m, i)) diverged(name, where, i, "barrier", m->where);
    }
    stop(where, "%s waits forever", name);
}

/* ---- scheduling ------------------------------------------------------------------------------ */

static int next_bit(uint32_t bits, int after) {
    uint32_t above = after < 31 ? bits & ~0u << (after + 1) : 0;
    return __builtin_ctz(above != 0 ? above : bits);
}

/* The thread to run next: of this warp if one can, else of the next warp that has one. */
static int next_thread(machine *m) {
    int w = m->thread / WARP;
    if (m->warps[w].ready == 0) {
        m->ready_warps &= ~(1u << w);
        if (m->ready_warps == 0) {
            if (m->alive == 0) leave(m);
            stuck(m);
        }
        w = next_bit(m->ready_warps, w);
    }
    return w * WARP + next_bit(m->warps[w].ready, m->thread % WARP);
}

/* Yields to another thread; returns when this one can run again. */
static void yield(machine *m) {
    resume(m, next_thread(m));
}

static bool same_place(place a, place b) {
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

static void set_all_ready(machine *m) {
    int warps = m->threads / WARP;
    for (int w = 0; w < warps; w++) m->warps[w].ready = ~0u;
    m->ready_warps = warps == 32 ? ~0u : (1u << warps) - 1;
}

void tick(machine *m) {
    if (m->now > ~0u / 2 - 2 * TIME_STEP) stop({"machine", 0}, "too many barriers in one block");
    m->now += TIME_STEP;
}

void block_barrier(place where) {
    machine *m = mc;
    if (m->fibers[m->thread].flying > 0) land_some(m);
    if (m->at_barrier == 0) {
        m->where = where;
        m->first_waiter = m->thread;
    } else if (!same_place(m->where, where)) {
        diverged("barrier", where, m->first_waiter, "barrier", m->where);
    }
    m->warps[m->thread / WARP].ready &= ~(1u << m->thread % WARP);
    if (++m->at_barrier < m->threads) {
        yield(m);
        return;
    }
    m->at_barrier = 0;
    tick(m);
    m->barrier_tag = m->now;
    if (m->watch & WATCH_COUNTS) count_block(m);
    set_all_ready(m);
}

void collect(const collective *what, void *args, place where) {
    machine *m = mc;
    warp_state *w = &m->warps[m->thread / WARP];
    int lane = m->thread % WARP;
    if (w->arrived == 0) {
        w->what = what;
        w->where = where;
    } else if (w->what != what || !same_place(w->where, where)) {
        diverged(what->name, where, m->thread / WARP * WARP + __builtin_ctz(w->arrived),
                 w->what->name, w->where);
    }
    w->args[lane] = args;
    w->arrived |= 1u << lane;
    w->ready &= ~(1u << lane);
    if (w->arrived != ~0u) {
        yield(m);
        return;
    }
    what->run(w->args);
    if (m->watch & WATCH_COUNTS) count_warp(m, m->thread / WARP);
    w->arrived = 0;
    w->ready = ~0u;
    m->ready_warps |= 1u << m->thread / WARP;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A thread that has returned leaves its stack to the next one that has not begun: a kernel without
 * barriers is a loop on one stack. */
static void entry(void) {
    machine *m = mc;
    for (;;) {
        m->call(m->arguments);
        fiber *f = &m->fibers[m->thread];
        f->done = true;
        m->alive--;
        m->warps[m->thread / WARP].ready &= ~(1u << m->thread % WARP);
        int next = next_thread(m);
        if (m->fibers[next].sp != nullptr) {
            m->free_stack[m->free_stacks++] = f->stack;
            resume(m, next);
        }
        m->fibers[next].sp = f->sp; /* anything but NULL: it has begun */
        m->fibers[next].stack = f->stack;
        m->thread = next;
    }
}

static void begin_block(machine *m) {
    int warps = m->threads / WARP;
    for (int i = 0; i < m->threads; i++) {
        fiber *f = &m->fibers[i];
        f->sp = nullptr;
        f->done = false;
        f->group = 0;
        f->flying = 0;
    }
    m->free_stacks = m->used_stacks = 0;
    m->now = TIME_STEP;
    m->barrier_tag = TIME_STEP;
    for (int w = 0; w < warps; w++) m->warps[w].arrived = m->warps[w].tag = 0;
    set_all_ready(m);
    m->alive = m->threads;
    m->at_barrier = 0;
    m->failed = false;
    memset(m->shared, 0xFF, m->shared_bytes);
    memset(m->cells, 0, (m->shared_bytes + 1) / 2 * sizeof *m->cells);
}

static void start(machine *m, int thread) {
    fiber *f = &m->fibers[thread];
    f->stack = m->used_stacks++;
    prepare(f, m->stacks, STACK, entry);
    m->thread = thread;
    simt_switch(&m->host_sp, f->sp);
}

bool run_block(machine *m, uint64_t order) {
    mc = m;
    m->drawn = order;
    begin_block(m);
    start(m, (int)(order % (uint64_t)m->threads));
    if (m->watch & WATCH_COUNTS) count_block(m);
    mc = nullptr;
    return !m->failed;
}

sr_status machine_new(machine **out) {
    *out = nullptr;
    machine *m;
    SR_TRY(sr_new(&m, 1));
    sr_status st = sr_new(&m->fibers, MAX_THREADS);
    if (st == SR_OK) st = sr_new(&m->cells, MAX_SHARED / 2);
    if (st == SR_OK) st = sr_alloc_aligned((void **)&m->shared, MAX_SHARED);
    if (st == SR_OK) {
        m->stacks = (char *)mmap(nullptr, STACK * MAX_THREADS, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m->stacks == MAP_FAILED) {
            m->stacks = nullptr;
            st = sr_fail(SR_ENOMEM, "simt: cannot allocate %zu bytes of stacks",
                         STACK * MAX_THREADS);
        }
    }
    if (st != SR_OK) {
        machine_free(m);
        return st;
    }
    *out = m;
    return SR_OK;
}

void machine_free(machine *m) {
    if (m == nullptr) return;
    for (int i = 0; m->fibers != nullptr && i < MAX_THREADS; i++) {
        sr_free(m->fibers[i].flights);
    }
    if (m->stacks != nullptr) munmap(m->stacks, STACK * MAX_THREADS);
    counts_free(m->counts);
    sr_free_aligned(m->shared);
    sr_free(m->cells);
    sr_free(m->fibers);
    sr_free(m);
}

} // namespace simt
