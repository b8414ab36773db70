#include "core/data/shard.h"

#include <inttypes.h>
#include <pthread.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"
#include "core/base/reader.h"
#include "core/data/shard_format.h"

enum { WAYS = 4 };

/* A cached block.  The cache is an array of sets; a block may be in any frame of its set. */
typedef struct frame {
    unsigned char *bytes; /* SR_SHARD_BLOCK of them, allocated on first use */
    int column;           /* -1: empty */
    uint64_t block, used; /* `used`: the clock of the set at the last read */
} frame;

typedef struct frame_set {
    pthread_mutex_t lock;
    uint64_t clock;
    frame frame[WAYS];
} frame_set;

typedef struct entry {
    char *key, *value; /* both in one allocation, at key */
} entry;

struct sr_shard {
    sr_shard *next; /* the file appended to this one; NULL: none */
    char *name;     /* the paths of all */
    char *path;
    int fd;
    uint64_t size, directory; /* bytes of the file; checksum of its directory */
    sr_column *column;
    int columns;
    entry *entry;
    int entries;
    frame_set *set;
    size_t sets;
};

size_t sr_column_size(int type) {
    static const size_t size[SR_COLUMN_TYPES] = {0, 1, 1, 2, 4, 8, 4, 4, 8, 8};
    return type > 0 && type < SR_COLUMN_TYPES ? size[type] : 0;
}

const char *sr_column_type_name(int type) {
    static const char *const name[SR_COLUMN_TYPES] = {"unknown", "bytes", "u8",  "u16", "u32",
                                                      "u64",     "i32",   "f32", "f64", "i64"};
    return name[type > 0 && type < SR_COLUMN_TYPES ? type : 0];
}

/* ---- the directory ---- */

static sr_status damaged(const sr_shard *s, uint64_t at, const char *what) {
    return sr_fail(SR_EDATA,
                   "%s: %s at byte %" PRIu64
                   "; the file is truncated or damaged, copy or prepare it again",
                   s->path, what, at);
}

static sr_status check_header(const sr_shard *s) {
    unsigned char header[SR_SHARD_HEADER];
    if (s->size < sizeof header)
        return sr_fail(SR_EDATA,
                       "%s: not a data set: %" PRIu64 " bytes are less than a header; create one "
                       "with `seqrun recipes/prepare.lua`",
                       s->path, s->size);
    SR_TRY(sr_file_pread(s->fd, header, sizeof header, 0, s->path));
    if (memcmp(header, sr_shard_magic, 8) != 0)
        return sr_fail(SR_EDATA,
                       "%s: not a data set (no .sqr header at byte 0); create one with `seqrun "
                       "recipes/prepare.lua`",
                       s->path);
    uint32_t numbers[2];
    uint64_t hash;
    memcpy(numbers, header + 8, 8);
    memcpy(&hash, header + 24, 8);
    if (numbers[0] != 0 && numbers[0] % (1 << 24) == 0)
        return sr_fail(SR_EDATA,
                       "%s: a big-endian data set; prepare it again on a little-endian machine",
                       s->path);
    if (hash != sr_shard_hash(header, 24, SR_SEED_HEADER)) return damaged(s, 8, "a bad header");
    if (numbers[0] != SR_SHARD_VERSION)
        return sr_fail(
            SR_EDATA,
            "%s: format version %u is not %d; use the version of seqrun that wrote it, or prepare "
            "it again",
            s->path, numbers[0], SR_SHARD_VERSION);
    if (numbers[1] != SR_SHARD_BLOCK)
        return sr_fail(SR_EDATA, "%s: blocks of %u bytes are not of %d; prepare it again", s->path,
                       numbers[1], SR_SHARD_BLOCK);
    return SR_OK;
}

