#include "core/loader/update.h"

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

static void weigh(sr_target *t, int64_t items, int64_t sequences) {
    bool token = t->mean == SR_MEAN_TOKEN;
    t->denominator = (double)(token ? items : sequences);
    for (int64_t j = 0; j < t->count; j++) {
        double over = token ? t->denominator : t->denominator * (double)t->weights[j];
        t->weights[j] = (float)(1.0 / over);
    }
}

static void weigh_all(sr_update *u, bool deferred) {
    int targets = u->batches > 0 ? u->batch[0]->targets : 0;
    for (int k = 0; k < targets; k++) {
        if (u->batch[0]->target[k].deferred != deferred) continue;
        int64_t items = u->elsewhere != NULL ? u->elsewhere[k].items : 0;
        int64_t sequences = u->elsewhere != NULL ? u->elsewhere[k].sequences : 0;
        for (int64_t i = 0; i < u->batches; i++) {
            items += u->batch[i]->target[k].count;
            sequences += u->batch[i]->target[k].sequences;
        }
        for (int64_t i = 0; i < u->batches; i++) weigh(&u->batch[i]->target[k], items, sequences);
    }
}

void sr_update_weigh(sr_update *u) {
    weigh_all(u, false);
}

sr_status sr_update_finish(sr_update *u) {
    for (int64_t i = 0; i < u->batches; i++) SR_TRY(sr_batch_find_last(u->batch[i]));
    weigh_all(u, true);
    return SR_OK;
}

void sr_update_free(sr_update *u) {
    if (u == NULL) return;
    for (int64_t i = 0; i < u->batches; i++) sr_batch_free(u->batch[i]);
    sr_free(u->elsewhere);
    sr_free(u->batch);
    sr_free(u);
}
