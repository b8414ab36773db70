/* check.h - a test program in C: CHECK what must hold, return CHECK_DONE() from main.
 *
 * The closing line is `NAME: N passed, N failed`; the exit code is 1 when anything failed.
 */
#ifndef SR_TESTS_CHECK_H
#define SR_TESTS_CHECK_H

#include <stdio.h>
#include <string.h>

#include "core/base/status.h"

static int check_passed, check_failed;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (condition)                                                                             \
            check_passed++;                                                                        \
        else                                                                                       \
            check_failed++, printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);  \
    } while (0)

/* The call succeeds; prints its message when it does not. */
#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        sr_status check_status_ = (call);                                                          \
        if (check_status_ == SR_OK)                                                                \
            check_passed++;                                                                        \
        else                                                                                       \
            check_failed++, printf("%s:%d: %s failed (%s): %s\n", __FILE__, __LINE__, #call,       \
                                   sr_status_name(check_status_), sr_message());                   \
    } while (0)

/* The call fails with this status and its message contains `words`. */
#define CHECK_FAILS(call, wanted, words)                                                           \
    do {                                                                                           \
        sr_status check_status_ = (call);                                                          \
        if (check_status_ == (wanted) && strstr(sr_message(), words) != NULL)                      \
            check_passed++;                                                                        \
        else                                                                                       \
            check_failed++, printf("%s:%d: %s gave %s: %s\n", __FILE__, __LINE__, #call,           \
                                   sr_status_name(check_status_), sr_message());                   \
    } while (0)

#define CHECK_DONE()                                                                               \
    (printf("%s: %d passed, %d failed\n", __FILE__, check_passed, check_failed), check_failed != 0)

#endif