/* Reads the position of the directory, which is between the blocks and the trailer. */
static sr_status check_trailer(uint64_t *at, uint64_t *size, sr_shard *s) {
    unsigned char trailer[SR_SHARD_TRAILER];
    if (s->size < SR_SHARD_HEADER + sizeof trailer) return damaged(s, s->size, "no trailer");
    uint64_t end = s->size - sizeof trailer, numbers[3], hash;
    SR_TRY(sr_file_pread(s->fd, trailer, sizeof trailer, end, s->path));
    memcpy(numbers, trailer, 24);
    memcpy(&hash, trailer + 32, 8);
    if (memcmp(trailer + 24, sr_shard_end, 8) != 0 ||
        hash != sr_shard_hash(trailer, 32, SR_SEED_TRAILER))
        return damaged(s, end, "no trailer");
    if (numbers[0] < SR_SHARD_HEADER || numbers[0] > end || numbers[1] != end - numbers[0])
        return damaged(s, end, "a trailer of another file");
    *at = numbers[0];
    *size = numbers[1];
    s->directory = numbers[2];
    return SR_OK;
}

static sr_status parse_entry(sr_reader *r, sr_shard *s) {
    const void *key, *value;
    uint16_t key_size = 0;
    uint32_t value_size = 0;
    SR_TRY(sr_read_u16(r, &key_size));
    SR_TRY(sr_read_claim(r, &key, key_size, 1));
    SR_TRY(sr_read_u32(r, &value_size));
    SR_TRY(sr_read_claim(r, &value, value_size, 1));
    if (!sr_shard_name_ok(key, key_size) || value_size > SR_SHARD_VALUE ||
        memchr(value, 0, value_size) != NULL)
        return sr_fail(SR_EDATA, "%s: a metadata entry is malformed", s->path);
    entry *e = &s->entry[s->entries];
    SR_TRY(sr_new(&e->key, (size_t)key_size + value_size + 2));
    e->value = e->key + key_size + 1;
    memcpy(e->key, key, key_size);
    memcpy(e->value, value, value_size);
    s->entries++;
    return SR_OK;
}

static sr_status parse_column(sr_reader *r, sr_shard *s) {
    sr_column *c = &s->column[s->columns];
    const void *name;
    uint8_t type = 0, size = 0;
    uint16_t name_size = 0;
    SR_TRY(sr_read_u8(r, &type));
    SR_TRY(sr_read_u8(r, &size));
    SR_TRY(sr_read_u16(r, &name_size));
    SR_TRY(sr_read_claim(r, &name, name_size, 1));
    SR_TRY(sr_read_u64(r, &c->count));
    bool known = sr_column_size(type) != 0;
    uint64_t bytes;
    if (!sr_shard_name_ok(name, name_size) || (known && size != sr_column_size(type)) ||
        size == 0 || SR_SHARD_BLOCK % size != 0 ||
        __builtin_mul_overflow(c->count, (uint64_t)size, &bytes) || bytes > s->size)
        return sr_fail(SR_EDATA, "%s: column %d is malformed", s->path, s->columns);
    memcpy(c->name, name, name_size);
    if (sr_shard_column(s, c->name) != NULL)
        return sr_fail(SR_EDATA, "%s: duplicate column '%s'", s->path, c->name);
    c->type = type;
    c->own = c->count;
    c->size = size;
    c->index = s->columns;
    c->blocks = bytes / SR_SHARD_BLOCK + (bytes % SR_SHARD_BLOCK != 0);
    s->columns++; /* the following is freed with the shard */
    SR_TRY(sr_new(&c->at, c->blocks));
    return sr_new(&c->hash, c->blocks);
}

static size_t block_bytes(const sr_column *c, uint64_t block) {
    uint64_t left = c->own * c->size - block * SR_SHARD_BLOCK;
    return left < SR_SHARD_BLOCK ? (size_t)left : SR_SHARD_BLOCK;
}

