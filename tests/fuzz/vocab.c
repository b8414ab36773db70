/* vocab.c - a vocabulary, a blank line, then text: every id is in the vocabulary, every span in the
 * text, and invalid UTF-8 does no harm. */
#include "core/tokenizer/vocab.h"

#include "core/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static void tokenize(sr_vocab *vocab, const sr_tokenizer_opts *opts, const uint8_t *text,
                     size_t size) {
    sr_tokenizer *t = NULL;
    sr_tokens tokens = {.want_spans = true};
    FUZZ_CHECK(sr_tokenizer_new(&t, vocab, opts) == SR_OK);
    FUZZ_CHECK(sr_tokenize(&tokens, t, text, size) == SR_OK);
    for (size_t i = 0; i < tokens.count; i++)
        FUZZ_CHECK(tokens.ids[i] >= 0 && tokens.ids[i] < sr_vocab_size(vocab));
    for (size_t i = 0; i < tokens.count; i++)
        FUZZ_CHECK(tokens.spans[i].byte_first <= tokens.spans[i].byte_last &&
                   tokens.spans[i].byte_last <= size);
    sr_tokens_free(&tokens);
    sr_tokenizer_release(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const uint8_t *blank = size > 0 ? memmem(bytes, size, "\n\n", 2) : NULL;
    size_t head = blank != NULL ? (size_t)(blank - bytes) + 1 : size;
    size_t text = blank != NULL ? head + 1 : size;
    sr_vocab *vocab = NULL;
    sr_status status = sr_vocab_parse(&vocab, bytes, head, "fuzz");
    if (!fuzz_accepted(status, vocab)) return 0;
    for (int i = 0; i < 4; i++)
        tokenize(vocab, &(sr_tokenizer_opts){.lowercase = i & 1, .specials = i & 2}, bytes + text,
                 size - text);
    sr_vocab_release(vocab);
    return 0;
}
