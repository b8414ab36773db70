/* safetensors.c - the tensors of an accepted file are inside the file, in order, without gaps. */
#include "core/store/safetensors.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char path[64];
    int fd = fuzz_file(path, bytes, size);
    sr_safetensors *st = NULL;
    sr_status status = sr_safetensors_open(&st, path, 0);
    close(fd);
    if (!fuzz_accepted(status, st)) return 0;
    FUZZ_CHECK(st->data_at <= size && st->data_bytes == size - st->data_at);
    uint64_t covered = 0;
    for (int64_t i = 0; i < st->count; i++) {
        const sr_st_entry *e = &st->list[i];
        FUZZ_CHECK(e->bytes <= st->data_bytes && e->begin <= st->data_bytes - e->bytes);
        FUZZ_CHECK(e->bytes == e->count * sr_st_dtype_size(e->dtype));
        FUZZ_CHECK(sr_safetensors_find(st, e->name) == e);
        covered += e->bytes;
    }
    FUZZ_CHECK(covered == st->data_bytes);
    sr_safetensors_close(st);
    return 0;
}
