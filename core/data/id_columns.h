/* id_columns.h - columns of token ids that come from other programs' files.  Internal to core/data.
 */
#ifndef SR_DATA_ID_COLUMNS_H
#define SR_DATA_ID_COLUMNS_H

#include <stdbool.h>

#include "core/data/shard.h"
#include "core/tokenizer/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The column `ids` of a file that is being written. */
typedef struct sr_id_column {
    sr_shard_writer *writer;
    int column;
    bool narrow;  /* 16 bits */
    int32_t size; /* of the vocabulary */
} sr_id_column;

sr_status sr_id_column_add(sr_id_column *c, sr_shard_writer *w, const sr_tokenizer *t);

/* Appends ids, which must be below the size of the vocabulary: else SR_EDATA, with the file and
 * what `unit` number `number` of it is. */
sr_status sr_id_column_append(const sr_id_column *c, const int64_t *ids, size_t count,
                              const char *path, const char *unit, uint64_t number);

#ifdef __cplusplus
}
#endif
#endif
