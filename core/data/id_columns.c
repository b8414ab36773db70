#include <inttypes.h>
#include <stdbool.h>

#include "core/data/id_columns.h"

enum { TOGETHER = 4096 };

sr_status sr_id_column_add(sr_id_column *c, sr_shard_writer *w, const sr_tokenizer *t) {
    *c = (sr_id_column){.writer = w, .size = sr_tokenizer_size(t)};
    c->narrow = c->size <= 65536;
    return sr_shard_add_column(w, &c->column, "ids", c->narrow ? SR_COLUMN_U16 : SR_COLUMN_U32);
}

static sr_status outside(const sr_id_column *c, int64_t id, const char *path, const char *unit,
                         uint64_t number) {
    return sr_fail(SR_EDATA,
                   "%s: %s %" PRIu64 " has the id %" PRId64
                   ", but the vocabulary has %d tokens; give the vocabulary that the file was made "
                   "with",
                   path, unit, number, id, c->size);
}

sr_status sr_id_column_append(const sr_id_column *c, const int64_t *ids, size_t count,
                              const char *path, const char *unit, uint64_t number) {
    uint16_t narrow[TOGETHER];
    uint32_t wide[TOGETHER];
    for (size_t at = 0; at < count;) {
        size_t n = count - at < TOGETHER ? count - at : TOGETHER;
        for (size_t i = 0; i < n; i++) {
            int64_t id = ids[at + i];
            if (id < 0 || id >= c->size) return outside(c, id, path, unit, number);
            narrow[i] = (uint16_t)id;
            wide[i] = (uint32_t)id;
        }
        const void *from = c->narrow ? (const void *)narrow : (const void *)wide;
        SR_TRY(sr_shard_append(c->writer, c->column, from, n));
        at += n;
    }
    return SR_OK;
}
