/* pretokenizer.c - bytes choose up to four steps of a pre-tokenizer; what is left of them is a
 * text.
 *
 * Pieces lie in the text in order, whole characters before ByteLevel, and do not depend on whether
 * places are kept.  The programs of known patterns find what PCRE2 finds. */
#include "core/tokenizer/pretokenizer.h"
#include "tests/fuzz/fuzz_tokenizer.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
static const char *const regexes[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                 "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                 "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};
enum { KNOWN = sizeof regexes / sizeof *regexes, MOST = 4096 };
static sr_pattern *known[2][KNOWN]; /* as programs, by PCRE2 */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    for (int i = 0; i < KNOWN; i++)
        for (int n = 0; n < 2; n++) {
            char text[400];
            snprintf(text, sizeof text, n == 0 ? "%s" : "(?:%s)", regexes[i]);
            json_t *value = json_pack("{s:s}", "Regex", text);
            sr_json at = {value, NULL, "fuzz", 0};
            FUZZ_CHECK(sr_pattern_read(&known[n][i], &at) == SR_OK);
            FUZZ_CHECK((sr_pattern_program(known[n][i]) != NULL) == (n == 0));
            json_decref(value);
        }
    return 0;
}

static void check_known(const uint8_t *text, size_t size) {
    for (int i = 0; i < KNOWN; i++) {
        sr_matcher matcher = {0};
        for (size_t at = 0, first, last; at < size; at = last) {
            bool found;
            FUZZ_CHECK(sr_pattern_next(known[1][i], &matcher, text, size, at, (size_t)-1, &first,
                                       &last, &found) == SR_OK);
            FUZZ_CHECK(found && first == at && last > at);
            FUZZ_CHECK(sr_pattern_program(known[0][i])(text, at, size) == last);
        }
        sr_matcher_free(&matcher);
    }
}

static bool is_inside(const sr_run *r, size_t at) {
    return at < r->size && (r->bytes[at] & 0xC0) == 0x80;
}

static void check_pieces(const sr_pre_work *w) {
    size_t done = 0;
    for (size_t i = 0; i < w->pieces.count; i++) {
        const sr_piece *p = &w->pieces.list[i];
        FUZZ_CHECK(p->first >= done && p->first < p->last && p->last <= w->text.size);
        FUZZ_CHECK(!is_inside(&w->text, p->first) && !is_inside(&w->text, p->last));
        done = p->last;
    }
}

static void check(const sr_pretokenizer *p, const uint8_t *text, size_t size) {
    sr_pre_work plain = {0}, placed = {0};
    fuzz_load(&plain.text, text, size, p->needs_places);
    fuzz_load(&placed.text, text, size, true);
    check_known(plain.text.bytes, plain.text.size);
    bool spaced = size % 2 != 0;
    sr_status status = sr_pretokenize(&plain, p, spaced);
    FUZZ_CHECK(sr_pretokenize(&placed, p, spaced) == status);
    if (status != SR_OK) {
        FUZZ_REFUSED(status);
    } else {
        check_pieces(&plain);
        FUZZ_CHECK(plain.pieces.count == placed.pieces.count);
        for (size_t i = 0; i < plain.pieces.count; i++) {
            const sr_piece *a = &plain.pieces.list[i], *b = &placed.pieces.list[i];
            FUZZ_CHECK(a->first == b->first && a->last == b->last);
        }
    }
    sr_pre_work_free(&plain);
    sr_pre_work_free(&placed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static fuzz_maker m;
    sr_pretokenizer p = {0};
    if (size > MOST) return 0;
    json_t *value = fuzz_part(&m, bytes, size, "pretokenizers", fuzz_pretokenizer_step);
    sr_json root = {value, NULL, "fuzz", 0};
    sr_status status = sr_pretokenizer_read(&p, &root);
    if (status == SR_OK)
        check(&p, m.bytes, m.size);
    else
        FUZZ_REFUSED(status);
    sr_pretokenizer_free(&p);
    json_decref(value);
    return 0;
}
