/* check.cc - races, and reads of shared memory that nobody wrote.
 *
 * Two accesses of the same bytes, one of them a write, must be ordered: by the same thread, by a
 * barrier of the block, or by a barrier of the warp that both belong to.  Between blocks of a
 * launch nothing is ordered.
 */
#include "kernels/simt/arena.h"
#include "kernels/simt/machine.h"
#include "kernels/simt/report.h"

namespace simt {

enum : uint32_t {
    WHO = (1u << 11) - 1,
    MANY = WHO,           /* several warps */
    WARP_READS = 1024,    /* + warp: several threads of it */
    IN_FLIGHT = 1u << 31, /* a copy that has not landed */
    UNWRITTEN = 1u << 31  /* read through a readonly */
};

static uint32_t me(const machine *m) {
    return (uint32_t)m->thread;
}
static uint32_t my_warp(const machine *m) {
    return (uint32_t)m->thread / WARP;
}

static uint32_t warp_of(uint32_t who) {
    return who < WARP_READS ? who / WARP : who == MANY ? ~0u : who - WARP_READS;
}

/* Whether an access under this tag is ordered before the running thread (or its warp). */
static inline bool ordered(const machine *m, uint32_t tag, bool whole_warp) {
    if (tag < m->barrier_tag) return true;
    uint32_t who = tag & WHO;
    if (!whole_warp && who == me(m)) return true;
    uint32_t w = my_warp(m);
    return tag < m->warps[w].tag && warp_of(who) == w;
}

/* The tag of a read that joins an earlier one. */
static inline uint32_t read_by(const machine *m, uint32_t before, uint32_t who) {
    if (ordered(m, before, who >= WARP_READS)) return m->now | who;
    return m->now |
           (warp_of(before & WHO) == my_warp(m) ? WARP_READS + my_warp(m) : (uint32_t)MANY);
}

/* Names the one that did it: "thread 7" or "warp 2". */
#define WHO_FORMAT "%s %u"
#define WHO_OF(tag)                                                                                \
    ((tag)&WHO) < WARP_READS ? "thread"                                                            \
    : ((tag)&WHO) == MANY    ? "several, up to"                                                    \
                             : "warp",                                                                \
        ((tag)&WHO) < WARP_READS ? (tag)&WHO : ((tag)&WHO) - WARP_READS

/* ---- shared memory --------------------------------------------------------------------------- */

static inline void shared_read(machine *m, cell *c, uint32_t at, bool whole_warp, place where) {
    if (__builtin_expect(c->written == 0, 0))
        stop(where, "reads byte %u of shared memory, which nobody wrote", at);
    if (__builtin_expect(c->written & IN_FLIGHT, 0))
        stop(where,
             "reads byte %u of shared memory while a copy by thread %u is under way; cp_wait and a "
             "barrier must come first",
             at, c->written & WHO);
    if (__builtin_expect(!ordered(m, c->written, whole_warp), 0))
        stop(where,
             "reads byte %u of shared memory, which " WHO_FORMAT
             " wrote with no barrier in between",
             at, WHO_OF(c->written));
    c->read = read_by(m, c->read, whole_warp ? WARP_READS + my_warp(m) : me(m));
}

static inline void shared_write(machine *m, cell *c, uint32_t at, place where) {
    if (__builtin_expect(c->written & IN_FLIGHT, 0))
        stop(where, "writes byte %u of shared memory while a copy by thread %u is under way", at,
             c->written & WHO);
    if (__builtin_expect(!ordered(m, c->written, false), 0))
        stop(where,
             "writes byte %u of shared memory, which " WHO_FORMAT
             " wrote with no barrier in between",
             at, WHO_OF(c->written));
    if (__builtin_expect(!ordered(m, c->read, false), 0))
        stop(where,
             "writes byte %u of shared memory, which " WHO_FORMAT
             " read with no barrier in between",
             at, WHO_OF(c->read));
    c->written = m->now | me(m);
}

void check_shared_read(uint32_t at, size_t bytes, place where) {
    machine *m = mc;
    if (m->watch & WATCH_COUNTS) count_access(m, COUNT_SHARED_READ, at, bytes, where);
    if (!(m->watch & WATCH_RACES)) return;
    for (cell *c = m->cells + at / 2, *end = m->cells + (at + bytes + 1) / 2; c < end; c++)
        shared_read(m, c, at, false, where);
}

void check_shared_write(uint32_t at, size_t bytes, place where) {
    machine *m = mc;
    if (m->watch & WATCH_COUNTS) count_access(m, COUNT_SHARED_WRITE, at, bytes, where);
    if (!(m->watch & WATCH_RACES)) return;
    if (bytes == 1) { /* two threads may write the two bytes of a cell */
        m->cells[at / 2].written = m->now | me(m);
        return;
    }
    for (cell *c = m->cells + at / 2, *end = m->cells + (at + bytes) / 2; c < end; c++)
        shared_write(m, c, at, where);
}

void check_matrix_row(uint32_t at, place where) {
    machine *m = mc;
    if (!(m->watch & WATCH_RACES)) return;
    for (cell *c = m->cells + at / 2, *end = c + 8; c < end; c++)
        shared_read(m, c, at, true, where);
}

void check_flight(uint32_t to, place where) {
    machine *m = mc;
    if (m->watch & WATCH_COUNTS) count_access(m, COUNT_SHARED_WRITE, to, 16, where);
    if (!(m->watch & WATCH_RACES)) return;
    for (cell *c = m->cells + to / 2, *end = c + 8; c < end; c++) {
        shared_write(m, c, to, where);
        c->written |= IN_FLIGHT;
    }
}

void check_landing(uint32_t to) {
    machine *m = mc;
    if (!(m->watch & WATCH_RACES)) return;
    for (cell *c = m->cells + to / 2, *end = c + 8; c < end; c++) c->written = m->now | me(m);
}

/* ---- device memory --------------------------------------------------------------------------- */

static long long offset_of(const void *p) {
    return (long long)((uintptr_t)p & 0xFFFFFFFF);
}

/* The tag of a read of the same block that joins an earlier one. */
static inline uint32_t global_read_by(const machine *m, uint32_t before) {
    return read_by(m, before & ~UNWRITTEN, me(m)) | (before & UNWRITTEN);
}

static inline void global_read(machine *m, note *n, const void *p, place where, bool unwritten) {
    if (__builtin_expect(n->write_block >= m->launch, 0)) {
        if (unwritten)
            stop(where, "reads device memory (..%08llx) through a readonly, which the launch wrote",
                 offset_of(p));
        if (n->write_block != m->stamp)
            stop(where, "reads device memory (..%08llx) that block %u of the same launch wrote",
                 offset_of(p), n->write_block - m->launch);
        if (!ordered(m, n->write_tag, false))
            stop(where,
                 "reads device memory (..%08llx) that " WHO_FORMAT
                 " wrote with no barrier in between",
                 offset_of(p), WHO_OF(n->write_tag));
    }
    if (n->read_block < m->launch)
        n->read_tag = m->now | me(m);
    else if (n->read_block != m->stamp)
        n->read_tag = MANY_BLOCKS;
    else if (n->read_tag != MANY_BLOCKS)
        n->read_tag = global_read_by(m, n->read_tag);
    if (unwritten) n->read_tag |= UNWRITTEN;
    n->read_block = m->stamp;
}

static inline void global_write(machine *m, note *n, const void *p, place where) {
    if (__builtin_expect(n->write_block >= m->launch, 0)) {
        if (n->write_block != m->stamp)
            stop(where, "writes device memory (..%08llx) that block %u of the same launch wrote",
                 offset_of(p), n->write_block - m->launch);
        if (!ordered(m, n->write_tag, false))
            stop(where,
                 "writes device memory (..%08llx) that " WHO_FORMAT
                 " wrote with no barrier in between",
                 offset_of(p), WHO_OF(n->write_tag));
    }
    if (__builtin_expect(n->read_block >= m->launch, 0)) {
        if (n->read_block != m->stamp || n->read_tag == MANY_BLOCKS)
            stop(where, "writes device memory (..%08llx) that another block of the launch read",
                 offset_of(p));
        if (n->read_tag & UNWRITTEN)
            stop(where, "writes device memory (..%08llx) that the launch reads through a readonly",
                 offset_of(p));
        if (!ordered(m, n->read_tag, false))
            stop(where,
                 "writes device memory (..%08llx) that " WHO_FORMAT
                 " read with no barrier in between",
                 offset_of(p), WHO_OF(n->read_tag));
    }
    n->write_block = m->stamp;
    n->write_tag = m->now | me(m);
}

void check_read(const void *p, size_t bytes, place where, bool unwritten) {
    machine *m = mc;
    if (m->watch & WATCH_COUNTS) count_access(m, COUNT_READ, (uintptr_t)p, bytes, where);
    if (!(m->watch & WATCH_RACES) || bytes == 1) return;
    note *n = arena_note(p);
    if (n == nullptr) stop(where, "reads memory of the host");
    for (note *end = n + bytes / 2; n < end; n++) global_read(m, n, p, where, unwritten);
}

void check_write(const void *p, size_t bytes, place where) {
    machine *m = mc;
    if (m->watch & WATCH_COUNTS) count_access(m, COUNT_WRITE, (uintptr_t)p, bytes, where);
    if (!(m->watch & WATCH_RACES) || bytes == 1) return;
    note *n = arena_note(p);
    if (n == nullptr) stop(where, "writes memory of the host");
    for (note *end = n + bytes / 2; n < end; n++) global_write(m, n, p, where);
}

} // namespace simt
