#include <inttypes.h>
#include <stdlib.h>

#include "core/base/draft.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/data/shard_format.h"

typedef struct column {
    char name[SR_SHARD_NAME + 1];
    sr_column_type type;
    uint64_t count, blocks;
    unsigned char *block; /* SR_SHARD_BLOCK bytes, allocated with the first element */
    size_t used;
} column;

typedef struct entry {
    char *key, *value;
} entry;

typedef struct block_record {
    uint32_t column;
    uint64_t hash;
} block_record;

/* A growing buffer, for the directory. */
typedef struct buffer {
    unsigned char *bytes;
    size_t size, room;
} buffer;

struct sr_shard_writer {
    sr_draft draft;
    column column[SR_SHARD_COLUMNS];
    int columns;
    entry entry[SR_SHARD_COLUMNS];
    int entries;
    block_record *record; /* of the blocks written so far */
    size_t records, room;
    uint64_t at; /* bytes written so far */
};

static sr_status put(sr_shard_writer *w, const void *bytes, size_t size) {
    SR_TRY(sr_file_write(w->draft.fd, bytes, size, w->draft.path));
    w->at += size;
    return SR_OK;
}

static sr_status write_header(sr_shard_writer *w) {
    unsigned char header[SR_SHARD_HEADER] = {0};
    uint32_t numbers[2] = {SR_SHARD_VERSION, SR_SHARD_BLOCK};
    memcpy(header, sr_shard_magic, 8);
    memcpy(header + 8, numbers, 8);
    uint64_t hash = sr_shard_hash(header, 24, SR_SEED_HEADER);
    memcpy(header + 24, &hash, 8);
    return put(w, header, sizeof header);
}

sr_status sr_shard_create(sr_shard_writer **out, const char *path) {
    *out = NULL;
    sr_shard_writer *w;
    SR_TRY(sr_new(&w, 1));
    sr_status st = sr_draft_open(&w->draft, path);
    if (st == SR_OK) st = write_header(w);
    if (st != SR_OK) {
        sr_shard_abort(w);
        return st;
    }
    *out = w;
    return SR_OK;
}

void sr_shard_abort(sr_shard_writer *w) {
    if (w == NULL) return;
    sr_draft_drop(&w->draft);
    for (int i = 0; i < w->columns; i++) sr_free(w->column[i].block);
    for (int i = 0; i < w->entries; i++) {
        sr_free(w->entry[i].key);
        sr_free(w->entry[i].value);
    }
    sr_free(w->record);
    sr_free(w);
}

sr_status sr_shard_add_column(sr_shard_writer *w, int *number, const char *name,
                              sr_column_type type) {
    *number = -1;
    if (!sr_shard_name_ok(name, strlen(name)) || sr_column_size(type) == 0)
        return sr_fail(SR_EINVAL,
                       "%s: a column needs a name of 1 to %d letters, digits, _ - . and a known "
                       "type",
                       w->draft.path, SR_SHARD_NAME);
    for (int i = 0; i < w->columns; i++)
        if (strcmp(w->column[i].name, name) == 0)
            return sr_fail(SR_EINVAL, "%s: duplicate column '%s'", w->draft.path, name);
    if (w->columns == SR_SHARD_COLUMNS)
        return sr_fail(SR_EINVAL, "%s: too many columns; the maximum is %d", w->draft.path,
                       SR_SHARD_COLUMNS);
    column *c = &w->column[w->columns];
    memcpy(c->name, name, strlen(name) + 1);
    c->type = type;
    *number = w->columns++;
    return SR_OK;
}

/* Writes the current block of a column. */
static sr_status flush(sr_shard_writer *w, int number) {
    column *c = &w->column[number];
    if (w->records == w->room) {
        size_t room = w->room * 2 + 64;
        SR_TRY(sr_grow(&w->record, room));
        w->room = room;
    }
    uint64_t hash = sr_block_hash(c->block, c->used, number, c->blocks);
    SR_TRY(put(w, c->block, c->used));
    w->record[w->records++] = (block_record){.column = (uint32_t)number, .hash = hash};
    c->blocks++;
    c->used = 0;
    return SR_OK;
}

int sr_shard_type(const sr_shard_writer *w, int number) {
    return number >= 0 && number < w->columns ? (int)w->column[number].type : 0;
}

size_t sr_shard_element(const sr_shard_writer *w, int number) {
    return sr_column_size(sr_shard_type(w, number));
}

sr_status sr_shard_append(sr_shard_writer *w, int number, const void *elements, size_t count) {
    if (number < 0 || number >= w->columns)
        return sr_fail(SR_EINVAL, "%s: column index %d is out of range", w->draft.path, number);
    column *c = &w->column[number];
    size_t left;
    SR_TRY(sr_mul_size(&left, count, sr_column_size(c->type)));
    if (c->block == NULL) SR_TRY(sr_new(&c->block, SR_SHARD_BLOCK));
    const unsigned char *from = elements;
    while (left > 0) {
        size_t n = SR_SHARD_BLOCK - c->used;
        if (n > left) n = left;
        memcpy(c->block + c->used, from, n);
        c->used += n;
        from += n;
        left -= n;
        if (c->used == SR_SHARD_BLOCK) SR_TRY(flush(w, number));
    }
    c->count += count;
    return SR_OK;
}

