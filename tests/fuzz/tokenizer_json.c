/* tokenizer_json.c - a tokenizer.json, a zero byte, then text: whatever the file says, it is
 * refused or works; special tokens in the text are read or are text, by the length of the file. */
#include "tests/fuzz/fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const uint8_t *zero = size > 0 ? memchr(bytes, 0, size) : NULL;
    size_t head = zero != NULL ? (size_t)(zero - bytes) : size,
           text = zero != NULL ? head + 1 : size;
    sr_tokenizer *t = NULL;
    sr_tokenizer_opts opts = {.specials = head % 2 != 0};
    sr_status status = sr_tokenizer_parse(&t, bytes, head, "fuzz", &opts);
    if (!fuzz_accepted(status, t)) return 0;
    fuzz_check_text(t, bytes + text, size - text);
    sr_tokenizer_release(t);
    return 0;
}
