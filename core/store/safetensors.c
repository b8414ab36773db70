#include "core/store/safetensors.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/json.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/reader.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[SR_ST_DTYPE_COUNT] = {
    [SR_ST_BOOL] = {"BOOL", 1},       [SR_ST_U8] = {"U8", 1},           [SR_ST_I8] = {"I8", 1},
    [SR_ST_F8_E5M2] = {"F8_E5M2", 1}, [SR_ST_F8_E4M3] = {"F8_E4M3", 1}, [SR_ST_I16] = {"I16", 2},
    [SR_ST_U16] = {"U16", 2},         [SR_ST_F16] = {"F16", 2},         [SR_ST_BF16] = {"BF16", 2},
    [SR_ST_I32] = {"I32", 4},         [SR_ST_U32] = {"U32", 4},         [SR_ST_F32] = {"F32", 4},
    [SR_ST_F64] = {"F64", 8},         [SR_ST_I64] = {"I64", 8},         [SR_ST_U64] = {"U64", 8},
};

const char *sr_st_dtype_name(sr_st_dtype dtype) {
    return (unsigned)dtype < SR_ST_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

size_t sr_st_dtype_size(sr_st_dtype dtype) {
    return (unsigned)dtype < SR_ST_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

sr_st_dtype sr_st_dtype_of(sr_dtype dtype) {
    switch (dtype) {
    case SR_F64:
        return SR_ST_F64;
    case SR_F32:
        return SR_ST_F32;
    case SR_BF16:
        return SR_ST_BF16;
    case SR_I32:
        return SR_ST_I32;
    default:
        return SR_ST_BOOL;
    }
}

static sr_status bad(const sr_safetensors *st, const char *what) {
    return sr_fail(SR_EDATA, "%s: not a valid safetensors file: %s", st->path, what);
}

static sr_status bad_entry(const sr_safetensors *st, const sr_st_entry *e, const char *what) {
    return sr_fail(SR_EDATA, "%s: not a valid safetensors file: tensor '%.*s' %s", st->path,
                   SR_ST_MAX_NAME, e->name, what);
}

/* ---- the header ------------------------------------------------------------------------------
 *
 * Before jansson sees the text, one pass checks that outside strings it holds only the characters
 * of objects, arrays and integers, and null, which some converters write for __metadata__, and
 * counts them: no number with a fraction, no other literal, and never more structure than the
 * limits allow, so that a small file cannot make a large tree.
 */

enum { MAX_MARKS = 16 * SR_ST_MAX_TENSORS };

static sr_status scan_text(const sr_safetensors *st, const char *json, size_t size) {
    int64_t marks = 0;
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = json[i];
        if (quoted) {
            if (c == '\\') i++;
            if (c == '"') quoted = false;
            continue;
        }
        if (c == '"') quoted = true;
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        if (depth > 3) return bad(st, "the header is nested too deeply");
        if (strchr("{}[],:", c) != NULL && c != '\0') marks++;
        if (marks > MAX_MARKS) return bad(st, "the header has too many entries");
        if (size - i >= 4 && memcmp(json + i, "null", 4) == 0)
            i += 3;
        else if (c == '\0' || strchr("{}[],:\"0123456789 \t\r\n", c) == NULL)
            return bad(st, "the header contains something other than objects, arrays, strings and "
                           "integers");
    }
    return SR_OK;
}

/* Controls are U+0000..1F, 7F and 80..9F. */
static bool is_clean(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++)
        if (*p < 0x20 || *p == 0x7F || (*p == 0xC2 && p[1] < 0xA0)) return false;
    return true;
}

static sr_status check_name(const sr_safetensors *st, const char *name) {
    if (name[0] == '\0') return bad(st, "a tensor has an empty name");
    if (strlen(name) > SR_ST_MAX_NAME) return bad(st, "the name of a tensor is too long");
    if (!is_clean(name)) return bad(st, "the name of a tensor contains a control character");
    return SR_OK;
}

static sr_status parse_dtype(const sr_safetensors *st, sr_st_entry *e, const json_t *value) {
    const char *text = json_string_value(value);
    for (int d = 0; text != NULL && d < SR_ST_DTYPE_COUNT; d++)
        if (strcmp(text, dtypes[d].name) == 0) {
            e->dtype = (sr_st_dtype)d;
            return SR_OK;
        }
    return bad_entry(st, e, "has an unknown dtype");
}

