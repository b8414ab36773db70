/* tokenizer.c - any bytes as text, compared with a slow tokenizer without cache or tables.
 *
 * The first byte chooses the options; the ids with and without offsets, and those of a slow greedy
 * match over sr_words(), must be the same. */
#include "core/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static const char tokens[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nab\nabc\n##a\n##b\n##bc\n##c\n##abc\n[\n]\nm\nmask\n"
    "##ask\n.\n,\n##\n#\n'\ne\n##e\n\xC3\xA9\n##\xC3\xA9\n\xE4\xB8\xAD\n1\n##1\n12\n##234\nA\n##"
    "B\nAB\n"
    "longertoken\n##ertoken\n##t\nlong\no\n##o\n##n\n##g\n\xCE\xA3\n\xCF\x83\n##\xCF\x83\n";

typedef struct slow {
    const sr_vocab *v;
    int32_t ids[1 << 16];
    size_t count;
} slow;

static sr_status slow_word(void *context, const sr_word *w) {
    slow *s = context;
    size_t first = s->count;
    bool whole = w->chars <= SR_WORD_CHARS;
    for (size_t at = 0; at < w->size && whole;) {
        char piece[2 + sizeof w->bytes] = "##";
        size_t prefix = at > 0 ? 2 : 0, length = w->size - at;
        int32_t id = -1;
        for (; length > 0 && id < 0; length--) {
            memcpy(piece + prefix, w->bytes + at, length);
            id = sr_vocab_id(s->v, piece, prefix + length);
            if (id >= 0) break;
        }
        whole = id >= 0;
        s->ids[s->count++] = id;
        at += length;
    }
    if (whole) return SR_OK;
    s->count = first;
    s->ids[s->count++] = sr_vocab_special(s->v, SR_TOKEN_UNK);
    return SR_OK;
}

static void check_spans(const sr_tokens *k, size_t size) {
    for (size_t i = 0; i < k->count; i++) {
        sr_text_span s = k->spans[i];
        FUZZ_CHECK(s.byte_first < s.byte_last && s.byte_last <= size);
        FUZZ_CHECK(s.char_first < s.char_last && s.char_last <= s.byte_last);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    sr_vocab *v = NULL;
    static slow s;
    if (size == 0 || size > sizeof s.ids / sizeof *s.ids / 4) return 0;
    int choice = *bytes++;
    size--;
    sr_tokenizer_opts opts = {.lowercase = choice & 1, .keep_accents = choice & 2};
    sr_words_opts words = {opts.lowercase, opts.lowercase && !opts.keep_accents};
    FUZZ_CHECK(sr_vocab_parse(&v, tokens, sizeof tokens - 1, "fuzz") == SR_OK);
    sr_tokenizer *t;
    sr_tokens plain = {0}, spans = {.want_spans = true};
    FUZZ_CHECK(sr_tokenizer_new(&t, v, &opts) == SR_OK);
    for (int again = 0; again < 2; again++) { /* the second time from the cache */
        plain.count = spans.count = 0;
        FUZZ_CHECK(sr_tokenize(&plain, t, bytes, size) == SR_OK);
        FUZZ_CHECK(sr_tokenize(&spans, t, bytes, size) == SR_OK);
        sr_words_at at = {0};
        s.v = v, s.count = 0;
        FUZZ_CHECK(sr_words(&at, bytes, size, &words, slow_word, &s) == SR_OK);
        FUZZ_CHECK(plain.count == s.count && spans.count == s.count);
        FUZZ_CHECK(s.count == 0 || memcmp(plain.ids, s.ids, s.count * sizeof *s.ids) == 0);
        FUZZ_CHECK(s.count == 0 || memcmp(spans.ids, s.ids, s.count * sizeof *s.ids) == 0);
        FUZZ_CHECK(plain.invalid == at.invalid * (uint64_t)(again + 1));
        check_spans(&spans, size);
    }
    sr_tokens_free(&plain);
    sr_tokens_free(&spans);
    sr_tokenizer_release(t);
    sr_vocab_release(v);
    return 0;
}
