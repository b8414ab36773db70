/* shard.h - the .sqr file: named, typed columns with checksums for every byte.
 *
 *     header     32 bytes: magic, version, block size, checksum
 *     blocks     64 KiB of one column each, in the order in which they were filled; the last block
 *                of a column may be shorter
 *     directory  metadata, columns, and for each block in file order its column and its checksum
 *     trailer    40 bytes: position of the directory, its checksum, magic, checksum
 *
 * Offsets of blocks follow from their order, so blocks cannot overlap or leave gaps.  The checksum
 * (XXH3-64) of a block is seeded with its column and number, so swapped blocks are detected.
 * docs/reference/formats.md has the details.
 *
 * Files are read with pread, never mapped: truncation of a mapped file causes SIGBUS.  A block is
 * verified each time it is read from storage.  Memory is bounded: a writer has one block per
 * column, a reader its block cache; both have 16 bytes for each block of the file (1/4096 of it).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

enum {
    SR_SHARD_VERSION = 1,
    SR_SHARD_BLOCK = 64 << 10,
    SR_SHARD_HEADER = 32,
    SR_SHARD_TRAILER = 40,
    SR_SHARD_COLUMNS = 256,    /* maximum number of columns, and of metadata entries */
    SR_SHARD_NAME = 64,        /* maximum bytes of a column name or key: letters, digits, _ - . */
    SR_SHARD_VALUE = 64 << 10, /* maximum bytes of a metadata value */
    SR_SHARD_CACHE = 32 << 20  /* default size of a reader's block cache, in bytes */
};

typedef enum sr_column_type {
    SR_COLUMN_BYTES = 1,
    SR_COLUMN_U8,
    SR_COLUMN_U16,
    SR_COLUMN_U32,
    SR_COLUMN_U64,
    SR_COLUMN_I32,
    SR_COLUMN_F32,
    SR_COLUMN_F64,
    SR_COLUMN_I64,
    SR_COLUMN_TYPES
} sr_column_type;

/* Bytes per element, 0 for an unknown type. */
size_t sr_column_size(int type);
const char *sr_column_type_name(int type);

/* ---- reading ---- */

typedef struct sr_shard sr_shard;

typedef struct sr_column {
    char name[SR_SHARD_NAME + 1];
    int type;       /* sr_column_type; may be unknown, from a later version */
    uint64_t count; /* elements */
    uint64_t own;   /* of these in the first file, if others were appended to it */
    size_t size;    /* bytes per element */
    int index;
    uint64_t blocks, *at, *hash; /* position of each block in the file, and its checksum */
} sr_column;

/* Opens and checks header, trailer and directory; blocks are checked as they are read.
 *
 *   cache  bytes of cached blocks, 0: SR_SHARD_CACHE; at least one block per set of the cache
 *
 * Errors: SR_ENOENT, SR_EIO; SR_EDATA names the file and the offset: not a .sqr file, from a later
 * version, truncated, damaged. */
sr_status sr_shard_open(sr_shard **out, const char *path, size_t cache);
void sr_shard_close(sr_shard *s); /* may be NULL */

/* Appends a file, which `s` owns from then on: its columns continue those of `s`, whose metadata
 * stays.  SR_EDATA names a column that one of them has otherwise; SR_ENOMEM. */
sr_status sr_shard_append_file(sr_shard *s, sr_shard *next);

const char *sr_shard_path(const sr_shard *s);
uint64_t sr_shard_bytes(const sr_shard *s);  /* of the file */
uint64_t sr_shard_digest(const sr_shard *s); /* of the values of all columns; ignores metadata */

/* The columns in file order, and by name: NULL if there is none. */
int sr_shard_columns(const sr_shard *s);
const sr_column *sr_shard_column_at(const sr_shard *s, int i);
const sr_column *sr_shard_column(const sr_shard *s, const char *name);

/* A required column of this type, or SR_EDATA. */
sr_status sr_shard_want(const sr_column **out, const sr_shard *s, const char *name, int type);

/* The value of a metadata key, NULL if there is none; and the entries in order. */
const char *sr_shard_meta(const sr_shard *s, const char *key);
int sr_shard_metas(const sr_shard *s);
const char *sr_shard_meta_at(const sr_shard *s, int i, const char **value);

/* Reads elements first .. first + count - 1 of a column.  Thread-safe.
 *
 * Errors: SR_EINVAL  outside the column
 *         SR_EDATA   a block does not match its checksum, or the file was truncated
 *         SR_EIO, SR_ENOMEM */
sr_status sr_shard_read(sr_shard *s, const sr_column *column, void *out, uint64_t first,
                        uint64_t count);

/* Reads every block; SR_EDATA names the first damaged one. */
sr_status sr_shard_verify(sr_shard *s);

/* ---- writing ---- */

typedef struct sr_shard_writer sr_shard_writer;

/* Begins a file that appears at `path` only when it is committed, durably. */
sr_status sr_shard_create(sr_shard_writer **out, const char *path);

/* Adds a column; *column is its index.  SR_EINVAL for an invalid or duplicate name, or a bad type.
 */
sr_status sr_shard_add_column(sr_shard_writer *w, int *column, const char *name,
                              sr_column_type type);

/* The type of a column, and bytes of its elements; 0 when there is no such column. */
int sr_shard_type(const sr_shard_writer *w, int column);
size_t sr_shard_element(const sr_shard_writer *w, int column);

/* Appends elements to a column; columns may be written in any order. */
sr_status sr_shard_append(sr_shard_writer *w, int column, const void *elements, size_t count);

/* Sets or replaces a metadata entry. */
sr_status sr_shard_set_meta(sr_shard_writer *w, const char *key, const char *value);

/* Writes what is buffered; only sr_shard_commit() or sr_shard_abort() may follow.  *digest is what
 * sr_shard_digest() of the file will be. */
sr_status sr_shard_finish(uint64_t *digest, sr_shard_writer *w);

/* Writes the rest and moves the file to its path.  Frees the writer, also on failure. */
sr_status sr_shard_commit(sr_shard_writer *w);
void sr_shard_abort(sr_shard_writer *w); /* removes the file; may be NULL */

SR_END_C
