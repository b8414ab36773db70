/* index.h - indexed data sets of DeepSpeed and Megatron: rows of integers in two files.
 *
 *     NAME.idx   "MMIDIDX" 0 0, version u64 = 1, type u8, rows u64, documents u64,
 *                size of each row i32, its first byte in the other file i64, document index i64
 *     NAME.bin   the values
 *
 * The types are 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 u16, 7 u32, 8 u64.  Data analysis of DeepSpeed
 * keeps a metric in such files (sr_index_of_metric).
 *
 * Files are read with pread; memory does not depend on their size.
 */
#ifndef SR_DATA_INDEX_H
#define SR_DATA_INDEX_H

#include "core/data/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_index_type {
    SR_INDEX_U8 = 1,
    SR_INDEX_I8,
    SR_INDEX_I16,
    SR_INDEX_I32,
    SR_INDEX_I64,
    SR_INDEX_U16,
    SR_INDEX_U32,
    SR_INDEX_U64,
    SR_INDEX_TYPES
} sr_index_type;

const char *sr_index_type_name(sr_index_type type); /* "u8", ... */

/* The narrowest type of these values: unsigned if none is negative. */
sr_index_type sr_index_narrowest(int64_t least, int64_t most);

/* ---- reading ---- */

typedef struct sr_index {
    char *idx_path, *bin_path;
    int idx, bin;
    sr_index_type type;
    uint64_t rows, documents, bytes; /* bytes: of the values */
} sr_index;

/* Opens NAME.idx and NAME.bin.  SR_ENOENT, SR_EIO; SR_EDATA names the file: not an index, an
 * unknown version or type, a size that does not fit its numbers. */
sr_status sr_index_open(sr_index **out, const char *name);
sr_status sr_index_open_files(sr_index **out, const char *idx_path, const char *bin_path);
void sr_index_close(sr_index *x); /* may be NULL */

/* *count = values of a row.  SR_EDATA: it is not inside the file of values. */
sr_status sr_index_size(int64_t *count, const sr_index *x, uint64_t row);

/* Values first .. first + count - 1 of a row.  SR_EDATA also for a value above 2^63 - 1. */
sr_status sr_index_read(int64_t *out, const sr_index *x, uint64_t row, int64_t first,
                        int64_t count);

/* ---- writing ---- */

typedef struct sr_index_writer sr_index_writer;

/* Begins NAME.idx and NAME.bin, which appear when they are committed.  Memory: 4 bytes a row. */
sr_status sr_index_create(sr_index_writer **out, const char *name, sr_index_type type);

/* Appends values to the row, and ends it.  SR_EINVAL: a value does not fit in the type. */
sr_status sr_index_put(sr_index_writer *w, const int64_t *values, int64_t count);
sr_status sr_index_end_row(sr_index_writer *w);

/* Moves the files to their names.  Frees the writer, also on failure. */
sr_status sr_index_commit(sr_index_writer *w);
void sr_index_abort(sr_index_writer *w); /* may be NULL */

/* ---- metrics ---- */

/* Writes a metric of integers as DeepSpeed's analysis does, each with .idx and .bin:
 *
 *     NAME_sample_to_metric                   a row of one value for each sequence
 *     NAME_index_to_metric                    a row of one value for each distinct value, ascending
 *     NAME_index_to_sample                    their sequences
 *     NAME_index_to_sample_percentile_merged  the same, max(1, rows / 100) rows merged
 *
 * SR_EINVAL if its values are not integers. */
sr_status sr_index_of_metric(const sr_metric *m, const char *name);

/* The values of NAME_sample_to_metric or, if it is not there, of NAME_index_to_sample and
 * NAME_index_to_metric: *values is (*count), freed by sr_free().
 * SR_EDATA: rows of several values; sequences that are missing or have two values. */
sr_status sr_index_values(double **values, int64_t *count, const char *name);

#ifdef __cplusplus
}
#endif
#endif