/* Blocks in file order: each begins at the end of the previous one. */
static sr_status parse_blocks(sr_reader *r, sr_shard *s, uint64_t directory) {
    uint64_t count = 0, at = SR_SHARD_HEADER, next[SR_SHARD_COLUMNS] = {0};
    SR_TRY(sr_read_u64(r, &count));
    for (uint64_t i = 0; i < count; i++) {
        uint32_t number = 0;
        uint64_t hash = 0;
        SR_TRY(sr_read_u32(r, &number));
        SR_TRY(sr_read_u64(r, &hash));
        if (number >= (uint32_t)s->columns || next[number] == s->column[number].blocks)
            return sr_fail(SR_EDATA, "%s: block %" PRIu64 " belongs to no column", s->path, i);
        sr_column *c = &s->column[number];
        uint64_t block = next[number]++;
        c->at[block] = at;
        c->hash[block] = hash;
        at += block_bytes(c, block);
    }
    for (int i = 0; i < s->columns; i++)
        if (next[i] != s->column[i].blocks)
            return sr_fail(SR_EDATA, "%s: column '%s' has missing blocks", s->path,
                           s->column[i].name);
    return at == directory ? SR_OK : damaged(s, at, "blocks that do not fill the file");
}

static sr_status parse_directory(sr_shard *s, const void *bytes, uint64_t at, uint64_t size) {
    if (sr_shard_hash(bytes, size, SR_SEED_DIRECTORY) != s->directory)
        return damaged(s, at, "a bad directory");
    sr_reader r;
    sr_reader_init(&r, bytes, size, s->path);
    uint32_t entries = 0, columns = 0;
    SR_TRY(sr_read_u32(&r, &entries));
    if (entries > SR_SHARD_COLUMNS) return damaged(s, at, "too many metadata entries");
    SR_TRY(sr_new(&s->entry, entries));
    while ((uint32_t)s->entries < entries) SR_TRY(parse_entry(&r, s));
    SR_TRY(sr_read_u32(&r, &columns));
    if (columns > SR_SHARD_COLUMNS) return damaged(s, at, "too many columns");
    SR_TRY(sr_new(&s->column, columns));
    while ((uint32_t)s->columns < columns) SR_TRY(parse_column(&r, s));
    SR_TRY(parse_blocks(&r, s, at));
    return sr_read_end(&r);
}

static sr_status read_directory(sr_shard *s) {
    uint64_t at = 0, size = 0;
    SR_TRY(check_header(s));
    SR_TRY(check_trailer(&at, &size, s));
    unsigned char *bytes;
    SR_TRY(sr_new(&bytes, size)); /* not more than in the file */
    sr_status st = size == 0 ? damaged(s, at, "no directory") : SR_OK;
    if (st == SR_OK) st = sr_file_pread(s->fd, bytes, size, at, s->path);
    if (st == SR_OK) st = parse_directory(s, bytes, at, size);
    sr_free(bytes);
    return st;
}

/* ---- open and close ---- */

static sr_status make_cache(sr_shard *s, size_t cache) {
    size_t sets = (cache != 0 ? cache : SR_SHARD_CACHE) / (SR_SHARD_BLOCK * WAYS);
    if (sets == 0) sets = 1;
    SR_TRY(sr_new(&s->set, sets));
    for (s->sets = 0; s->sets < sets; s->sets++) {
        frame_set *set = &s->set[s->sets];
        for (int i = 0; i < WAYS; i++) set->frame[i].column = -1;
        pthread_mutex_init(&set->lock, NULL); /* cannot fail on Linux */
    }
    return SR_OK;
}

sr_status sr_shard_open(sr_shard **out, const char *path, size_t cache) {
    *out = NULL;
    sr_shard *s;
    size_t size = 0;
    SR_TRY(sr_new(&s, 1));
    s->fd = -1;
    sr_status st = sr_strdup(&s->path, path);
    if (st == SR_OK) st = sr_file_open(&s->fd, &size, path, INT64_MAX);
    if (st == SR_ENOENT)
        sr_fail(st,
                "%s: no such data set; create it with `seqrun recipes/prepare.lua out=%s` (of two "
                "novels; inputs=[FILES]: of your text), of labelled files with "
                "recipes/prepare_labelled.lua",
                path, path);
    s->size = size;
    if (st == SR_OK) st = read_directory(s);
    if (st == SR_OK) st = make_cache(s, cache);
    if (st != SR_OK) {
        sr_shard_close(s);
        return st;
    }
    *out = s;
    return SR_OK;
}

