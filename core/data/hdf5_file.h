/* hdf5_file.h - blocks, object headers and groups of an HDF5 file.  Internal to core/data. */
#ifndef SR_DATA_HDF5_FILE_H
#define SR_DATA_HDF5_FILE_H

#include <stdbool.h>

#include "core/base/reader.h"
#include "core/data/hdf5.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SR_HDF5_LINKS = 256,     /* of the root group, at most */
    SR_HDF5_META = 1 << 20,  /* bytes of a block of metadata */
    SR_HDF5_DEPTH = 16,      /* of trees */
    SR_HDF5_CHUNK = 64 << 20 /* bytes of a chunk, as stored */
};

#define SR_HDF5_NOWHERE UINT64_MAX /* the address of what is not there */

typedef struct sr_hdf5_link {
    char *name;
    uint64_t at; /* of its object header */
} sr_hdf5_link;

struct sr_hdf5 {
    int fd;
    size_t size;
    char *path;
    uint64_t base; /* what addresses count from */
    sr_hdf5_link link[SR_HDF5_LINKS];
    int links;
    int nodes; /* of trees of groups that were read */
};

/* SR_EDATA: "FILE: damaged, or not HDF5: WHAT"; "FILE: WHAT". */
sr_status sr_hdf5_damaged(const sr_hdf5 *h, const char *what);
sr_status sr_hdf5_refuse(const sr_hdf5 *h, const char *what);

/* Reads `size` bytes at an address into *block, which grows to them: freed by sr_free(). */
sr_status sr_hdf5_block(uint8_t **block, const sr_hdf5 *h, uint64_t at, uint64_t size);

/* Opens a reader on such a block, after its signature of four letters. */
sr_status sr_hdf5_node(sr_reader *r, uint8_t **block, const sr_hdf5 *h, uint64_t at, uint64_t size,
                       const char *signature);

enum {
    SR_HDF5_SPACE = 0x01,
    SR_HDF5_LINK_INFO = 0x02,
    SR_HDF5_TYPE = 0x03,
    SR_HDF5_FILL = 0x05,
    SR_HDF5_LINK = 0x06,
    SR_HDF5_LAYOUT = 0x08,
    SR_HDF5_FILTERS = 0x0B,
    SR_HDF5_MORE = 0x10,
    SR_HDF5_TABLE = 0x11
};

/* Takes a message of an object header; `body` is its contents. */
typedef sr_status (*sr_hdf5_take)(void *context, int type, sr_reader *body);

/* Goes through the messages of an object header. */
sr_status sr_hdf5_messages(const sr_hdf5 *h, uint64_t at, sr_hdf5_take take, void *context);

#ifdef __cplusplus
}
#endif
#endif
