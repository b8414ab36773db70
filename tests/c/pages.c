/* pages.c - blocks in huge pages: aligned, writable to the end, counted, and refused like others.
 */
#include "tests/support/fail.h"

enum { HUGE = 2 << 20 };

static void test_block(size_t bytes, size_t sure) {
    int64_t live = sr_mem_live();
    unsigned char *block;
    CHECK_OK(sr_alloc_pages((void **)&block, bytes, sure));
    CHECK((uintptr_t)block % (sure >= HUGE ? HUGE : 64) == 0);
    memset(block, 0xA5, bytes);
    CHECK(bytes == 0 || (block[0] == 0xA5 && block[bytes - 1] == 0xA5));
    CHECK(sr_mem_live() == live + 1);
    sr_free_aligned(block);
    CHECK(sr_mem_live() == live);
}

static void test_refused(void) {
    int64_t live = sr_mem_live();
    void *block = &live;
    sr_mem_fail_at(1, false);
    CHECK(sr_alloc_pages(&block, 3 * HUGE, 3 * HUGE) == SR_ENOMEM);
    sr_mem_fail_at(0, false);
    CHECK(block == NULL && sr_mem_live() == live);
    CHECK_FAILS(sr_alloc_pages(&block, SIZE_MAX - 8, SIZE_MAX - 8), SR_ENOMEM, "does not fit");
    CHECK(block == NULL);
}

int main(void) {
    const size_t sizes[] = {0, 1, 64, 4096, HUGE - 1, HUGE, HUGE + 1, 5 * HUGE + 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        test_block(sizes[i], sizes[i]);
        test_block(sizes[i], sizes[i] / 5 * 4);
        test_block(sizes[i], 0);
    }
    test_refused();
    return CHECK_DONE();
}
