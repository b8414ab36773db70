/* sentences.c - any bytes as a file, read in odd pieces, plain or compressed.
 *
 * The first byte chooses limits and format, the second the size of reads.  No sentence is longer
 * than its limit, none is empty or has white space at its ends, and the bytes add up. */
#include "core/text/sentence.h"
#include "tests/fuzz/fuzz.h"

static bool is_blank(uint8_t byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static void check_sentence(const sr_sentence *s, size_t limit) {
    FUZZ_CHECK(s->size > 0 && s->size <= limit);
    FUZZ_CHECK(!is_blank(s->bytes[0]));
    FUZZ_CHECK(!is_blank(s->bytes[s->size - 1]));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 2) return 0;
    sr_source_opts source = {.line_limit = 16 + (size_t)(bytes[0] & 15),
                             .any_bytes = (bytes[0] & 16) != 0};
    sr_sentences_opts opts = {(sr_text_format)((bytes[0] >> 5) % 3),
                              16 + (size_t)(bytes[0] >> 6) * 50};
    fuzz_most = 1 + (size_t)bytes[1];
    fuzz_input = bytes + 2, fuzz_left = size - 2;
    sr_source *s;
    sr_sentences *q;
    sr_sentence one = {.event = SR_TEXT_SENTENCE};
    sr_io saved = sr_io_now;
    sr_io_now.read = fuzz_feed;
    FUZZ_CHECK(sr_source_open(&s, (const char *[]){"/dev/null"}, 1, &source) == SR_OK);
    FUZZ_CHECK(sr_sentences_new(&q, s, &opts) == SR_OK);
    size_t given = 0;
    while (one.event != SR_TEXT_END && sr_sentences_next(q, &one) == SR_OK) {
        if (one.event != SR_TEXT_SENTENCE) continue;
        check_sentence(&one, opts.limit);
        given += one.size;
    }
    FUZZ_CHECK(one.event != SR_TEXT_END ||
               given <= sr_source_count(s).bytes + sr_source_count(s).lines);
    sr_sentences_free(q);
    sr_source_close(s);
    sr_io_now = saved;
    return 0;
}
