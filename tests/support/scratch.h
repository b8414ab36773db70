/* scratch.h - a folder of a test program for its files, in memory if possible. */
#pragma once

#include <stdarg.h>
#include <stdlib.h>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "tests/support/check.h"

static char scratch[100];

/* Creates it; false on failure. */
static inline bool scratch_begin(void) {
    bool memory = access("/dev/shm", W_OK) == 0;
    snprintf(scratch, sizeof scratch, "%s/seqrun-test-XXXXXX", memory ? "/dev/shm" : "/tmp");
    if (mkdtemp(scratch) != NULL) return true;
    perror("a folder for the tests");
    return false;
}

static inline void scratch_end(void) {
    CHECK_OK(sr_file_remove_tree(scratch));
}

/* A path in it; equal paths are the same pointer, valid until the program exits. */
__attribute__((format(printf, 1, 2))) static inline char *at(const char *format, ...) {
    static char *texts[128];
    char text[400];
    int n = snprintf(text, sizeof text, "%s/", scratch), i = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    while (texts[i] != NULL && strcmp(texts[i], text) != 0) i++;
    if (texts[i] == NULL) texts[i] = strdup(text);
    return texts[i];
}

static inline void put_file(const char *path, const void *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

static inline bool file_is(const char *path, const char *text) {
    void *bytes;
    size_t size;
    if (sr_file_read(&bytes, &size, path, 1000) != SR_OK) return false;
    bool same = size == strlen(text) && memcmp(bytes, text, size) == 0;
    sr_free(bytes);
    return same;
}
