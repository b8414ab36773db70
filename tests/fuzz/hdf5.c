/* hdf5.c - any bytes as an HDF5 file of BERT's data: whatever is in it, reading and importing end
 * and stay in bounds. */
#include <stdlib.h>

#include "core/data/bert_hdf5.h"
#include "core/data/hdf5.h"
#include "tests/fuzz/fuzz.h"

enum { ROWS = 64 };

static sr_tokenizer *tokenizer;
static char folder[96], out[128];

static void clean(void) {
    rmdir(folder);
    sr_tokenizer_release(tokenizer);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_folder(folder);
    snprintf(out, sizeof out, "%s/a.sqr", folder);
    FUZZ_CHECK(sr_tokenizer_load(&tokenizer, "tests/data/inputs/vocab.txt",
                                 &(sr_tokenizer_opts){.lowercase = true}) == SR_OK);
    return atexit(clean);
}

static void import(const char *path) {
    sr_shard_writer *w;
    sr_ids_counts counts;
    FUZZ_CHECK(sr_shard_create(&w, out) == SR_OK);
    sr_status st = sr_bert_hdf5_import(&counts, w, &path, 1, tokenizer);
    sr_shard_abort(w);
    if (st != SR_OK) FUZZ_REFUSED(st);
}

static void read_set(sr_hdf5 *h, const char *name) {
    sr_hdf5_set *s = NULL;
    if (sr_hdf5_set_open(&s, h, name) != SR_OK || s == NULL) return;
    uint64_t rows = sr_hdf5_rows(s);
    for (uint64_t i = 0; i < rows && i < ROWS; i++) {
        const int64_t *row;
        if (sr_hdf5_row(&row, s, i) != SR_OK) break;
        volatile int64_t last = row[sr_hdf5_columns(s) - 1];
        (void)last;
    }
    const int64_t *row;
    if (rows > 0 && sr_hdf5_row(&row, s, rows - 1) == SR_OK) FUZZ_CHECK(row != NULL);
    FUZZ_CHECK(sr_hdf5_row(&row, s, rows) != SR_OK);
    sr_hdf5_set_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char path[64];
    int fd = fuzz_file(path, bytes, size);
    sr_hdf5 *h;
    sr_status st = sr_hdf5_open(&h, path);
    if (st == SR_OK) {
        for (int i = 0; sr_hdf5_name(h, i) != NULL; i++) read_set(h, sr_hdf5_name(h, i));
        sr_hdf5_close(h);
    } else {
        FUZZ_REFUSED(st);
    }
    import(path);
    close(fd);
    return 0;
}
