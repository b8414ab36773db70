/* fuzz.h - helpers of the fuzz targets.
 *
 * A target is tests/fuzz/NAME.c with the function below.  `make fuzz` builds it with clang's
 * libFuzzer; `make test` runs it as fuzz-NAME, which replays tests/fuzz/corpus/NAME with
 * every truncation and many small changes (replay.c).  A target aborts if a check fails. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/mem.h"
#include "core/base/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv); /* optional: once, before all inputs */

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s (last message: %s)\n", __FILE__, __LINE__,   \
                    #condition, sr_message());                                                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Bad input must be rejected with a message, not as an error of memory or storage. */
#define FUZZ_REFUSED(status) FUZZ_CHECK((status) == SR_EDATA && sr_message()[0] != '\0')

/* Whether it was taken; what was refused left no object. */
static inline bool fuzz_accepted(sr_status status, const void *object) {
    if (status == SR_OK) return true;
    FUZZ_REFUSED(status);
    FUZZ_CHECK(object == NULL);
    return false;
}

static inline int fuzz_no_sync(int fd) {
    (void)fd;
    return 0;
}

/* An anonymous file of these bytes, accessible as `path`; closed by the caller. */
static inline int fuzz_file(char path[64], const uint8_t *bytes, size_t size) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    for (size_t at = 0; at < size;) {
        ssize_t n = write(fd, bytes + at, size - at);
        FUZZ_CHECK(n > 0);
        at += (size_t)n;
    }
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

/* As sr_io.read, whatever the file: the input, at most so many bytes at once. */
static const uint8_t *fuzz_input;
static size_t fuzz_left, fuzz_most;

static inline ssize_t fuzz_feed(int fd, void *bytes, size_t size) {
    (void)fd;
    size_t n = fuzz_left < size ? fuzz_left : size;
    if (n > fuzz_most) n = fuzz_most;
    memcpy(bytes, fuzz_input, n);
    fuzz_input += n, fuzz_left -= n;
    return (ssize_t)n;
}

/* Makes a directory of this process for files, which are not flushed to disk.  TMPDIR may name one
 * in memory, which is faster.  The target removes it at exit. */
static inline void fuzz_folder(char folder[96]) {
    const char *place = getenv("TMPDIR");
    sr_io_now.fsync = fuzz_no_sync;
    snprintf(folder, 96, "%s/seqrun-fuzz-XXXXXX", place != NULL ? place : "/tmp");
    FUZZ_CHECK(mkdtemp(folder) != NULL);
}
