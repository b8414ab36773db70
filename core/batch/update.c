#include "core/batch/update.h"

#include <string.h>

#include "core/base/mem.h"

sr_status sr_update_add(sr_update *u, sr_batch *b) {
    int64_t n = u->batches;
    if ((n & (n - 1)) == 0) { /* room is 0 or the power of two that is full */
        sr_status st = sr_grow(&u->batch, n == 0 ? 1 : n * 2);
        if (st != SR_OK) {
            sr_batch_free(b);
            return st;
        }
    }
    u->batch[u->batches++] = b;
    u->sequences += b->sequences;
    u->tokens += b->tokens;
    u->slots += b->slots;
    u->masked += b->masked;
    return SR_OK;
}

void sr_update_weigh(sr_update *u, sr_mean mean) {
    double sequences = (double)u->sequences, masked = (double)u->masked;
    for (int64_t i = 0; i < u->batches; i++) {
        for (int k = 0; k < u->batch[i]->targets; k++) {
            sr_target *t = &u->batch[i]->target[k];
            bool mlm = strcmp(t->name, "mlm") == 0;
            for (int64_t j = 0; j < t->count; j++) {
                double over = !mlm                    ? sequences
                              : mean == SR_MEAN_TOKEN ? masked
                                                      : sequences * (double)t->weights[j];
                t->weights[j] = (float)(1.0 / over);
            }
        }
    }
}

void sr_update_free(sr_update *u) {
    if (u == NULL) return;
    for (int64_t i = 0; i < u->batches; i++) sr_batch_free(u->batch[i]);
    sr_free(u->batch);
    sr_free(u);
}
