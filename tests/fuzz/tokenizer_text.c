/* tokenizer_text.c - a text for a tokenizer that stays: the first byte chooses one of those in the
 * corpus of tokenizer_json, with special tokens read or as text. */
#include "core/base/directory.h"
#include "core/base/file.h"
#include "tests/fuzz/fuzz_tokenizer.h"

static const char *const names[] = {"byte_level", "clip",    "fallback",
                                    "split",      "unigram", "wordpiece"};
enum { TOKENIZERS = sizeof names / sizeof *names };
static sr_tokenizer *made[2][TOKENIZERS];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    for (int i = 0; i < 2 * TOKENIZERS; i++) {
        char path[200];
        void *bytes;
        size_t size;
        snprintf(path, sizeof path, "tests/fuzz/corpus/tokenizer_json/%s", names[i / 2]);
        FUZZ_CHECK(sr_file_read(&bytes, &size, path, 1 << 20) == SR_OK);
        const uint8_t *zero = memchr(bytes, 0, size);
        if (zero != NULL) size = (size_t)(zero - (uint8_t *)bytes);
        sr_tokenizer_opts opts = {.specials = i % 2 == 0};
        FUZZ_CHECK(sr_tokenizer_parse(&made[i % 2][i / 2], bytes, size, path, &opts) == SR_OK);
        sr_free(bytes);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size == 0) return 0;
    int choice = bytes[0] % (2 * TOKENIZERS);
    fuzz_check_text(made[choice % 2][choice / 2], bytes + 1, size - 1);
    return 0;
}
