/* index_format.h - definitions shared by the reader and the writer of index.h.  Internal to
 * core/data.
 */
#ifndef SR_DATA_INDEX_FORMAT_H
#define SR_DATA_INDEX_FORMAT_H

#include "core/data/index.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SR_INDEX_HEADER = 9 + 8 + 1 + 8 + 8,
    SR_INDEX_ROW = 4 + 8, /* bytes of a row in NAME.idx */
    SR_INDEX_SPAN = 512   /* values that are converted at once */
};

static const char sr_index_magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};

static inline size_t sr_index_width(sr_index_type type) {
    static const unsigned char width[SR_INDEX_TYPES] = {0, 1, 1, 2, 4, 8, 2, 4, 8};
    return width[type];
}

/* NAME + ending, freed by sr_free(). */
sr_status sr_index_path(char **out, const char *name, const char *ending);

#ifdef __cplusplus
}
#endif
#endif
