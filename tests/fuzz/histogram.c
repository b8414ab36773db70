/* histogram.c - a .hist file is counted without overflow, or rejected with the line. */
#include "core/pack/histogram.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const sr_long_policy policies[] = {SR_LONG_ERROR, SR_LONG_TRUNCATE, SR_LONG_SPLIT};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        sr_histogram h;
        sr_status status =
            sr_histogram_parse(&h, bytes, size, "fuzz", i == 0 ? 0 : 16, policies[i]);
        if (status != SR_OK) {
            FUZZ_REFUSED(status);
            continue;
        }
        FUZZ_CHECK(h.sequences >= 0 && h.tokens >= h.sequences);
        sr_histogram_free(&h);
    }
    return 0;
}
