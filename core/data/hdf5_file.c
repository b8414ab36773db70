#include "core/data/hdf5_file.h"

#include <string.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"

enum { BLOCKS = 64 }; /* of an object header */

sr_status sr_hdf5_damaged(const sr_hdf5 *h, const char *what) {
    return sr_fail(SR_EDATA, "%s: damaged, or not HDF5: %s", h->path, what);
}

sr_status sr_hdf5_refuse(const sr_hdf5 *h, const char *what) {
    return sr_fail(SR_EDATA, "%s: %s; rewrite it with h5repack, or with h5py's defaults", h->path,
                   what);
}

sr_status sr_hdf5_block(uint8_t **block, const sr_hdf5 *h, uint64_t at, uint64_t size) {
    uint64_t end;
    if (__builtin_add_overflow(at, h->base, &at) || __builtin_add_overflow(at, size, &end) ||
        end > h->size)
        return sr_fail(SR_EDATA,
                       "%s: truncated or damaged: something of %ju bytes is at byte %ju, but the "
                       "file has %zu",
                       h->path, (uintmax_t)size, (uintmax_t)at, h->size);
    SR_TRY(sr_grow(block, size > 0 ? size : 1));
    return sr_file_pread(h->fd, *block, (size_t)size, at, h->path);
}

sr_status sr_hdf5_node(sr_reader *r, uint8_t **block, const sr_hdf5 *h, uint64_t at, uint64_t size,
                       const char *signature) {
    const void *letters;
    if (size > SR_HDF5_META) return sr_hdf5_damaged(h, "a block of metadata is too large");
    SR_TRY(sr_hdf5_block(block, h, at, size));
    sr_reader_init(r, *block, (size_t)size, h->path);
    SR_TRY(sr_read_claim(r, &letters, 4, 1));
    if (memcmp(letters, signature, 4) == 0) return SR_OK;
    return sr_fail(SR_EDATA, "%s: damaged, or not HDF5: no '%s' at byte %ju", h->path, signature,
                   (uintmax_t)at);
}

/* ---- object headers ---- */

typedef struct header {
    const sr_hdf5 *h;
    sr_hdf5_take take;
    void *context;
    bool second;  /* version 2 */
    bool ordered; /* its messages have an order of creation */
    struct {
        uint64_t at, size;
    } block[BLOCKS];
    int blocks;
} header;

static sr_status add_block(header *o, uint64_t at, uint64_t size) {
    if (o->blocks == BLOCKS) return sr_hdf5_damaged(o->h, "an object header has too many blocks");
    o->block[o->blocks].at = at;
    o->block[o->blocks++].size = size;
    return SR_OK;
}

static sr_status take_more(header *o, sr_reader *body) {
    uint64_t at, size;
    SR_TRY(sr_read_u64(body, &at));
    SR_TRY(sr_read_u64(body, &size));
    if (!o->second) return add_block(o, at, size);
    if (size < 8) return sr_hdf5_damaged(o->h, "an object header has a block that is too small");
    return add_block(o, at + 4, size - 8); /* between its signature and its checksum */
}

/* The type, size and flags of the next message. */
static sr_status read_message(const header *o, sr_reader *r, int *type, uint16_t *size,
                              uint8_t *flags) {
    uint8_t short_type;
    uint16_t long_type, order;
    const void *unused;
    if (!o->second) {
        SR_TRY(sr_read_u16(r, &long_type));
        SR_TRY(sr_read_u16(r, size));
        SR_TRY(sr_read_u8(r, flags));
        *type = long_type;
        return sr_read_claim(r, &unused, 3, 1);
    }
    SR_TRY(sr_read_u8(r, &short_type));
    SR_TRY(sr_read_u16(r, size));
    SR_TRY(sr_read_u8(r, flags));
    *type = short_type;
    return o->ordered ? sr_read_u16(r, &order) : SR_OK;
}

static bool is_used(int type) {
    return type == SR_HDF5_SPACE || type == SR_HDF5_TYPE || type == SR_HDF5_LAYOUT ||
           type == SR_HDF5_FILTERS || type == SR_HDF5_FILL;
}

