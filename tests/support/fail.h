/* fail.h - allocations that fail on demand, over the hook of core/base/mem.h. */
#pragma once

#include "core/base/mem.h"
#include "tests/support/check.h"

static int64_t fail_calls, fail_number;
static bool fail_sticky;

static inline bool fail_refuse(void) {
    int64_t n = __atomic_add_fetch(&fail_calls, 1, __ATOMIC_RELAXED);
    int64_t at = __atomic_load_n(&fail_number, __ATOMIC_RELAXED);
    return at != 0 && (n == at || (n > at && __atomic_load_n(&fail_sticky, __ATOMIC_RELAXED)));
}

/* Allocation number `n` from now (1 = the next) fails, and all later ones too when `sticky`; with
 * n = 0 none does. */
static inline void sr_mem_fail_at(int64_t n, bool sticky) {
    __atomic_store_n(&fail_calls, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fail_number, n, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fail_sticky, sticky, __ATOMIC_SEQ_CST);
    sr_mem_refuse_by(fail_refuse);
}

/* Allocations requested since the last sr_mem_fail_at(). */
static inline int64_t sr_mem_calls(void) {
    return __atomic_load_n(&fail_calls, __ATOMIC_SEQ_CST);
}

/* Whether a call that was refused allocation n ended as it must, or, if it `may` do without, well; true
 * if it asked for so many. */
static inline bool fail_ended(sr_status st, int64_t n, bool may) {
    bool reached = sr_mem_calls() >= n;
    sr_mem_fail_at(0, false);
    CHECK(st == (reached ? SR_ENOMEM : SR_OK) || (may && st == SR_OK));
    if (!reached) CHECK(n > 1); /* it allocates */
    return reached;
}

/* Makes the call again and again, st its status, while its allocation number 1, 2, ... fails, and
 * those after it if `sticky`, until it asks for fewer: it returns SR_ENOMEM till then, or SR_OK if it
 * `may`.  The block that follows looks at each end.  With `thin` > 0 a part is left out, more the
 * later it is. */
#define STARVE_ANY(st, thin, may, sticky, call)                                                    \
    for (int64_t n_ = 1, more_ = 1; more_ && (sr_mem_fail_at(n_, sticky),                          \
                                              st = (call), more_ = fail_ended(st, n_, may), true); \
         n_ += 1 + ((thin) > 0 ? n_ / (thin) : 0))
#define STARVE(st, sticky, call) STARVE_ANY(st, 0, false, sticky, call)

/* No end leaves more or less than there was, of blocks or of `left`. */
#define CHECK_STARVED_ANY(may, sticky, call, left)                                                 \
    do {                                                                                           \
        sr_status st_ = SR_OK;                                                                     \
        int64_t left_ = (int64_t)(left);                                                           \
        STARVE_ANY(st_, 0, may, sticky, call) CHECK((int64_t)(left) == left_);                     \
    } while (0)
#define CHECK_STARVED_BUT(sticky, call, left) CHECK_STARVED_ANY(false, sticky, call, left)
#define CHECK_STARVED(sticky, call) CHECK_STARVED_ANY(false, sticky, call, sr_mem_live())
#define CHECK_SPARED(sticky, call) CHECK_STARVED_ANY(true, sticky, call, sr_mem_live())
