/* certificate.c - accepted certificates have values in range, and checking them is safe regardless
 * of their claims. */
#include "core/pack/certificate.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    sr_certificate c;
    sr_histogram h;
    sr_status status = sr_certificate_parse(&c, bytes, size, "fuzz");
    if (!fuzz_accepted(status, c.weight)) return 0;
    FUZZ_CHECK(c.capacity >= 1 && c.capacity <= SR_MAX_LENGTH && c.max_seqs >= 0);
    if (c.capacity <= 1024 && c.max_seqs <= 64) {
        FUZZ_CHECK(sr_histogram_new(&h, c.capacity) == SR_OK);
        for (int32_t l = 1; l <= c.capacity; l += 7)
            FUZZ_CHECK(sr_histogram_add(&h, l, (int64_t)l << l % 40, SR_LONG_ERROR) == SR_OK);
        status = sr_certificate_check(&c, &h);
        FUZZ_CHECK(status == SR_OK || status == SR_EDATA);
        sr_histogram_free(&h);
    }
    sr_certificate_free(&c);
    return 0;
}
