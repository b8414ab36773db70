/* safetensors.h - named arrays in one file, read strictly and written with stable bytes.
 *
 * A file is a u64 header length, a JSON object, and the bytes of the tensors without holes.  Files
 * are untrusted, so the reader checks everything before it allocates: header and data are inside
 * the file, the JSON has only objects, arrays, strings and integers, no key is duplicated, every
 * shape matches its size in bytes in 64-bit arithmetic, and tensors are contiguous from the first
 * byte to the last.  Data is read with pread: a file that shrinks while it is open is an error,
 * never a signal.
 *
 * The writer sorts by alignment of the type, then by name, and pads the header to 8 bytes: the same
 * tensors give the same bytes as the reference writer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

enum {
    SR_ST_MAX_DIMS = 8,
    SR_ST_MAX_TENSORS = 65536,
    SR_ST_MAX_NAME = 256,           /* bytes */
    SR_ST_MAX_METADATA = 1 << 20,   /* bytes of all keys and values */
    SR_ST_HEADER = 8 * 1000 * 1000, /* default limit of the header */
    SR_ST_HEADER_MOST = 100 * 1000 * 1000,
    SR_ST_MULTIPLE = 100, /* bytes of memory for each byte of the header, */
    SR_ST_BASE = 1 << 16  /* and these, are enough to parse it, or it is refused */
};

/* The types of the format, in the order by which the reference writer sorts. */
typedef enum sr_st_dtype {
    SR_ST_BOOL,
    SR_ST_U8,
    SR_ST_I8,
    SR_ST_F8_E5M2,
    SR_ST_F8_E4M3,
    SR_ST_I16,
    SR_ST_U16,
    SR_ST_F16,
    SR_ST_BF16,
    SR_ST_I32,
    SR_ST_U32,
    SR_ST_F32,
    SR_ST_F64,
    SR_ST_I64,
    SR_ST_U64,
    SR_ST_DTYPE_COUNT
} sr_st_dtype;

const char *sr_st_dtype_name(sr_st_dtype dtype); /* "F32" */
size_t sr_st_dtype_size(sr_st_dtype dtype);      /* bytes per element */
sr_st_dtype sr_st_dtype_of(sr_dtype dtype);      /* F32 of f32, and so on */

typedef struct sr_st_entry {
    char *name; /* valid UTF-8 without controls */
    sr_st_dtype dtype;
    int ndim;
    int64_t shape[SR_ST_MAX_DIMS];
    uint64_t count; /* elements */
    uint64_t begin; /* first byte, from the start of the data */
    uint64_t bytes;
} sr_st_entry;

typedef struct sr_st_pair {
    char *key, *value;
} sr_st_pair;

typedef struct sr_safetensors {
    char *path; /* for messages */
    int fd;
    uint64_t data_at;
    uint64_t data_bytes;
    sr_st_entry *list; /* by name */
    int64_t count;
    sr_st_pair *metadata; /* by key */
    int64_t metadata_count;
} sr_safetensors;

/* Opens a file and checks its header.  `header_limit` 0 means SR_ST_HEADER.
 *
 * Errors: SR_ENOENT, SR_EIO; SR_EDATA names the file and what is wrong with it
 */
sr_status sr_safetensors_open(sr_safetensors **out, const char *path, size_t header_limit);
void sr_safetensors_close(sr_safetensors *st); /* may be NULL */

/* The tensor of this name, or NULL. */
const sr_st_entry *sr_safetensors_find(const sr_safetensors *st, const char *name);

/* The first `count` elements of a tensor, converted to the dtype of `t`, into the first ones of
 * `t`, which is contiguous; SR_EINVAL if either has fewer.
 * Between floating-point dtypes values are rounded to nearest; integers up to 2^53 become real
 * exactly; real numbers never become integers.
 *
 * Errors: SR_EDATA  the file is truncated, the conversion is not one of these, an integer is out
 * of range, a bool is neither 0 nor 1
 */
sr_status sr_safetensors_read_tensor(const sr_safetensors *st, const sr_st_entry *entry,
                                     sr_tensor *t, int64_t count);

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct sr_st_item {
    const char *name;
    const sr_tensor *tensor; /* contiguous; its dtype is the file's */
    /* or, when `tensor` is NULL, bytes in host memory: */
    sr_st_dtype dtype;
    int ndim;
    int64_t shape[SR_ST_MAX_DIMS];
    const void *data;
} sr_st_item;

/* Receives the bytes of a file, in order. */
typedef sr_status (*sr_st_sink)(void *context, const void *bytes, size_t size);

/* The layout of a file of these items. */
typedef struct sr_st_plan {
    char *header; /* the length, the JSON and its padding */
    size_t header_bytes;
    uint64_t total_bytes;
    int64_t *order;          /* items as they follow each other */
    const sr_st_item *items; /* borrowed */
    int64_t count;
} sr_st_plan;

/* Errors: SR_EINVAL  a name that is duplicated, empty, too long or not UTF-8; a tensor that is not
 * contiguous */
sr_status sr_st_plan_new(sr_st_plan **out, const sr_st_item *items, int64_t count,
                         const sr_st_pair *metadata, int64_t metadata_count);
void sr_st_plan_free(sr_st_plan *plan); /* may be NULL */

/* Passes the whole file to the sink, at most 1 MiB at a time. */
sr_status sr_st_plan_write(const sr_st_plan *plan, sr_st_sink sink, void *context);

SR_END_C