static sr_status parse_shape(const sr_safetensors *st, sr_st_entry *e, const json_t *value) {
    if (!json_is_array(value)) return bad_entry(st, e, "has no shape");
    if (json_array_size(value) > SR_ST_MAX_DIMS)
        return bad_entry(st, e, "has more than 8 dimensions");
    e->ndim = (int)json_array_size(value);
    e->count = 1;
    for (int i = 0; i < e->ndim; i++) {
        const json_t *size = json_array_get(value, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return bad_entry(st, e, "has a size that is not an integer");
        e->shape[i] = json_integer_value(size);
        if (__builtin_mul_overflow(e->count, (uint64_t)e->shape[i], &e->count))
            return bad_entry(st, e, "has more elements than 64 bits can count");
    }
    return SR_OK;
}

static sr_status parse_offsets(const sr_safetensors *st, sr_st_entry *e, const json_t *value) {
    if (!json_is_array(value) || json_array_size(value) != 2 ||
        !json_is_integer(json_array_get(value, 0)) || !json_is_integer(json_array_get(value, 1)))
        return bad_entry(st, e, "has no data_offsets");
    json_int_t begin = json_integer_value(json_array_get(value, 0));
    json_int_t end = json_integer_value(json_array_get(value, 1));
    if (begin < 0 || end < begin || (uint64_t)end > st->data_bytes)
        return bad_entry(st, e, "is outside the file");
    uint64_t bytes;
    if (__builtin_mul_overflow(e->count, (uint64_t)sr_st_dtype_size(e->dtype), &bytes) ||
        bytes != (uint64_t)(end - begin))
        return bad_entry(st, e, "has a shape that does not match its size in bytes");
    e->begin = (uint64_t)begin;
    e->bytes = bytes;
    return SR_OK;
}

static sr_status parse_entry(sr_safetensors *st, const char *name, const json_t *value) {
    SR_TRY(check_name(st, name));
    sr_st_entry *e = &st->list[st->count];
    SR_TRY(sr_strdup(&e->name, name));
    st->count++;
    if (!json_is_object(value) || json_object_size(value) != 3)
        return bad_entry(st, e, "is not an object of dtype, shape and data_offsets");
    SR_TRY(parse_dtype(st, e, json_object_get(value, "dtype")));
    SR_TRY(parse_shape(st, e, json_object_get(value, "shape")));
    return parse_offsets(st, e, json_object_get(value, "data_offsets"));
}

static sr_status parse_metadata(sr_safetensors *st, json_t *object) {
    if (json_is_null(object)) return SR_OK;
    if (!json_is_object(object)) return bad(st, "__metadata__ is not an object");
    SR_TRY(sr_new(&st->metadata, json_object_size(object)));
    size_t bytes = 0;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (!json_is_string(value))
            return bad(st, "__metadata__ contains values that are not strings");
        bytes += strlen(key) + json_string_length(value);
        if (bytes > SR_ST_MAX_METADATA) return bad(st, "__metadata__ is larger than 1 MiB");
        sr_st_pair *pair = &st->metadata[st->metadata_count++];
        SR_TRY(sr_strdup(&pair->key, key));
        SR_TRY(sr_strdup(&pair->value, json_string_value(value)));
    }
    return SR_OK;
}

static int by_place(const void *a, const void *b) {
    const sr_st_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const sr_st_entry *)a)->name, ((const sr_st_entry *)b)->name);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const sr_st_pair *)a)->key, ((const sr_st_pair *)b)->key);
}

/* Tensors follow each other from the first byte of the data to the last. */
static sr_status check_contiguous(sr_safetensors *st) {
    uint64_t at = 0;
    if (st->count > 1) qsort(st->list, (size_t)st->count, sizeof *st->list, by_place);
    for (int64_t i = 0; i < st->count; i++) {
        if (st->list[i].begin != at)
            return bad_entry(st, &st->list[i],
                             st->list[i].begin < at ? "overlaps another" : "follows unused bytes");
        at += st->list[i].bytes;
    }
    if (at != st->data_bytes) return bad(st, "there are unused bytes after the last tensor");
    if (st->count > 1) qsort(st->list, (size_t)st->count, sizeof *st->list, by_name);
    if (st->metadata_count > 1)
        qsort(st->metadata, (size_t)st->metadata_count, sizeof *st->metadata, by_key);
    return SR_OK;
}

static sr_status parse_tree(sr_safetensors *st, json_t *root) {
    size_t n = json_object_size(root);
    if (n > SR_ST_MAX_TENSORS + 1) return bad(st, "it has more than 65,536 tensors");
    SR_TRY(sr_new(&st->list, n));
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value) {
        if (strcmp(name, "__metadata__") == 0)
            SR_TRY(parse_metadata(st, value));
        else
            SR_TRY(parse_entry(st, name, value));
    }
    return check_contiguous(st);
}

