/* replay.c - the main function of fuzz targets under `make test`: feeds every file of
 * tests/fuzz/corpus/NAME unchanged, truncated at many positions, and with deterministic small
 * changes.  No input may leak memory. */
#include <dirent.h>
#include <string.h>

#include "core/base/directory.h"
#include "core/base/file.h"
#include "core/base/rng.h"
#include "tests/fuzz/fuzz.h"

enum { CUTS = 300, CHANGES = 1500, LARGEST = 1 << 20 };

static long inputs;

/* What a target needs for all inputs, if it needs anything; libFuzzer calls it too. */
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Passes a block of exactly this size, so that sanitizers detect a read past its end. */
static void give(const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size > 0 ? size : 1);
    FUZZ_CHECK(exact != NULL);
    memcpy(exact, bytes, size);
    int64_t held = sr_mem_live();
    LLVMFuzzerTestOneInput(exact, size);
    FUZZ_CHECK(sr_mem_live() == held);
    free(exact);
    inputs++;
}

/* Makes one to four edits: flips a bit, sets a byte, or removes or repeats some bytes. */
static size_t change(uint8_t *copy, const uint8_t *bytes, size_t size, uint32_t number) {
    static const uint8_t values[] = {0,   1,   0x7F, 0x80, 0xFF, '0', '9',
                                     '-', '"', '\n', ' ',  '{',  '['};
    memcpy(copy, bytes, size);
    sr_u32x4 x = sr_philox((sr_u32x4){{number, (uint32_t)size, 0, 0}}, 7, SR_ROUNDS_DATA);
    for (uint32_t edit = 0; edit <= x.w[0] % 4 && size > 0; edit++) {
        sr_u32x4 y = sr_philox((sr_u32x4){{number, edit, 1, 0}}, 7, SR_ROUNDS_DATA);
        size_t at = y.w[0] % size, n = 1 + y.w[1] % 8;
        if (n > size - at) n = size - at;
        switch (y.w[2] % 4) {
        case 0:
            copy[at] ^= (uint8_t)(1u << y.w[3] % 8);
            break;
        case 1:
            copy[at] = values[y.w[3] % sizeof values];
            break;
        case 2:
            memmove(copy + at, copy + at + n, size - at - n), size -= n;
            break;
        default:
            memmove(copy + at + n, copy + at, size - at), size += n;
            break;
        }
    }
    return size;
}

static void replay(const char *path) {
    void *bytes;
    size_t size;
    FUZZ_CHECK(sr_file_read(&bytes, &size, path, LARGEST) == SR_OK);
    give(bytes, size);
    size_t step = size / CUTS + 1;
    for (size_t n = 0; n < size; n += step) give(bytes, n);
    uint8_t *copy = malloc(size + 64);
    FUZZ_CHECK(copy != NULL);
    for (uint32_t i = 0; i < CHANGES; i++) give(copy, change(copy, bytes, size, i));
    free(copy);
    sr_free(bytes);
}

int main(int argc, char **argv) {
    const char *name = argc > 0 ? strrchr(argv[0], '-') : NULL;
    char folder[256], path[600];
    char **files;
    size_t count;
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", name != NULL ? name + 1 : "");
    if (LLVMFuzzerInitialize != NULL) LLVMFuzzerInitialize(&argc, &argv);
    if (sr_file_list(&files, &count, folder) != SR_OK) {
        fprintf(stderr, "%s\n", sr_message());
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        replay(path);
    }
    sr_file_list_free(files, count);
    printf("%s: %ld inputs\n", folder, inputs);
    return inputs > 0 ? 0 : 1;
}
