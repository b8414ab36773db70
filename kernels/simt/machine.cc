#include "kernels/simt/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/mem.h"

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
static void fiber_clear(fiber *) {
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
static void fiber_clear(fiber *) {
}
#endif

static void resume(machine *m, int thread) {
    void **from = &m->fibers[m->thread].sp;
    m->thread = thread;
    m->switches++;
    simt_switch(from, m->fibers[thread].sp);
}

[[noreturn]] static void leave(machine *m) {
    void *rest;
    simt_switch(&rest, m->host_sp);
    abort();
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

/* Nobody can run: somebody waits for a thread that waits elsewhere or has returned. */
[[noreturn]] static void stuck(machine *m) {
    int waits = -1, other = -1;
    for (int i = 0; i < m->threads; i++) {
        const fiber *f = &m->fibers[i];
        if (!f->done && (waits < 0 || (f->what != nullptr && m->fibers[waits].what == nullptr)))
            waits = i;
    }
    const fiber *w = &m->fibers[waits];
    int first = w->what != nullptr ? waits / WARP * WARP : 0;
    int end = w->what != nullptr ? first + WARP : m->threads;
    for (int i = first; i < end && other < 0; i++)
        if (m->fibers[i].done || m->fibers[i].what != w->what) other = i;
    m->thread = waits;
    const char *name = w->what != nullptr ? w->what->name : "barrier";
    if (other < 0) stop(w->where, "%s waits for ever", name);
    const fiber *o = &m->fibers[other];
    if (o->done) stop(w->where, "divergent %s: thread %d has returned", name, other);
    stop(w->where, "divergent %s: thread %d waits in %s at %s:%d", name, other,
         o->what != nullptr ? o->what->name : "barrier", base_name(o->where.file), o->where.line);
}

/* ---- scheduling ------------------------------------------------------------------------------ */

static int next_bit(uint32_t bits, int after) {
    uint32_t above = after < 31 ? bits & ~0u << (after + 1) : 0;
    return __builtin_ctz(above != 0 ? above : bits);
}

/* Gives the processor to another thread that can run; returns when this one can again. */
static void yield(machine *m) {
    int w = m->thread / WARP;
    if (m->warps[w].ready == 0) {
        m->ready_warps &= ~(1u << w);
        if (m->ready_warps == 0) {
            if (m->alive == 0) leave(m);
            stuck(m);
        }
        w = next_bit(m->ready_warps, w);
    }
    resume(m, w * WARP + next_bit(m->warps[w].ready, m->thread % WARP));
}

static void sleep(machine *m, const collective *what, void *args, place where) {
    fiber *f = &m->fibers[m->thread];
    f->what = what;
    f->args = args;
    f->where = where;
    m->warps[m->thread / WARP].ready &= ~(1u << m->thread % WARP);
}

static bool same_place(place a, place b) {
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

void tick(machine *m) {
    if (m->now > ~0u / 2 - 2 * TIME_STEP) stop({"machine", 0}, "too many barriers in one block");
    m->now += TIME_STEP;
}

void block_barrier(place where) {
    machine *m = mc;
    sleep(m, nullptr, nullptr, where);
    if (++m->at_barrier < m->threads) {
        yield(m);
        return;
    }
    for (int i = 0; i < m->threads; i++)
        if (!same_place(m->fibers[i].where, where))
            stop(where, "divergent barrier: thread %d waits at %s:%d", i,
                 base_name(m->fibers[i].where.file), m->fibers[i].where.line);
    m->at_barrier = 0;
    tick(m);
    m->barrier_tag = m->now;
    int warps = m->threads / WARP;
    for (int w = 0; w < warps; w++) m->warps[w].ready = ~0u;
    m->ready_warps = warps == 32 ? ~0u : (1u << warps) - 1;
}

void collect(const collective *what, void *args, place where) {
    machine *m = mc;
    int w = m->thread / WARP;
    warp_state *state = &m->warps[w];
    sleep(m, what, args, where);
    state->arrived |= 1u << m->thread % WARP;
    if (state->arrived != ~0u) {
        yield(m);
        return;
    }
    void *all[WARP];
    for (int l = 0; l < WARP; l++) {
        const fiber *f = &m->fibers[w * WARP + l];
        if (f->what != what || !same_place(f->where, where))
            stop(where, "divergent %s: thread %d waits in %s at %s:%d", what->name, w * WARP + l,
                 f->what->name, base_name(f->where.file), f->where.line);
        all[l] = f->args;
    }
    what->run(all);
    state->arrived = 0;
    state->ready = ~0u;
    m->ready_warps |= 1u << w;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void entry(void) {
    machine *m = mc;
    m->call(m->arguments);
    fiber *f = &m->fibers[m->thread];
    f->done = true;
    m->alive--;
    m->warps[m->thread / WARP].ready &= ~(1u << m->thread % WARP);
    yield(m);
    abort();
}

static void begin_block(machine *m) {
    int warps = m->threads / WARP;
    for (int i = 0; i < m->threads; i++) {
        fiber *f = &m->fibers[i];
        /* Staggered: else the frames of all threads compete for the same lines of the cache. */
        prepare(f, m->stacks + (size_t)i * STACK, STACK - (size_t)(i * 5 % 64) * 128, entry);
        f->done = false;
        f->what = nullptr;
        f->group = 0;
        f->flying = 0;
    }
    m->now = TIME_STEP;
    m->barrier_tag = TIME_STEP;
    for (int w = 0; w < warps; w++) m->warps[w] = {~0u, 0, 0};
    m->ready_warps = warps == 32 ? ~0u : (1u << warps) - 1;
    m->alive = m->threads;
    m->at_barrier = 0;
    m->failed = false;
    memset(m->shared, 0xFF, m->shared_bytes);
    memset(m->cells, 0, (m->shared_bytes + 1) / 2 * sizeof *m->cells);
}

bool run_block(machine *m, uint64_t order) {
    mc = m;
    begin_block(m);
    m->thread = (int)(order % (uint64_t)m->threads);
    simt_switch(&m->host_sp, m->fibers[m->thread].sp);
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
        fiber_clear(&m->fibers[i]);
    }
    if (m->stacks != nullptr) munmap(m->stacks, STACK * MAX_THREADS);
    sr_free_aligned(m->shared);
    sr_free(m->cells);
    sr_free(m->fibers);
    sr_free(m);
}

} // namespace simt
