/* The .sqr file: round trips, and only intact files are accepted. */
#include "core/data/shard.h"

#include <errno.h>
#include <pthread.h>

#include "core/base/draft.h"
#include "core/base/io.h"
#include "core/data/shard_format.h"
#include "tests/support/fail.h"
#include "tests/support/scratch.h"

OWNER(sr_shard, sr_shard_close)

static const char *path, *other;

/* Writes three columns alternately; `n` elements of the first. */
static sr_status write_sample(const char *to, uint64_t n) {
    sr_shard_writer *w;
    SR_TRY(sr_shard_create(&w, to));
    int ids, ends, text;
    sr_status st = sr_shard_add_column(w, &ids, "ids", SR_COLUMN_U16);
    if (st == SR_OK) st = sr_shard_add_column(w, &ends, "ends", SR_COLUMN_U64);
    if (st == SR_OK) st = sr_shard_add_column(w, &text, "text", SR_COLUMN_BYTES);
    if (st == SR_OK) st = sr_shard_set_meta(w, "kind", "sample");
    for (uint64_t i = 0; st == SR_OK && i < n; i++) {
        uint16_t id = (uint16_t)(i * 31);
        st = sr_shard_append(w, ids, &id, 1);
        if (st == SR_OK && i % 10 == 9) st = sr_shard_append(w, ends, &i, 1);
    }
    if (st == SR_OK) st = sr_shard_append(w, text, "hello", 5);
    if (st == SR_OK) return sr_shard_commit(w);
    sr_shard_abort(w);
    return st;
}

/* Opens and reads everything; returns the first error. */
static sr_status read_sample(const char *from, uint64_t n) {
    TRY_OWN(sr_shard, *s, sr_shard_open(&s, from, 1));
    const sr_column *ids, *ends;
    sr_status st = sr_shard_verify(s);
    if (st == SR_OK) st = sr_shard_want(&ids, s, "ids", SR_COLUMN_U16);
    if (st == SR_OK) st = sr_shard_want(&ends, s, "ends", SR_COLUMN_U64);
    if (st == SR_OK && (ids->count != n || ends->count != n / 10)) st = SR_EINTERNAL;
    for (uint64_t i = 0; st == SR_OK && i < n; i += 97) {
        uint16_t id;
        st = sr_shard_read(s, ids, &id, i, 1);
        if (st == SR_OK && id != (uint16_t)(i * 31)) st = SR_EINTERNAL;
    }
    uint64_t *all = NULL;
    if (st == SR_OK) st = sr_new(&all, n / 10 + 1);
    if (st == SR_OK) st = sr_shard_read(s, ends, all, 0, n / 10);
    for (uint64_t i = 0; st == SR_OK && i < n / 10; i++)
        if (all[i] != i * 10 + 9) st = SR_EINTERNAL;
    if (st == SR_OK && strcmp(sr_shard_meta(s, "kind"), "sample") != 0) st = SR_EINTERNAL;
    sr_free(all);
    return st;
}

/* The bytes of a sample, with room for one more, freed by the caller. */
static unsigned char *whole_sample(size_t *size, uint64_t n) {
    void *bytes = NULL;
    CHECK_OK(write_sample(path, n));
    CHECK_OK(sr_file_read(&bytes, size, path, 1 << 24));
    return bytes;
}

static void comes_back(void) {
    for (uint64_t n = 0; n <= 200000; n = n * 3 + 1) {
        CHECK_OK(write_sample(path, n));
        CHECK_OK(read_sample(path, n));
    }
    CHECK_OK(write_sample(path, 100));
    OWN(sr_shard, *s, sr_shard_open(&s, path, 0));
    uint16_t id;
    const sr_column *c;
    CHECK_FAILS(sr_shard_read(s, sr_shard_column(s, "ids"), &id, 100, 1), SR_EINVAL, "outside");
    CHECK_FAILS(sr_shard_read(s, sr_shard_column(s, "ids"), &id, UINT64_MAX, 2), SR_EINVAL,
                "outside");
    CHECK_FAILS(sr_shard_want(&c, s, "labels", SR_COLUMN_I32), SR_EDATA, "no column 'labels'");
    CHECK_FAILS(sr_shard_want(&c, s, "ids", SR_COLUMN_U32), SR_EDATA, "has u16, not u32");
    CHECK(sr_shard_columns(s) == 3 && sr_shard_meta(s, "nothing") == NULL);
}

static void a_missing_file_says_how_to_make_one(void) {
    sr_shard *s;
    CHECK_FAILS(sr_shard_open(&s, "/tmp/no/such.sqr", 0), SR_ENOENT, "such.sqr: no such data set");
    CHECK(strstr(sr_message(), "recipes/prepare.lua") != NULL && s == NULL);
}

static void damage_is_found(void) {
    size_t size;
    unsigned char *bytes = whole_sample(&size, 200);
    int64_t live = sr_mem_live();
    int wrong = 0;
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CHECK_OK(sr_file_replace(other, bytes, size));
        wrong += read_sample(other, 200) != SR_EDATA;
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    CHECK(wrong == 0);
    for (size_t n = 0; n < size; n++) {
        CHECK_OK(sr_file_replace(other, bytes, n));
        wrong += read_sample(other, 200) != SR_EDATA || strstr(sr_message(), other) == NULL;
    }
    CHECK(wrong == 0);
    bytes[size] = 0; /* an extra byte */
    CHECK_OK(sr_file_replace(other, bytes, size + 1));
    CHECK(read_sample(other, 200) == SR_EDATA);
    CHECK(sr_mem_live() == live);
    sr_free(bytes);
}