static sr_status read_block(header *o, sr_reader *r) {
    size_t least = !o->second ? 8 : o->ordered ? 6 : 4;
    while (r->size - r->at >= least) {
        int type;
        uint16_t size;
        uint8_t flags;
        const void *body;
        sr_reader inside;
        SR_TRY(read_message(o, r, &type, &size, &flags));
        SR_TRY(sr_read_claim(r, &body, size, 1));
        sr_reader_init(&inside, body, size, o->h->path);
        if (type == SR_HDF5_MORE)
            SR_TRY(take_more(o, &inside));
        else if ((flags & 2) != 0 && is_used(type))
            return sr_hdf5_refuse(o->h, "a dataset shares its type or shape with others");
        else
            SR_TRY(o->take(o->context, type, &inside));
    }
    return SR_OK;
}

/* The first block of a header of version 2, after its signature. */
static sr_status begin_second(header *o, sr_reader *r, uint64_t at) {
    uint8_t version, flags;
    const void *number, *unused;
    uint64_t size = 0;
    SR_TRY(sr_read_u8(r, &version));
    SR_TRY(sr_read_u8(r, &flags));
    if (version != 2) return sr_hdf5_damaged(o->h, "an object header has an unknown version");
    o->second = true;
    o->ordered = (flags & 4) != 0;
    SR_TRY(sr_read_claim(r, &unused, ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0),
                         1));
    size_t width = (size_t)1 << (flags & 3);
    SR_TRY(sr_read_claim(r, &number, width, 1));
    memcpy(&size, number, width);
    return add_block(o, at + r->at, size);
}

static sr_status begin_first(header *o, sr_reader *r, uint64_t at) {
    uint8_t version, unused;
    uint16_t count;
    uint32_t references, size;
    SR_TRY(sr_read_u8(r, &version));
    SR_TRY(sr_read_u8(r, &unused));
    SR_TRY(sr_read_u16(r, &count));
    SR_TRY(sr_read_u32(r, &references));
    SR_TRY(sr_read_u32(r, &size));
    if (version != 1) return sr_hdf5_damaged(o->h, "an object header has an unknown version");
    return add_block(o, at + 16, size);
}

static sr_status begin(header *o, uint8_t **block, uint64_t at) {
    sr_reader r;
    uint64_t left = o->h->size > at ? o->h->size - at : 0;
    uint64_t size = left < 34 ? left : 34; /* the longest beginning */
    SR_TRY(sr_hdf5_block(block, o->h, at, size));
    sr_reader_init(&r, *block, (size_t)size, o->h->path);
    if (size < 4 || memcmp(*block, "OHDR", 4) != 0) return begin_first(o, &r, at);
    r.at = 4;
    return begin_second(o, &r, at);
}

sr_status sr_hdf5_messages(const sr_hdf5 *h, uint64_t at, sr_hdf5_take take, void *context) {
    header o = {.h = h, .take = take, .context = context};
    uint8_t *block = NULL;
    sr_status st = begin(&o, &block, at);
    for (int i = 0; st == SR_OK && i < o.blocks; i++) {
        sr_reader r;
        if (o.block[i].size > SR_HDF5_META)
            st = sr_hdf5_damaged(h, "an object header is too large");
        if (st == SR_OK) st = sr_hdf5_block(&block, h, o.block[i].at, o.block[i].size);
        sr_reader_init(&r, block, (size_t)o.block[i].size, h->path);
        if (st == SR_OK) st = read_block(&o, &r);
    }
    sr_free(block);
    return st;
}

/* ---- the root group ---- */

static sr_status add_link(sr_hdf5 *h, const char *name, size_t size, uint64_t at) {
    if (h->links == SR_HDF5_LINKS) return sr_hdf5_damaged(h, "its root group has too many members");
    sr_hdf5_link *link = &h->link[h->links];
    SR_TRY(sr_new(&link->name, size + 1));
    memcpy(link->name, name, size);
    link->at = at;
    h->links++;
    return SR_OK;
}

/* The names of a group of the first version are in a heap. */
typedef struct table {
    sr_hdf5 *h;
    uint8_t *heap;
    uint64_t heap_size;
} table;

