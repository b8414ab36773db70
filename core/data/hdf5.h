/* hdf5.h - integer datasets of HDF5 files, read row by row, without libhdf5.
 *
 * Reads what h5py and the HDF5 library write by default: datasets of fixed integers with one or two
 * dimensions in the root group, contiguous, compact or in chunks that are plain or compressed by
 * gzip, with shuffle and Fletcher's checksum.  Everything else is refused by its name.  Nothing in
 * a file is trusted; memory is bounded by the size of a row of chunks.
 *
 * Source: the HDF5 File Format Specification, version 3.0.
 */
#ifndef SR_DATA_HDF5_H
#define SR_DATA_HDF5_H

#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_hdf5 sr_hdf5;

/* Errors: SR_ENOENT, SR_EIO, SR_ENOMEM; SR_EDATA: not HDF5, damaged, or not supported. */
sr_status sr_hdf5_open(sr_hdf5 **out, const char *path);
void sr_hdf5_close(sr_hdf5 *h); /* may be NULL */

/* The names of what the root group has; NULL after the last. */
const char *sr_hdf5_name(const sr_hdf5 *h, int i);

typedef struct sr_hdf5_set sr_hdf5_set;

/* Opens a dataset, which is closed before its file.  *out is NULL if there is none of this name. */
sr_status sr_hdf5_set_open(sr_hdf5_set **out, sr_hdf5 *h, const char *name);
void sr_hdf5_set_close(sr_hdf5_set *s); /* may be NULL */

uint64_t sr_hdf5_rows(const sr_hdf5_set *s);
uint64_t sr_hdf5_columns(const sr_hdf5_set *s); /* 1 where there is one dimension */

/* The numbers of a row, valid until the next call for this dataset; rows in order are fast. */
sr_status sr_hdf5_row(const int64_t **out, sr_hdf5_set *s, uint64_t row);

#ifdef __cplusplus
}
#endif
#endif
