/* answer.c - any bytes as an answer of SQuAD.
 *
 * The normal form is at most twice as large, is UTF-8 without ASCII capitals, punctuation and
 * articles, has single spaces between its words only, and is its own normal form. */
#include "core/text/answer.h"

#include "core/unicode/utf8.h"
#include "tests/fuzz/fuzz.h"

static bool is_article(const uint8_t *word, size_t size) {
    static const char *const articles[] = {"a", "an", "the"};
    for (int i = 0; i < 3; i++)
        if (size == strlen(articles[i]) && memcmp(word, articles[i], size) == 0) return true;
    return false;
}

static void check_words(const uint8_t *text, size_t size) {
    size_t start = 0;
    for (size_t i = 0; i <= size; i++) {
        if (i < size && text[i] != ' ') continue;
        FUZZ_CHECK(size == 0 || i > start);
        FUZZ_CHECK(!is_article(text + start, i - start));
        start = i + 1;
    }
}

static bool is_plain(uint8_t c) {
    if (c >= 0x80 || c == ' ' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')) return true;
    return c < ' ' ? !(c >= '\t' && c <= '\r') && c < 0x1C : c == 0x7F;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    uint8_t *once = malloc(2 * size + 1), *twice = malloc(4 * size + 1);
    size_t n = sr_text_answer(once, bytes, size);
    FUZZ_CHECK(n <= 2 * size);
    FUZZ_CHECK(sr_utf8_invalid(once, n, NULL) == 0);
    for (size_t i = 0; i < n; i++) FUZZ_CHECK(is_plain(once[i]));
    check_words(once, n);
    FUZZ_CHECK(sr_text_answer(twice, once, n) == n && memcmp(once, twice, n) == 0);
    free(once);
    free(twice);
    return 0;
}