void sr_shard_close(sr_shard *s) {
    if (s == NULL) return;
    for (size_t i = 0; i < s->sets; i++) {
        for (int j = 0; j < WAYS; j++) sr_free(s->set[i].frame[j].bytes);
        pthread_mutex_destroy(&s->set[i].lock);
    }
    for (int i = 0; i < s->columns; i++) {
        sr_free(s->column[i].at);
        sr_free(s->column[i].hash);
    }
    for (int i = 0; i < s->entries; i++) sr_free(s->entry[i].key);
    sr_shard_close(s->next);
    if (s->fd >= 0) sr_io_now.close(s->fd);
    sr_free(s->set);
    sr_free(s->column);
    sr_free(s->entry);
    sr_free(s->name);
    sr_free(s->path);
    sr_free(s);
}

/* ---- looking up ---- */

const char *sr_shard_path(const sr_shard *s) {
    return s->name != NULL ? s->name : s->path;
}

uint64_t sr_shard_bytes(const sr_shard *s) {
    return s->size + (s->next != NULL ? sr_shard_bytes(s->next) : 0);
}

uint64_t sr_shard_digest(const sr_shard *s) {
    uint64_t digest = 0;
    for (; s != NULL; s = s->next)
        for (int i = 0; i < s->columns; i++) {
            const sr_column *c = &s->column[i];
            digest = sr_shard_hash(c->name, strlen(c->name), digest);
            digest = sr_shard_hash(c->hash, (size_t)c->blocks * sizeof *c->hash, digest);
        }
    return digest;
}

int sr_shard_columns(const sr_shard *s) {
    return s->columns;
}

const sr_column *sr_shard_column_at(const sr_shard *s, int i) {
    return i >= 0 && i < s->columns ? &s->column[i] : NULL;
}

const sr_column *sr_shard_column(const sr_shard *s, const char *name) {
    for (int i = 0; i < s->columns; i++)
        if (strcmp(s->column[i].name, name) == 0) return &s->column[i];
    return NULL;
}

sr_status sr_shard_want(const sr_column **out, const sr_shard *s, const char *name, int type) {
    *out = sr_shard_column(s, name);
    if (*out == NULL)
        return sr_fail(SR_EDATA, "%s: the data set has no column '%s'; prepare it again", s->path,
                       name);
    if ((*out)->type != type)
        return sr_fail(SR_EDATA, "%s: column '%s' has %s, not %s; prepare it again", s->path, name,
                       sr_column_type_name((*out)->type), sr_column_type_name(type));
    return SR_OK;
}

const char *sr_shard_meta(const sr_shard *s, const char *key) {
    for (int i = 0; i < s->entries; i++)
        if (strcmp(s->entry[i].key, key) == 0) return s->entry[i].value;
    return NULL;
}

int sr_shard_metas(const sr_shard *s) {
    return s->entries;
}

const char *sr_shard_meta_at(const sr_shard *s, int i, const char **value) {
    *value = s->entry[i].value;
    return s->entry[i].key;
}

/* ---- blocks ---- */

static sr_status load_block(sr_shard *s, const sr_column *c, uint64_t block, unsigned char *bytes) {
    size_t size = block_bytes(c, block);
    SR_TRY(sr_file_pread(s->fd, bytes, size, c->at[block], s->path));
    if (sr_block_hash(bytes, size, c->index, block) == c->hash[block]) return SR_OK;
    return sr_fail(SR_EDATA,
                   "%s: column '%s' does not match its checksum in bytes %" PRIu64 "..%" PRIu64
                   "; the file is damaged, copy or prepare it again",
                   s->path, c->name, c->at[block], c->at[block] + size - 1);
}

/* The frame of a block, which is loaded if it is not cached.  The lock of the set is held. */
static sr_status find_frame(frame **out, sr_shard *s, frame_set *set, const sr_column *c,
                            uint64_t block) {
    frame *oldest = &set->frame[0];
    for (int i = 0; i < WAYS; i++) {
        frame *f = &set->frame[i];
        if (f->column == c->index && f->block == block) {
            *out = f;
            return SR_OK;
        }
        if (f->column < 0 ? oldest->column >= 0 : oldest->column >= 0 && f->used < oldest->used)
            oldest = f;
    }
    if (oldest->bytes == NULL) {
        void *bytes;
        SR_TRY(sr_alloc(&bytes, SR_SHARD_BLOCK, 1));
        oldest->bytes = bytes;
    }
    oldest->column = -1; /* the old block is evicted, even if loading fails */
    SR_TRY(load_block(s, c, block, oldest->bytes));
    oldest->column = c->index;
    oldest->block = block;
    *out = oldest;
    return SR_OK;
}