static sr_status read_symbols(table *t, uint64_t at) {
    sr_reader r;
    uint8_t *block = NULL;
    uint16_t versions, count = 0;
    sr_status st = sr_hdf5_node(&r, &block, t->h, at, 8, "SNOD");
    if (st == SR_OK) st = sr_read_u16(&r, &versions);
    if (st == SR_OK) st = sr_read_u16(&r, &count);
    if (st == SR_OK) st = sr_hdf5_node(&r, &block, t->h, at, 8 + 40 * (uint64_t)count, "SNOD");
    const void *unused;
    if (st == SR_OK) st = sr_read_claim(&r, &unused, 4, 1);
    for (uint16_t i = 0; st == SR_OK && i < count; i++) {
        uint64_t name, object;
        const char *text = NULL;
        if ((st = sr_read_u64(&r, &name)) == SR_OK) st = sr_read_u64(&r, &object);
        if (st == SR_OK) st = sr_read_claim(&r, &unused, 24, 1);
        if (st == SR_OK && name < t->heap_size) text = (const char *)t->heap + name;
        size_t size = text != NULL ? strnlen(text, (size_t)(t->heap_size - name)) : 0;
        if (st == SR_OK && (text == NULL || name + size == t->heap_size))
            st = sr_hdf5_damaged(t->h, "a name is outside its heap");
        if (st == SR_OK) st = add_link(t->h, text, size, object);
    }
    sr_free(block);
    return st;
}

static sr_status read_tree(table *t, uint64_t at, int depth) {
    sr_reader r;
    uint8_t *block = NULL, type, level = 0;
    uint16_t entries = 0;
    const void *unused;
    if (depth > SR_HDF5_DEPTH || t->h->nodes++ > SR_HDF5_LINKS)
        return sr_hdf5_damaged(t->h, "the tree of a group is too deep");
    sr_status st = sr_hdf5_node(&r, &block, t->h, at, 24, "TREE");
    if (st == SR_OK) st = sr_read_u8(&r, &type);
    if (st == SR_OK) st = sr_read_u8(&r, &level);
    if (st == SR_OK) st = sr_read_u16(&r, &entries);
    if (st == SR_OK) st = sr_hdf5_node(&r, &block, t->h, at, 24 + 16 * (uint64_t)entries, "TREE");
    if (st == SR_OK) st = sr_read_claim(&r, &unused, 20, 1);
    for (uint16_t i = 0; st == SR_OK && i < entries; i++) {
        uint64_t key, child;
        if ((st = sr_read_u64(&r, &key)) == SR_OK) st = sr_read_u64(&r, &child);
        if (st == SR_OK) st = level > 0 ? read_tree(t, child, depth + 1) : read_symbols(t, child);
    }
    sr_free(block);
    return st;
}

static sr_status read_table(sr_hdf5 *h, sr_reader *body) {
    uint64_t tree, heap, head, data = 0;
    const void *unused;
    uint8_t *block = NULL;
    table t = {.h = h};
    sr_reader r;
    SR_TRY(sr_read_u64(body, &tree));
    SR_TRY(sr_read_u64(body, &heap));
    sr_status st = sr_hdf5_node(&r, &block, h, heap, 32, "HEAP");
    if (st == SR_OK) st = sr_read_claim(&r, &unused, 4, 1);
    if (st == SR_OK) st = sr_read_u64(&r, &t.heap_size);
    if (st == SR_OK) st = sr_read_u64(&r, &head);
    if (st == SR_OK) st = sr_read_u64(&r, &data);
    if (st == SR_OK && t.heap_size > SR_HDF5_META)
        st = sr_hdf5_damaged(h, "a heap of names is too large");
    if (st == SR_OK) st = sr_hdf5_block(&t.heap, h, data, t.heap_size);
    if (st == SR_OK) st = read_tree(&t, tree, 0);
    sr_free(t.heap);
    sr_free(block);
    return st;
}

