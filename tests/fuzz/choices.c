/* choices.c - accepted lists of choices print as they were read; others leave no choice. */
#include "core/base/choices.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    sr_choices *c = NULL;
    char *text = NULL;
    FUZZ_CHECK(sr_choices_open(&c, "gpu-1", NULL, 4) == SR_OK);
    sr_status status = sr_choices_pin(c, (const char *)bytes, size);
    if (status == SR_OK) {
        FUZZ_CHECK(sr_choices_text(&text, c, 0) == SR_OK);
        FUZZ_CHECK(strlen(text) == size && memcmp(text, bytes, size) == 0);
    } else {
        FUZZ_CHECK(status == SR_EDATA || status == SR_EDEVICE); /* of another name */
        FUZZ_CHECK(sr_message()[0] != '\0' && sr_choices_count(c) == 0);
    }
    sr_free(text);
    sr_choices_close(c);
    return 0;
}
