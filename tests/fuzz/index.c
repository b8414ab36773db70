/* index.c - an index of DeepSpeed that opens can be read row by row, or a row is rejected.  The
 * first byte of an input is the size of NAME.idx, the rest NAME.idx and NAME.bin. */
#include "core/data/index.h"

#include "tests/fuzz/fuzz.h"

static void read_rows(const sr_index *x) {
    for (uint64_t row = 0; row < x->rows && row < 100; row++) {
        int64_t count, value[64];
        sr_status status = sr_index_size(&count, x, row);
        if (status != SR_OK) {
            FUZZ_REFUSED(status);
            continue;
        }
        FUZZ_CHECK(count >= 0 && (uint64_t)count <= x->bytes);
        status = sr_index_read(value, x, row, 0, count < 64 ? count : 64);
        if (status != SR_OK) FUZZ_REFUSED(status);
        FUZZ_CHECK(sr_index_read(value, x, row, count, 1) == SR_EINVAL);
    }
    int64_t none;
    FUZZ_CHECK(sr_index_size(&none, x, x->rows) == SR_EINVAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 1) return 0;
    size_t idx = bytes[0] < size - 1 ? bytes[0] : size - 1;
    char idx_path[64], bin_path[64];
    int first = fuzz_file(idx_path, bytes + 1, idx);
    int second = fuzz_file(bin_path, bytes + 1 + idx, size - 1 - idx);
    sr_index *x = NULL;
    sr_status status = sr_index_open_files(&x, idx_path, bin_path);
    if (status == SR_OK) {
        read_rows(x);
        sr_index_close(x);
    } else {
        FUZZ_REFUSED(status);
        FUZZ_CHECK(x == NULL);
    }
    close(first);
    close(second);
    return 0;
}