/* A link of a group of the second version. */
static sr_status read_link(sr_hdf5 *h, sr_reader *body) {
    uint8_t version, flags, kind = 0, set;
    uint64_t order, size = 0, at;
    const void *number, *name;
    SR_TRY(sr_read_u8(body, &version));
    SR_TRY(sr_read_u8(body, &flags));
    if ((flags & 8) != 0) SR_TRY(sr_read_u8(body, &kind));
    if ((flags & 4) != 0) SR_TRY(sr_read_u64(body, &order));
    if ((flags & 16) != 0) SR_TRY(sr_read_u8(body, &set));
    SR_TRY(sr_read_claim(body, &number, (uint64_t)1 << (flags & 3), 1));
    memcpy(&size, number, (size_t)1 << (flags & 3));
    SR_TRY(sr_read_claim(body, &name, size, 1));
    if (kind != 0) return SR_OK; /* a soft link */
    SR_TRY(sr_read_u64(body, &at));
    return add_link(h, name, (size_t)size, at);
}

static sr_status read_link_info(sr_hdf5 *h, sr_reader *body) {
    uint8_t version, flags;
    uint64_t order, heap;
    SR_TRY(sr_read_u8(body, &version));
    SR_TRY(sr_read_u8(body, &flags));
    if ((flags & 1) != 0) SR_TRY(sr_read_u64(body, &order));
    SR_TRY(sr_read_u64(body, &heap));
    if (heap == SR_HDF5_NOWHERE) return SR_OK;
    return sr_hdf5_refuse(h, "its root group has so many members that they are in an index");
}

static sr_status take_root(void *context, int type, sr_reader *body) {
    sr_hdf5 *h = context;
    if (type == SR_HDF5_TABLE) return read_table(h, body);
    if (type == SR_HDF5_LINK) return read_link(h, body);
    return type == SR_HDF5_LINK_INFO ? read_link_info(h, body) : SR_OK;
}

/* ---- the file ---- */

static sr_status check_sizes(const sr_hdf5 *h, const uint8_t *sizes) {
    if (sizes[0] == 8 && sizes[1] == 8) return SR_OK;
    return sr_hdf5_refuse(h, "its addresses do not have 8 bytes");
}

/* The root group's object header. */
static sr_status read_super(uint64_t *root, sr_hdf5 *h) {
    static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};
    uint8_t *block = NULL;
    *root = 0;
    sr_status st =
        h->size < 96 ? sr_hdf5_damaged(h, "it is too short") : sr_hdf5_block(&block, h, 0, 96);
    if (st == SR_OK && memcmp(block, signature, 8) != 0)
        st = sr_hdf5_damaged(h, "it does not begin as one");
    uint8_t version = st == SR_OK ? block[8] : 0;
    if (st == SR_OK && version > 3) st = sr_hdf5_refuse(h, "it is of a later version of HDF5");
    if (st == SR_OK && version < 2) {
        size_t more = version == 1 ? 4 : 0;
        st = check_sizes(h, block + 13);
        memcpy(&h->base, block + 24 + more, 8);
        memcpy(root, block + 64 + more, 8);
    } else if (st == SR_OK) {
        st = check_sizes(h, block + 9);
        memcpy(&h->base, block + 12, 8);
        memcpy(root, block + 36, 8);
    }
    sr_free(block);
    return st;
}

sr_status sr_hdf5_open(sr_hdf5 **out, const char *path) {
    *out = NULL;
    sr_hdf5 *h;
    uint64_t root = 0;
    SR_TRY(sr_new(&h, 1));
    h->fd = -1;
    sr_status st = sr_strdup(&h->path, path);
    if (st == SR_OK) st = sr_file_open(&h->fd, &h->size, path, SIZE_MAX);
    if (st == SR_OK) st = read_super(&root, h);
    if (st == SR_OK) st = sr_hdf5_messages(h, root, take_root, h);
    if (st != SR_OK) {
        sr_hdf5_close(h);
        return st;
    }
    *out = h;
    return SR_OK;
}

void sr_hdf5_close(sr_hdf5 *h) {
    if (h == NULL) return;
    if (h->fd >= 0) sr_io_now.close(h->fd);
    for (int i = 0; i < h->links; i++) sr_free(h->link[i].name);
    sr_free(h->path);
    sr_free(h);
}

const char *sr_hdf5_name(const sr_hdf5 *h, int i) {
    return i < h->links ? h->link[i].name : NULL;
}
