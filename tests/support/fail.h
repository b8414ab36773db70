/* fail.h - allocations that fail on demand, over the hook of core/base/mem.h. */
#ifndef SR_TESTS_FAIL_H
#define SR_TESTS_FAIL_H

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

/* Makes the call again and again while its allocation number 1, 2, ... fails, and those after it if
 * `sticky`, until it asks for fewer: it returns SR_ENOMEM till then, and `left` as it was. */
#define CHECK_STARVED_BUT(sticky, call, left)                                                      \
    do {                                                                                           \
        int64_t left_ = (int64_t)(left), n_ = 0;                                                   \
        for (bool reached_ = true; reached_;) {                                                    \
            sr_mem_fail_at(++n_, sticky);                                                          \
            sr_status st_ = (call);                                                                \
            reached_ = sr_mem_calls() >= n_;                                                       \
            sr_mem_fail_at(0, false);                                                              \
            CHECK(st_ == (reached_ ? SR_ENOMEM : SR_OK) && (int64_t)(left) == left_);              \
        }                                                                                          \
        CHECK(n_ > 2); /* it allocates */                                                          \
    } while (0)
#define CHECK_STARVED(sticky, call) CHECK_STARVED_BUT(sticky, call, sr_mem_live())

#endif