static sr_status read_part(sr_shard *s, const sr_column *c, void *out, uint64_t block, size_t from,
                           size_t size) {
    frame_set *set = &s->set[(block + (uint64_t)c->index * 7919) % s->sets];
    frame *f;
    pthread_mutex_lock(&set->lock);
    sr_status st = find_frame(&f, s, set, c, block);
    if (st == SR_OK) {
        memcpy(out, f->bytes + from, size);
        f->used = ++set->clock;
    }
    pthread_mutex_unlock(&set->lock);
    return st;
}

/* Reads bytes of a column that are all in this file. */
static sr_status read_own(sr_shard *s, const sr_column *c, unsigned char *to, uint64_t at,
                          uint64_t left) {
    while (left > 0) {
        size_t from = at % SR_SHARD_BLOCK, n = SR_SHARD_BLOCK - from;
        if (n > left) n = (size_t)left;
        SR_TRY(read_part(s, c, to, at / SR_SHARD_BLOCK, from, n));
        to += n;
        at += n;
        left -= n;
    }
    return SR_OK;
}

sr_status sr_shard_read(sr_shard *s, const sr_column *c, void *out, uint64_t first,
                        uint64_t count) {
    if (first > c->count || count > c->count - first)
        return sr_fail(SR_EINVAL,
                       "%s: elements %" PRIu64 " + %" PRIu64 " are outside column '%s' of %" PRIu64,
                       s->path, first, count, c->name, c->count);
    unsigned char *to = out;
    for (int i = c->index; count > 0; s = s->next) {
        const sr_column *own = &s->column[i];
        uint64_t left = first < own->own ? own->own - first : 0, n = left < count ? left : count;
        SR_TRY(read_own(s, own, to, first * own->size, n * own->size));
        first = n > 0 ? 0 : first - own->own;
        to += n * own->size;
        count -= n;
    }
    return SR_OK;
}

sr_status sr_shard_verify(sr_shard *s) {
    unsigned char *bytes;
    SR_TRY(sr_new(&bytes, SR_SHARD_BLOCK));
    sr_status st = SR_OK;
    for (; s != NULL; s = s->next)
        for (int i = 0; st == SR_OK && i < s->columns; i++)
            for (uint64_t b = 0; st == SR_OK && b < s->column[i].blocks; b++)
                st = load_block(s, &s->column[i], b, bytes);
    sr_free(bytes);
    return st;
}

/* ---- several files as one ---- */

static sr_status check_columns(const sr_shard *a, const sr_shard *b) {
    for (int i = 0; i < a->columns || i < b->columns; i++) {
        const sr_column *x = &a->column[i], *y = &b->column[i];
        if (i < a->columns && i < b->columns && strcmp(x->name, y->name) == 0 && x->type == y->type)
            continue;
        const char *name = i < a->columns ? x->name : y->name;
        return sr_fail(SR_EDATA,
                       "%s and %s differ in their columns, from '%s' on; prepare both in the same "
                       "way",
                       a->path, b->path, name);
    }
    return SR_OK;
}

sr_status sr_shard_append_file(sr_shard *s, sr_shard *next) {
    sr_shard *last = s;
    SR_TRY(check_columns(s, next));
    const char *before = sr_shard_path(s);
    size_t size = strlen(before);
    char *name;
    SR_TRY(sr_new(&name, size + strlen(next->path) + 3));
    strcat(strcat(strcpy(name, before), ", "), next->path);
    sr_free(s->name);
    s->name = name;
    for (int i = 0; i < s->columns; i++) s->column[i].count += next->column[i].count;
    while (last->next != NULL) last = last->next;
    last->next = next;
    return SR_OK;
}
