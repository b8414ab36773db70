/* index.c - index files of DeepSpeed: rows there and back, and failing memory. */
#include "core/data/index.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "tests/support/check.h"
#include "tests/support/fail.h"

static char name[64];

static void types(void) {
    CHECK(sr_index_narrowest(0, 255) == SR_INDEX_U8 && sr_index_narrowest(0, 256) == SR_INDEX_U16);
    CHECK(sr_index_narrowest(-1, 127) == SR_INDEX_I8 &&
          sr_index_narrowest(-1, 128) == SR_INDEX_I16);
    CHECK(sr_index_narrowest(0, 65536) == SR_INDEX_U32 &&
          sr_index_narrowest(0, INT64_MAX) == SR_INDEX_U64);
    CHECK(sr_index_narrowest(INT32_MIN, 0) == SR_INDEX_I32 &&
          sr_index_narrowest(INT64_MIN, 0) == SR_INDEX_I64);
}

/* Rows of i values, across buffers. */
static void rows(void) {
    static int64_t value[3000], back[3000];
    sr_index_writer *w;
    sr_index *x;
    int64_t count;
    for (int64_t i = 0; i < 3000; i++) value[i] = i * 11 - 500;
    CHECK_OK(sr_index_create(&w, name, SR_INDEX_I32));
    for (int64_t i = 0; i < 3000; i += 7) {
        CHECK_OK(sr_index_put(w, value, i / 2));
        CHECK_OK(sr_index_put(w, value + i / 2, i - i / 2));
        CHECK_OK(sr_index_end_row(w));
    }
    CHECK_OK(sr_index_commit(w));
    CHECK_OK(sr_index_open(&x, name));
    CHECK(x->rows == 429);
    for (uint64_t i = 0; i < x->rows; i++) {
        CHECK_OK(sr_index_size(&count, x, i));
        CHECK(count == (int64_t)i * 7);
        CHECK_OK(sr_index_read(back, x, i, count / 3, count - count / 3));
        CHECK(memcmp(back, value + count / 3, (size_t)(count - count / 3) * sizeof *back) == 0);
    }
    sr_index_close(x);
    CHECK_FAILS(sr_index_open(&x, "/nowhere/index"), SR_ENOENT, "");
}

static sr_status everything(void) {
    const double value[] = {3, 1, 2, 1, 500};
    sr_metric *m;
    double *back = NULL;
    int64_t count;
    SR_TRY(sr_metric_of(&m, value, 5));
    sr_status st = sr_index_of_metric(m, name);
    sr_metric_close(m);
    if (st == SR_OK) st = sr_index_values(&back, &count, name);
    if (st == SR_OK) CHECK(count == 5 && memcmp(back, value, sizeof value) == 0);
    sr_free(back);
    return st;
}

static void failing_memory(void) {
    int64_t live = sr_mem_live(), n = 0;
    sr_status st = SR_ENOMEM;
    while (st == SR_ENOMEM && n < 500) {
        sr_mem_fail_at(++n, true);
        st = everything();
        sr_mem_fail_at(0, false);
        CHECK(sr_mem_live() == live);
    }
    CHECK(st == SR_OK && n > 20);
}

int main(void) {
    snprintf(name, sizeof name, "/tmp/seqrun-index-%d", (int)getpid());
    types();
    rows();
    failing_memory();
    const char *endings[] = {"", "_sample_to_metric", "_index_to_metric", "_index_to_sample",
                             "_index_to_sample_percentile_merged"};
    for (int i = 0; i < 5; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s.idx", name, endings[i]);
        CHECK(unlink(path) == 0);
        snprintf(path, sizeof path, "%s%s.bin", name, endings[i]);
        CHECK(unlink(path) == 0);
    }
    return CHECK_DONE();
}
