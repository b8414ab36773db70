/* status.h - failure is a value.
 *
 * A fallible function returns sr_status and leaves one sentence for the calling thread.  The
 * sentence names the operation, what was given, what was expected and what to do.  Nothing in core/
 * or kernels/ prints or exits; the program turns a status into an exit code with sr_exit_code().
 */
#pragma once

#include "core/base/extern.h"

SR_BEGIN_C

typedef enum sr_status {
    SR_OK = 0,
    SR_EINVAL,    /* invalid argument, an error of the program: shape, range, type       exit 2 */
    SR_ECONFIG,   /* config, recipe or command line invalid                          exit 2 */
    SR_EDATA,     /* input data, vocabulary or checkpoint invalid                    exit 3 */
    SR_ENOENT,    /* no such file or entry                                           exit 3 */
    SR_EDEVICE,   /* device missing or failed, op missing on the device              exit 4 */
    SR_ENOMEM,    /* memory, host or device                                          exit 4 */
    SR_EIO,       /* storage: write, fsync, rename, full disk                        exit 5 */
    SR_ELOCK,     /* another run holds the directory                                 exit 5 */
    SR_ENUMERIC,  /* the numeric guard stopped the run                               exit 1 */
    SR_EPEER,     /* a rank died or hung                                             exit 8 */
    SR_ESTOP,     /* stopped on request                                              exit 75 */
    SR_EINTERNAL, /* internal error: an invariant is violated                        exit 70 */
    SR_STATUS_COUNT
} sr_status;

/* Sets the thread's message (printf format, cut at 1,023 bytes) and returns `status`. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
sr_status
sr_fail(sr_status status, const char *format, ...);

/* The thread's last message; "" before the first failure.  Valid until the next failure. */
const char *sr_message(void);

/* A short stable name, such as "data" for SR_EDATA: the `code` that Lua functions return. */
const char *sr_status_name(sr_status status);

/* The process exit code of a status; see DESIGN, "Exit codes". */
int sr_exit_code(sr_status status);

/* Returns the status to the caller when `expr` fails. */
#define SR_TRY(expr)                                                                               \
    do {                                                                                           \
        sr_status sr_try_status_ = (expr);                                                         \
        if (sr_try_status_ != SR_OK) return sr_try_status_;                                        \
    } while (0)

/* Jumps to `label` when `expr` fails; the function keeps the status in `st`. */
#define SR_GO(label, st, expr)                                                                     \
    do {                                                                                           \
        if (((st) = (expr)) != SR_OK) goto label;                                                  \
    } while (0)

/* The end of a function that has made something: *out gets it, or it is freed after a failure. */
#define SR_GIVE(out, made, st, free) ((st) == SR_OK ? (*(out) = (made), SR_OK) : (free(made), (st)))

SR_END_C
