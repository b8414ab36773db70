/* manifest.c - accepted manifests name only files in their directory, and print as they were read.
 */
#include "core/store/manifest.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    sr_manifest *m = NULL;
    char *text = NULL;
    size_t length = 0;
    sr_status status = sr_manifest_parse(&m, (const char *)bytes, size, "fuzz");
    if (!fuzz_accepted(status, m)) return 0;
    for (int64_t i = 0; i < m->count; i++) {
        FUZZ_CHECK(m->files[i].name[0] != '/' && strstr(m->files[i].name, "..") == NULL);
        FUZZ_CHECK(sr_manifest_check_name(m->files[i].name) == SR_OK);
    }
    FUZZ_CHECK(sr_manifest_print(&text, &length, m) == SR_OK);
    FUZZ_CHECK(length == size && memcmp(text, bytes, size) == 0);
    sr_free(text);
    sr_manifest_free(m);
    return 0;
}
