/* normalizer.c - bytes choose up to four steps of a normalizer; what is left of them is a text.
 *
 * The result is UTF-8 and does not depend on whether places are kept, places lie in the text, and a
 * normal form stays as it is. */
#include "core/tokenizer/normalizer.h"
#include "tests/fuzz/fuzz_tokenizer.h"

enum { MOST = 4096 };

typedef struct work {
    sr_run run, other;
    sr_matcher matcher;
    sr_changes changes;
} work;

static void work_free(work *w) {
    sr_run_free(&w->run);
    sr_run_free(&w->other);
    sr_matcher_free(&w->matcher);
    sr_free(w->changes.list);
}

static sr_status normalize(work *w, const sr_normalizer *n) {
    return sr_normalize(&w->run, &w->other, n, &w->matcher, &w->changes);
}

static void check_places(const sr_run *r, uint32_t chars) {
    FUZZ_CHECK(r->size == 0 || sr_utf8_invalid(r->bytes, r->size, NULL) == 0);
    for (size_t i = 0; i < r->size; i++) {
        FUZZ_CHECK(r->from[i] <= r->to[i]);
        FUZZ_CHECK(r->to[i] <= chars);
    }
}

/* A normal form of the result twice is the same as once. */
static void check_form(work *w, sr_normal_kind kind) {
    sr_normalizer form = {.count = 1, .steps[0].kind = kind};
    FUZZ_CHECK(normalize(w, &form) == SR_OK);
    work again = {0};
    FUZZ_CHECK(sr_run_copy(&again.run, &w->run, 0, w->run.size) == SR_OK);
    FUZZ_CHECK(normalize(&again, &form) == SR_OK);
    FUZZ_CHECK(again.run.size == w->run.size);
    FUZZ_CHECK(w->run.size == 0 || memcmp(again.run.bytes, w->run.bytes, w->run.size) == 0);
    work_free(&again);
}

static void check(const sr_normalizer *n, const uint8_t *text, size_t size) {
    work plain = {0}, placed = {0};
    fuzz_load(&plain.run, text, size, false);
    uint32_t chars = fuzz_load(&placed.run, text, size, true);
    sr_status status = normalize(&plain, n);
    FUZZ_CHECK(normalize(&placed, n) == status);
    if (status != SR_OK) {
        FUZZ_REFUSED(status);
    } else {
        FUZZ_CHECK(plain.run.size == placed.run.size);
        FUZZ_CHECK(plain.run.size == 0 ||
                   memcmp(plain.run.bytes, placed.run.bytes, plain.run.size) == 0);
        if (chars > 0) check_places(&placed.run, chars);
        check_form(&plain, (sr_normal_kind)(SR_NORMAL_NFC + (int)(size % 4)));
    }
    work_free(&plain);
    work_free(&placed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static fuzz_maker m;
    sr_normalizer n = {0};
    if (size > MOST) return 0;
    json_t *value = fuzz_part(&m, bytes, size, "normalizers", fuzz_normalizer_step);
    sr_json root = {value, NULL, "fuzz", 0};
    sr_status status = sr_normalizer_read(&n, &root);
    if (status == SR_OK)
        check(&n, m.bytes, m.size);
    else
        FUZZ_REFUSED(status);
    sr_normalizer_free(&n);
    json_decref(value);
    return 0;
}
