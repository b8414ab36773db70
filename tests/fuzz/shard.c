/* shard.c - a .sqr file: what opens can be read to its end or says which block is damaged. */
#include "core/data/shard.h"

#include "tests/support/fuzz.h"

static void read_column(sr_shard *s, const sr_column *c) {
    char values[4096];
    if (c->size == 0 || c->size > 8) return; /* of a later version: skipped */
    uint64_t room = sizeof values / c->size;
    for (uint64_t at = 0; at < c->count && at < 100 * room; at += room) {
        uint64_t n = c->count - at < room ? c->count - at : room;
        sr_status status = sr_shard_read(s, c, values, at, n);
        if (status == SR_OK) continue;
        FUZZ_REFUSED(status);
        return;
    }
    FUZZ_CHECK(sr_shard_read(s, c, values, c->count, 1) == SR_EINVAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char path[64];
    int fd = fuzz_file(path, bytes, size);
    sr_shard *s = NULL;
    sr_status status = sr_shard_open(&s, path, 0);
    close(fd);
    if (status != SR_OK) {
        FUZZ_REFUSED(status);
        FUZZ_CHECK(s == NULL);
        return 0;
    }
    for (int i = 0; i < sr_shard_columns(s); i++) read_column(s, sr_shard_column_at(s, i));
    status = sr_shard_verify(s);
    if (status != SR_OK) FUZZ_REFUSED(status);
    sr_shard_close(s);
    return 0;
}