/* A header that is whole, but of another version, another block size or another byte order. */
static void other_headers_are_named(void) {
    static const struct {
        uint32_t version, block;
        const char *words;
    } headers[] = {
        {2, SR_SHARD_BLOCK, "format version 2 is not 1; use the version of seqrun that wrote it"},
        {1, 4096, "blocks of 4096 bytes are not of 65536"},
        {0x01000000, 0x00000100, "a big-endian data set; prepare it again"},
        {0x02000000, 0x00000100, "a big-endian data set"},
    };
    size_t size;
    unsigned char *bytes = whole_sample(&size, 200);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        memcpy(bytes + 8, &headers[i].version, 4);
        memcpy(bytes + 12, &headers[i].block, 4);
        uint64_t hash = sr_shard_hash(bytes, 24, SR_SEED_HEADER);
        memcpy(bytes + 24, &hash, 8);
        CHECK_OK(sr_file_replace(other, bytes, size));
        CHECK_FAILS(read_sample(other, 200), SR_EDATA, headers[i].words);
        CHECK(strstr(sr_message(), other) != NULL);
    }
    sr_free(bytes);
}

static void damage_is_found_in_every_block(void) {
    size_t size;
    unsigned char *bytes = whole_sample(&size, 100000);
    for (size_t at = SR_SHARD_HEADER; at < size; at += SR_SHARD_BLOCK / 3) {
        bytes[at] ^= 1;
        CHECK_OK(sr_file_replace(other, bytes, size));
        CHECK(read_sample(other, 100000) == SR_EDATA);
        bytes[at] ^= 1;
    }
    sr_free(bytes);
}

static void swap_blocks(unsigned char *bytes, size_t block) {
    unsigned char keep[256], *a = bytes + SR_SHARD_HEADER + block * SR_SHARD_BLOCK;
    for (size_t i = 0; i < SR_SHARD_BLOCK; i += sizeof keep) {
        memcpy(keep, a + i, sizeof keep);
        memcpy(a + i, a + SR_SHARD_BLOCK + i, sizeof keep);
        memcpy(a + SR_SHARD_BLOCK + i, keep, sizeof keep);
    }
}

/* Two swapped blocks of equal size: each has a valid checksum, of another block. */
static void blocks_keep_their_places(void) {
    size_t size;
    unsigned char *whole = whole_sample(&size, 100000);
    for (size_t block = 0; block < 2; block++) {
        swap_blocks(whole, block);
        CHECK_OK(sr_file_replace(other, whole, size));
        CHECK_FAILS(read_sample(other, 100000), SR_EDATA, "does not match its checksum");
        swap_blocks(whole, block);
    }
    sr_free(whole);
}

static void shrinks_while_open(void) {
    uint16_t id;
    CHECK_OK(write_sample(other, 200000));
    OWN(sr_shard, *s, sr_shard_open(&s, other, 1));
    CHECK(truncate(other, 1000) == 0);
    CHECK_FAILS(sr_shard_read(s, sr_shard_column(s, "ids"), &id, 150000, 1), SR_EDATA, "truncated");
}

static void memory_runs_out(void) {
    int64_t live = sr_mem_live();
    CHECK_OK(write_sample(path, 300));
    sr_status st;
    STARVE(st, true, write_sample(path, 300))
    CHECK_OK(read_sample(path, 300)); /* the old file, or an identical new one */
    CHECK(sr_mem_live() == live);
    CHECK_STARVED(true, read_sample(path, 300));
}

static int calls_left;

static ssize_t full_disk(int fd, const void *bytes, size_t size) {
    if (calls_left-- > 0) return write(fd, bytes, size);
    errno = ENOSPC;
    return -1;
}

static void disk_runs_full(void) {
    CHECK_OK(write_sample(path, 300));
    ssize_t (*real)(int, const void *, size_t) = sr_io_now.write;
    for (int n = 0; n < 5; n++) {
        calls_left = n;
        sr_io_now.write = full_disk;
        CHECK_FAILS(write_sample(path, 400), SR_EIO, "free some space");
        sr_io_now.write = real;
        CHECK_OK(read_sample(path, 300));
    }
}

static void *reads(void *shard) {
    sr_shard *s = shard;
    const sr_column *ids = sr_shard_column(s, "ids");
    uintptr_t wrong = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t at = i * 7919 % (ids->count - 8);
        uint16_t id[8];
        wrong += sr_shard_read(s, ids, id, at, 8) != SR_OK || id[7] != (uint16_t)((at + 7) * 31);
    }
    return (void *)wrong;
}

static void threads_read_one_shard(void) {
    pthread_t thread[4];
    CHECK_OK(write_sample(path, 500000));
    OWN(sr_shard, *s, sr_shard_open(&s, path, 1)); /* one set, so that frames are contended */
    for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, reads, s);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        CHECK(wrong == NULL);
    }
}

int main(void) {
    if (!scratch_begin()) return 1;
    path = at("a.sqr"), other = at("b.sqr");
    comes_back();
    a_missing_file_says_how_to_make_one();
    damage_is_found();
    other_headers_are_named();
    damage_is_found_in_every_block();
    blocks_keep_their_places();
    shrinks_while_open();
    memory_runs_out();
    disk_runs_full();
    threads_read_one_shard();
    scratch_end();
    return CHECK_DONE();
}
