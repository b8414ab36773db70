/* machine.h - a thread block on the CPU: a fiber per thread, with barriers and collectives as yield
 * points.
 *
 * A machine runs the blocks of a launch one after the other; each thread of the host that takes
 * part has one.  Threads run until they wait, in a pseudo-random order.  A collective of a warp is
 * executed once, by the lane that arrives last.
 *
 * Every access to shared and device memory passes `check.cc`, which knows for each 2 bytes which
 * thread wrote and which read them last, and when.  Time counts the barriers of a block; a tag is
 * time << 11 | who: a thread (below 1024), 1024 + warp, or MANY.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

namespace simt {

struct place {
    const char *file;
    int line;
};

enum : int { WARP = 32, MAX_WARPS = 32, MAX_THREADS = 1024, MAX_SHARED = 227 * 1024 };

/* A collective of a warp: args[lane] are the arguments, on the stacks of the lanes. */
struct collective {
    const char *name;
    void (*run)(void *const *args);
};

/* cp.async: bytes on their way to shared memory.  They arrive at a drawn time before the wait, and
 * are what is then in memory. */
struct flight {
    uint32_t to, group;
    bool landed;
    const void *from;  /* or NULL: zeros */
    uint8_t bytes[16]; /* there when it began */
    place where;
};

struct fiber {
    void *sp; /* NULL: not begun */
    int stack;
    bool done;
    uint32_t group; /* of copies, the open one */
    flight *flights;
    int flying, room;
};

struct warp_state {
    uint32_t ready, arrived; /* lanes */
    uint32_t tag;            /* what threads of the warp wrote before this is visible to them */
    const collective *what;  /* those that have arrived wait in, */
    place where;             /* here, */
    void *args[WARP];        /* with these arguments */
};

struct cell { /* of 2 bytes of shared memory */
    uint32_t written, read;
};

enum : unsigned { WATCH_RACES = 1, WATCH_COUNTS = 2 };

/* The bounds of a kernel in one number: warps * BOUND_STEP + blocks of a multiprocessor. */
enum : int { BOUND_STEP = 64 };
struct bounds {
    int threads, blocks; /* 0: unknown */
};
bounds bounds_of(const void *kernel);

struct report;

struct machine {
    /* the running thread */
    int thread, threads;
    int block[3], blocks[3];
    unsigned watch;
    uint8_t *shared;
    uint32_t shared_bytes;
    uint32_t now;         /* time << 11 */
    uint32_t barrier_tag; /* what was written before this is visible to the whole block */
    uint32_t launch;      /* stamps from here on belong to this launch */
    uint32_t stamp;       /* of this block */
    uint64_t drawn;       /* the state of its pseudo-random decisions */
    cell *cells;
    /* scheduling */
    warp_state warps[MAX_WARPS];
    uint32_t ready_warps;
    int alive, at_barrier, first_waiter;
    place where; /* of the barrier that threads wait at */
    uint64_t switches;
    fiber *fibers;
    char *stacks;
    int16_t free_stack[MAX_THREADS];
    int free_stacks, used_stacks;
    void *host_sp;
    void (*call)(void *);
    void *arguments;
    /* what went wrong in this block */
    bool failed;
    char message[512];
    report *counts;
};

extern __thread machine *mc __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* ---- machine.cc ------------------------------------------------------------------------------ */

sr_status machine_new(machine **out);
void machine_free(machine *m); /* may be NULL */
/* Runs one block; false when it failed: m->message. */
bool run_block(machine *m, uint64_t order);
void tick(machine *m); /* time continues */
void block_barrier(place where);
void collect(const collective *what, void *args, place where);
void land_some(machine *m); /* some copies of the running thread arrive */
/* Ends the block with a message: "what (file:line)". */
[[noreturn]] void stop(place where, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- check.cc -------------------------------------------------------------------------------- */

/* Device memory; unwritten: of a readonly. */
void check_read(const void *p, size_t bytes, place where, bool unwritten = false);
void check_write(const void *p, size_t bytes, place where);
void check_shared_read(uint32_t at, size_t bytes, place where); /* by the running thread */
void check_shared_write(uint32_t at, size_t bytes, place where);
void check_matrix_row(uint32_t at, place where); /* by its warp */
void check_flight(uint32_t to, place where);     /* cp.async has begun */
void check_landing(uint32_t to);

} // namespace simt
