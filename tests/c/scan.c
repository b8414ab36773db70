/* scan.c - what two data sets share, and which examples are too long; with failing memory. */
#include "core/data/scan.h"

#include "tests/support/fail.h"
#include "tests/c/sample.h"

/* An example: ids from, from + 1 ... of A and of B. */
typedef struct made {
    uint16_t from;
    uint32_t a, b;
} made;

static sr_status add_examples(sr_shard_writer *w, const made *list, int count) {
    int ids, a, b;
    SR_TRY(sr_shard_add_column(w, &ids, "ids", SR_COLUMN_U16));
    SR_TRY(sr_shard_add_column(w, &a, "a_tokens", SR_COLUMN_U32));
    SR_TRY(sr_shard_add_column(w, &b, "b_tokens", SR_COLUMN_U32));
    for (int i = 0; i < count; i++) {
        for (uint32_t k = 0; k < list[i].a + list[i].b; k++) {
            uint16_t id = (uint16_t)(list[i].from + k);
            SR_TRY(sr_shard_append(w, ids, &id, 1));
        }
        SR_TRY(sr_shard_append(w, a, &list[i].a, 1));
        SR_TRY(sr_shard_append(w, b, &list[i].b, 1));
    }
    SR_TRY(sr_shard_set_meta(w, "kind", "examples"));
    return sample_vocab(w, 100);
}

static sr_dataset *make(const made *list, int count) {
    sr_shard_writer *w;
    const char *path = at("a.sqr");
    CHECK_OK(sr_shard_create(&w, path));
    CHECK_OK(add_examples(w, list, count));
    CHECK_OK(sr_shard_commit(w));
    return sample_open(path, 0);
}

static void overlap(void) {
    const made first[] = {{10, 3, 0}, {20, 2, 2}, {30, 1, 0}, {10, 3, 0}};
    const made second[] = {{11, 3, 0}, {20, 3, 1}, {20, 2, 2}, {30, 1, 0}, {30, 1, 0}};
    OWNED(sr_dataset) *a = make(first, 4), *b = make(second, 5);
    sr_overlap o;
    CHECK_OK(sr_scan_overlap(&o, a, b)); /* the same tokens cut elsewhere are another pair */
    CHECK(o.count == 3 && o.first == 2 && o.twin == 1);
    CHECK_OK(sr_scan_overlap(&o, b, a));
    CHECK(o.count == 2 && o.first == 1 && o.twin == 2);
    CHECK_STARVED(true, sr_scan_overlap(&o, a, b));
    CHECK(o.count == 3);
}

static void longer(void) {
    const made list[] = {{10, 3, 0}, {20, 4, 2}, {30, 7, 0}, {40, 8, 0}};
    OWNED(sr_dataset) *d = make(list, 4); /* 5, 9, 9 and 10 tokens with [CLS] and [SEP] */
    sr_longer found = sr_scan_longer(d, 9);
    CHECK(found.count == 1 && found.first == 3 && found.longest == 10);
    found = sr_scan_longer(d, 8);
    CHECK(found.count == 3 && found.first == 1 && found.longest == 10);
    found = sr_scan_longer(d, 10);
    CHECK(found.count == 0 && found.first == -1 && found.longest == 10);
}

int main(void) {
    if (!scratch_begin()) return 1;
    overlap();
    longer();
    scratch_end();
    return CHECK_DONE();
}
