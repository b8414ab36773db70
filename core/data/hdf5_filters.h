/* hdf5_filters.h - undoes what a chunk of an HDF5 dataset was put through.  Internal to core/data.
 */
#ifndef SR_DATA_HDF5_FILTERS_H
#define SR_DATA_HDF5_FILTERS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_HDF5_DEFLATE = 1, SR_HDF5_SHUFFLE = 2, SR_HDF5_FLETCHER = 3, SR_HDF5_CHAIN = 8 };

typedef struct sr_hdf5_filters {
    int kind[SR_HDF5_CHAIN], count; /* in the order in which a writer applies them */
    size_t width;                   /* bytes of a number */
} sr_hdf5_filters;

/* Turns `size` bytes of a chunk as stored, *bytes, into the `wanted` bytes of its numbers.
 *
 *   bytes     replaced where a filter needs other room; freed by sr_free(), also on failure
 *   skipped   a bit for each filter that was not applied to this chunk
 *   problem   with SR_EDATA: what is wrong with the chunk
 *
 * Errors: SR_EDATA, SR_ENOMEM.
 */
sr_status sr_hdf5_unfilter(uint8_t **bytes, size_t size, size_t wanted, const sr_hdf5_filters *f,
                           uint32_t skipped, const char **problem);

#ifdef __cplusplus
}
#endif
#endif
