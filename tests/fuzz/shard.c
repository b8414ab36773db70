/* shard.c - a .sqr file that opens can be read to its end or reports the damaged block.  Each input
 * is tried unchanged and with corrected checksums: otherwise no change would reach the directory.
 */
#include "core/data/shard.h"

#include "core/data/dataset.h"
#include "core/data/shard_format.h"

#include "tests/fuzz/fuzz.h"

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

/* As a data set: its columns fit together, or it is refused. */
static void open_dataset(const char *path) {
    sr_dataset_opts none = {0};
    sr_dataset *d = NULL;
    sr_status status = sr_dataset_open(&d, path, &none);
    if (!fuzz_accepted(status, d)) return;
    for (int i = 0; i < d->fields.count; i++) {
        const sr_field *f = &d->fields.field[i];
        uint64_t first, count;
        for (int64_t unit = 0; unit < d->units; unit++) {
            sr_dataset_values(&first, &count, d, f, unit);
            FUZZ_CHECK(first <= f->column->count && count <= f->column->count - first);
        }
    }
    sr_dataset_close(d);
}

static void try(const uint8_t *bytes, size_t size) {
    char path[64];
    int fd = fuzz_file(path, bytes, size);
    sr_shard *s = NULL;
    sr_status status = sr_shard_open(&s, path, 0);
    if (status == SR_OK) open_dataset(path);
    close(fd);
    if (!fuzz_accepted(status, s)) return;
    for (int i = 0; i < sr_shard_columns(s); i++) read_column(s, sr_shard_column_at(s, i));
    status = sr_shard_verify(s);
    if (status != SR_OK) FUZZ_REFUSED(status);
    sr_shard_close(s);
}

static void put(uint8_t *to, uint64_t number) {
    memcpy(to, &number, 8);
}

/* Corrects header, trailer and the checksum of the directory, so that its content is parsed; keeps
 * its offset if that is possible. */
static void mend(uint8_t *bytes, size_t size) {
    uint64_t end = size - SR_SHARD_TRAILER, at;
    uint32_t numbers[2] = {SR_SHARD_VERSION, SR_SHARD_BLOCK};
    memcpy(bytes, sr_shard_magic, 8);
    memcpy(bytes + 8, numbers, 8);
    put(bytes + 24, sr_shard_hash(bytes, 24, SR_SEED_HEADER));
    memcpy(&at, bytes + end, 8);
    if (at < SR_SHARD_HEADER || at > end) at = SR_SHARD_HEADER;
    put(bytes + end, at);
    put(bytes + end + 8, end - at);
    put(bytes + end + 16, sr_shard_hash(bytes + at, end - at, SR_SEED_DIRECTORY));
    memcpy(bytes + end + 24, sr_shard_end, 8);
    put(bytes + end + 32, sr_shard_hash(bytes + end, 32, SR_SEED_TRAILER));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    try(bytes, size);
    if (size < SR_SHARD_HEADER + SR_SHARD_TRAILER) return 0;
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, bytes, size);
    mend(copy, size);
    try(copy, size);
    free(copy);
    return 0;
}