static sr_status parse_text(sr_safetensors *st, const char *json, size_t size) {
    while (size > 0 && json[size - 1] == ' ') size--;
    if (size < 2 || json[0] != '{' || json[size - 1] != '}')
        return bad(st, "the header is not a JSON object");
    SR_TRY(scan_text(st, json, size));
    json_error_t error;
    sr_mem_count count;
    sr_mem_watch(&count, (int64_t)size * SR_ST_MULTIPLE + SR_ST_BASE);
    json_t *root;
    sr_status status = sr_json_load(&root, json, size, JSON_REJECT_DUPLICATES, &error);
    sr_mem_watch_end(&count);
    if (root == NULL && count.exceeded)
        return bad(st, "the header needs more than 100 bytes of memory for each of its bytes");
    if (status == SR_ENOMEM) return sr_fail(SR_ENOMEM, "out of memory while reading %s", st->path);
    if (root == NULL)
        return sr_fail(SR_EDATA, "%s: not a valid safetensors file: %.120s at byte %d", st->path,
                       is_clean(error.text) ? error.text : "invalid text", 8 + error.position);
    status =
        json_is_object(root) ? parse_tree(st, root) : bad(st, "the header is not a JSON object");
    json_decref(root);
    return status;
}

/* ---- open and close -------------------------------------------------------------------------- */

static sr_status new_reader(sr_safetensors **out, const char *path) {
    SR_TRY(sr_new(out, 1));
    (*out)->fd = -1;
    return sr_strdup(&(*out)->path, path);
}

/* `json` is what follows the length, `data_bytes` what follows the header in the file. */
static sr_status parse_header(sr_safetensors **out, const char *json, size_t size,
                              uint64_t data_bytes, const char *path) {
    *out = NULL;
    sr_safetensors *st = NULL;
    sr_status status = new_reader(&st, path);
    if (status == SR_OK) {
        st->data_at = 8 + (uint64_t)size;
        st->data_bytes = data_bytes;
        status = parse_text(st, json, size);
    }
    if (status != SR_OK) {
        sr_safetensors_close(st);
        return status;
    }
    *out = st;
    return SR_OK;
}

/* Reads the header of an open file of `size` bytes and parses it. */
static sr_status parse_file(sr_safetensors **out, int fd, uint64_t size, size_t limit,
                            const char *path) {
    unsigned char length[8];
    uint64_t header;
    sr_reader r;
    if (size < 8) return sr_fail(SR_EDATA, "%s: not a valid safetensors file: too short", path);
    SR_TRY(sr_file_pread(fd, length, sizeof length, 0, path));
    sr_reader_init(&r, length, sizeof length, path);
    SR_TRY(sr_read_u64(&r, &header));
    if (header > size - 8 && __builtin_bswap64(header) <= size - 8)
        return sr_fail(SR_EDATA,
                       "%s: not a valid safetensors file: the size of its header is big-endian",
                       path);
    if (header > size - 8)
        return sr_fail(SR_EDATA,
                       "%s: not a valid safetensors file: the header extends beyond "
                       "the file (truncated?)",
                       path);
    if (header > limit)
        return sr_fail(SR_EDATA, "%s: the header has %" PRIu64 " bytes; the limit is %zu", path,
                       header, limit);
    char *json;
    SR_TRY(sr_new(&json, header + 1));
    sr_status st = sr_file_pread(fd, json, (size_t)header, 8, path);
    if (st == SR_OK) st = parse_header(out, json, (size_t)header, size - 8 - header, path);
    sr_free(json);
    return st;
}

sr_status sr_safetensors_open(sr_safetensors **out, const char *path, size_t header_limit) {
    *out = NULL;
    int fd;
    size_t size, limit = header_limit > 0 ? header_limit : SR_ST_HEADER;
    if (limit > SR_ST_HEADER_MOST) limit = SR_ST_HEADER_MOST;
    SR_TRY(sr_file_open(&fd, &size, path, (size_t)INT64_MAX));
    sr_status st = parse_file(out, fd, size, limit, path);
    if (st != SR_OK) {
        sr_io_now.close(fd);
        return st;
    }
    (*out)->fd = fd;
    return SR_OK;
}

void sr_safetensors_close(sr_safetensors *st) {
    if (st == NULL) return;
    for (int64_t i = 0; i < st->count; i++) sr_free(st->list[i].name);
    for (int64_t i = 0; i < st->metadata_count; i++) {
        sr_free(st->metadata[i].key);
        sr_free(st->metadata[i].value);
    }
    if (st->fd >= 0) sr_io_now.close(st->fd);
    sr_free(st->list);
    sr_free(st->metadata);
    sr_free(st->path);
    sr_free(st);
}

const sr_st_entry *sr_safetensors_find(const sr_safetensors *st, const char *name) {
    if (st->count == 0) return NULL;
    sr_st_entry key = {.name = (char *)name};
    return bsearch(&key, st->list, (size_t)st->count, sizeof *st->list, by_name);
}
