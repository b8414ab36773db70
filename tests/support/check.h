/* check.h - assertions of test programs: use CHECK, and return CHECK_DONE() from main.
 *
 * The last line is `NAME: N passed, N failed`; the exit code is 1 if any check failed.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/status.h"

static int check_passed, check_failed;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (condition)                                                                             \
            check_passed++;                                                                        \
        else                                                                                       \
            check_failed++, printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);  \
    } while (0)

/* The call must succeed; prints its message if it does not. */
#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        sr_status check_status_ = (call);                                                          \
        if (check_status_ == SR_OK)                                                                \
            check_passed++;                                                                        \
        else                                                                                       \
            check_failed++, printf("%s:%d: %s failed (%s): %s\n", __FILE__, __LINE__, #call,       \
                                   sr_status_name(check_status_), sr_message());                   \
    } while (0)

/* The call must fail with this status and a message that contains `words`. */
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

/* OWNED(sr_dataset) *d: freed at the end of its block, by what OWNER(sr_dataset, ...) named. */
#define OWNER(type, free)                                                                          \
    static inline void type##_owned(type **object) {                                               \
        free(*object);                                                                             \
    }
#define OWNED(type) __attribute__((cleanup(type##_owned))) type

/* OWN(sr_dataset, *d, sr_dataset_open(&d, ...)): OWNED(sr_dataset) *d, made by a call that must
 * succeed; of TRY_OWN, whose failure the function returns. */
#define OWN(type, object, call)                                                                    \
    OWNED(type) object = {0};                                                                      \
    CHECK_OK(call)
#define TRY_OWN(type, object, call)                                                                \
    OWNED(type) object = {0};                                                                      \
    SR_TRY(call)

static inline bool file_exists(const char *path) {
    return access(path, F_OK) == 0;
}
