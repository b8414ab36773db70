/* tokenizer_json.c - a tokenizer.json, a zero byte, then text: whatever the file says, ids are
 * tokens, positions lie in the text in order of their ends, ids do not depend on positions or on
 * the cache, and decoding does no harm. */
#include <string.h>

#include "core/base/mem.h"
#include "core/text/tokenizer.h"
#include "tests/support/fuzz.h"

static void check_tokens(const sr_tokens *k, const sr_tokenizer *t, size_t size) {
    for (size_t i = 0; i < k->count; i++) {
        size_t length;
        FUZZ_CHECK(sr_tokenizer_token(t, k->ids[i], &length) != NULL);
        if (!k->want_spans) continue;
        FUZZ_CHECK(k->spans[i].byte_first <= k->spans[i].byte_last);
        FUZZ_CHECK(k->spans[i].byte_last <= size);
        FUZZ_CHECK(k->spans[i].char_first <= k->spans[i].char_last);
    }
}

static void check_decoding(const sr_tokenizer *t, const sr_tokens *k) {
    char *text = NULL;
    size_t size;
    sr_status status = sr_detokenize(&text, &size, t, k->ids, k->count, true);
    if (status == SR_OK)
        FUZZ_CHECK(text != NULL && text[size] == '\0');
    else
        FUZZ_REFUSED(status);
    sr_free(text);
}

static void tokenize(const sr_tokenizer *t, const uint8_t *text, size_t size) {
    sr_tokens plain = {0}, again = {0}, full = {.want_spans = true, .want_starts = true};
    sr_status status = sr_tokenize(&plain, t, text, size);
    if (status == SR_OK) {
        FUZZ_CHECK(sr_tokenize(&again, t, text, size) == SR_OK);
        again.count = 0; /* now from the cache */
        FUZZ_CHECK(sr_tokenize(&again, t, text, size) == SR_OK);
        FUZZ_CHECK(sr_tokenize(&full, t, text, size) == SR_OK);
        FUZZ_CHECK(again.count == plain.count && full.count == plain.count);
        FUZZ_CHECK(plain.count == 0 || memcmp(again.ids, plain.ids, 4 * plain.count) == 0);
        FUZZ_CHECK(plain.count == 0 || memcmp(full.ids, plain.ids, 4 * plain.count) == 0);
        check_tokens(&full, t, size);
        check_decoding(t, &plain);
        full.count = 0;
        FUZZ_CHECK(sr_tokenize_word(&full, t, text, size) == SR_OK);
        check_tokens(&full, t, size);
    } else {
        FUZZ_REFUSED(status);
        FUZZ_CHECK(plain.count == 0);
    }
    sr_tokens_free(&plain);
    sr_tokens_free(&again);
    sr_tokens_free(&full);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const uint8_t *zero = size > 0 ? memchr(bytes, 0, size) : NULL;
    size_t head = zero != NULL ? (size_t)(zero - bytes) : size,
           text = zero != NULL ? head + 1 : size;
    for (int literal = 0; literal < 2; literal++) {
        sr_tokenizer *t = NULL;
        sr_status status =
            sr_tokenizer_parse(&t, bytes, head, "fuzz", &(sr_tokenizer_opts){.specials = !literal});
        if (status != SR_OK) {
            FUZZ_REFUSED(status);
            FUZZ_CHECK(t == NULL);
            return 0;
        }
        tokenize(t, bytes + text, size - text);
        sr_tokenizer_release(t);
    }
    return 0;
}
