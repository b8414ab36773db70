/* indexed.c - any bytes as the index of a Megatron set, over a .bin of the rest: what is accepted
 * makes a data set that opens.
 *
 * The first byte is the number of bytes of .bin, which stand at the end. */
#include "core/data/carried.h"
#include "core/data/dataset.h"
#include "core/data/indexed.h"
#include "tests/fuzz/fuzz.h"

static char folder[96], idx[128], bin[128], out[128];
static sr_tokenizer *tokenizer;

static void clean(void) {
    unlink(idx), unlink(bin), unlink(out);
    rmdir(folder);
    sr_tokenizer_release(tokenizer);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_folder(folder);
    snprintf(idx, sizeof idx, "%s/a.idx", folder);
    snprintf(bin, sizeof bin, "%s/a.bin", folder);
    snprintf(out, sizeof out, "%s/a.sqr", folder);
    sr_vocab *vocab;
    FUZZ_CHECK(sr_vocab_load(&vocab, "tests/data/inputs/vocab.txt") == SR_OK);
    FUZZ_CHECK(sr_tokenizer_new(&tokenizer, vocab, &(sr_tokenizer_opts){.lowercase = true}) ==
               SR_OK);
    sr_vocab_release(vocab);
    atexit(clean);
    return 0;
}

static void put(const char *path, const uint8_t *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    FUZZ_CHECK(f != NULL && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

/* The file that was written is a data set. */
static void check_written(sr_shard_writer *w, const sr_ids_counts *counts) {
    sr_dataset *d;
    FUZZ_CHECK(sr_carried_write(w, tokenizer) == SR_OK);
    FUZZ_CHECK(sr_shard_set_meta(w, "kind", "text") == SR_OK);
    FUZZ_CHECK(sr_shard_commit(w) == SR_OK);
    FUZZ_CHECK(sr_dataset_open(&d, out, &(sr_dataset_opts){.held = 0}) == SR_OK);
    FUZZ_CHECK((uint64_t)d->tokens == counts->tokens);
    sr_dataset_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 1) return 0;
    size_t tail = bytes[0] < size - 1 ? bytes[0] : size - 1;
    put(idx, bytes + 1, size - 1 - tail);
    put(bin, bytes + size - tail, tail);
    sr_shard_writer *w;
    sr_ids_counts counts;
    const char *paths[] = {idx};
    FUZZ_CHECK(sr_shard_create(&w, out) == SR_OK);
    if (sr_indexed_import(&counts, w, paths, 1, tokenizer) == SR_OK)
        check_written(w, &counts);
    else
        sr_shard_abort(w);
    return 0;
}