sr_status sr_shard_set_meta(sr_shard_writer *w, const char *key, const char *value) {
    if (!sr_shard_name_ok(key, strlen(key)) || strlen(value) > SR_SHARD_VALUE)
        return sr_fail(SR_EINVAL,
                       "%s: a metadata key has 1 to %d letters, digits, _ - . and a value at most "
                       "%d bytes",
                       w->draft.path, SR_SHARD_NAME, SR_SHARD_VALUE);
    int i = 0;
    while (i < w->entries && strcmp(w->entry[i].key, key) != 0) i++;
    if (i == SR_SHARD_COLUMNS)
        return sr_fail(SR_EINVAL, "%s: too many metadata entries; the maximum is %d", w->draft.path,
                       SR_SHARD_COLUMNS);
    char *copy, *name;
    SR_TRY(sr_strdup(&copy, value));
    if (i < w->entries) {
        sr_free(w->entry[i].value);
        w->entry[i].value = copy;
        return SR_OK;
    }
    sr_status st = sr_strdup(&name, key);
    if (st != SR_OK) {
        sr_free(copy);
        return st;
    }
    w->entry[w->entries++] = (entry){.key = name, .value = copy};
    return SR_OK;
}

static sr_status add(buffer *b, const void *bytes, size_t size) {
    size_t need;
    SR_TRY(sr_add_size(&need, b->size, size));
    if (need > b->room) {
        size_t room = need + need / 2 + 256;
        SR_TRY(sr_grow(&b->bytes, room));
        b->room = room;
    }
    if (size > 0) memcpy(b->bytes + b->size, bytes, size);
    b->size = need;
    return SR_OK;
}

static sr_status add_number(buffer *b, uint64_t x, size_t bytes) {
    return add(b, &x, bytes); /* little-endian hosts only: x86-64 */
}

static sr_status add_text(buffer *b, const char *text, size_t length_bytes) {
    SR_TRY(add_number(b, strlen(text), length_bytes));
    return add(b, text, strlen(text));
}

static sr_status build_directory(buffer *b, const sr_shard_writer *w) {
    SR_TRY(add_number(b, (uint64_t)w->entries, 4));
    for (int i = 0; i < w->entries; i++) {
        SR_TRY(add_text(b, w->entry[i].key, 2));
        SR_TRY(add_text(b, w->entry[i].value, 4));
    }
    SR_TRY(add_number(b, (uint64_t)w->columns, 4));
    for (int i = 0; i < w->columns; i++) {
        const column *c = &w->column[i];
        SR_TRY(add_number(b, c->type, 1));
        SR_TRY(add_number(b, sr_column_size(c->type), 1));
        SR_TRY(add_text(b, c->name, 2));
        SR_TRY(add_number(b, c->count, 8));
    }
    SR_TRY(add_number(b, w->records, 8));
    for (size_t i = 0; i < w->records; i++) {
        SR_TRY(add_number(b, w->record[i].column, 4));
        SR_TRY(add_number(b, w->record[i].hash, 8));
    }
    return SR_OK;
}

static sr_status write_end(sr_shard_writer *w, const buffer *directory) {
    uint64_t numbers[3] = {w->at, directory->size,
                           sr_shard_hash(directory->bytes, directory->size, SR_SEED_DIRECTORY)};
    unsigned char trailer[SR_SHARD_TRAILER];
    memcpy(trailer, numbers, 24);
    memcpy(trailer + 24, sr_shard_end, 8);
    uint64_t hash = sr_shard_hash(trailer, 32, SR_SEED_TRAILER);
    memcpy(trailer + 32, &hash, 8);
    SR_TRY(put(w, directory->bytes, directory->size));
    return put(w, trailer, sizeof trailer);
}

static sr_status flush_all(sr_shard_writer *w) {
    for (int i = 0; i < w->columns; i++)
        if (w->column[i].used > 0) SR_TRY(flush(w, i));
    return SR_OK;
}

/* The hashes of a column's blocks, in order, as sr_shard_digest() reads them. */
static void collect_hashes(uint64_t *out, const sr_shard_writer *w, int column) {
    for (size_t i = 0; i < w->records; i++)
        if (w->record[i].column == (uint32_t)column) *out++ = w->record[i].hash;
}

sr_status sr_shard_finish(uint64_t *digest, sr_shard_writer *w) {
    uint64_t *hashes;
    SR_TRY(flush_all(w));
    SR_TRY(sr_new(&hashes, w->records));
    *digest = 0;
    for (int i = 0; i < w->columns; i++) {
        const column *c = &w->column[i];
        collect_hashes(hashes, w, i);
        *digest = sr_shard_hash(c->name, strlen(c->name), *digest);
        *digest = sr_shard_hash(hashes, (size_t)c->blocks * sizeof *hashes, *digest);
    }
    sr_free(hashes);
    return SR_OK;
}

sr_status sr_shard_commit(sr_shard_writer *w) {
    buffer directory = {0};
    sr_status st = flush_all(w);
    if (st == SR_OK) st = build_directory(&directory, w);
    if (st == SR_OK) st = write_end(w, &directory);
    if (st == SR_OK) st = sr_draft_commit(&w->draft);
    sr_free(directory.bytes);
    sr_shard_abort(w);
    return st;
}
