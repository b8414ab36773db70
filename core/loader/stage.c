#include "core/loader/stage.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"

static bool ends(const sr_counters *c) {
    return c->updates > 0 || c->sequences > 0 || c->raw_tokens > 0 || c->real_tokens > 0;
}

static bool reached(const sr_counters *until, const sr_counters *drawn) {
    return (until->updates > 0 && drawn->updates >= until->updates) ||
           (until->sequences > 0 && drawn->sequences >= until->sequences) ||
           (until->raw_tokens > 0 && drawn->raw_tokens >= until->raw_tokens) ||
           (until->real_tokens > 0 && drawn->real_tokens >= until->real_tokens);
}

static sr_status check_uids(const sr_stage *s, int number, const sr_dataset *d) {
    if (s->uid == NULL) return SR_OK;
    if (d->kind == SR_DATA_TEXT)
        return sr_fail(SR_EINVAL,
                       "loader: stage %d: text has new examples every epoch; uids select among "
                       "fixed examples only",
                       number);
    if (s->uids == 0)
        return sr_fail(SR_EINVAL, "loader: stage %d: no uids are left; check its uids (or filter)",
                       number);
    for (int64_t i = 1; i < s->uids; i++)
        if (s->uid[i] <= s->uid[i - 1])
            return sr_fail(SR_EINVAL,
                           "loader: stage %d: uids must be ascending; %" PRIu32 " follows %" PRIu32,
                           number, s->uid[i], s->uid[i - 1]);
    return SR_OK;
}

static sr_status check_prob(const sr_stage *s, int number, const sr_dataset *d) {
    if (!s->text) return SR_OK;
    if (d->kind != SR_DATA_TEXT)
        return sr_fail(
            SR_EINVAL,
            "loader: stage %d: short_seq_prob applies to text, and the data set has fixed "
            "examples",
            number);
    if (s->short_seq_prob >= 0 && s->short_seq_prob <= 1) return SR_OK;
    return sr_fail(SR_EINVAL, "loader: stage %d: short_seq_prob is %g; must be 0..1", number,
                   s->short_seq_prob);
}

static sr_status check(const sr_stage *s, int number, bool last, const sr_dataset *d,
                       const sr_examples_opts *o) {
    if (last == ends(&s->until))
        return sr_fail(SR_EINVAL,
                       last ? "loader: stage %d is the last and must not end"
                            : "loader: stage %d has no end; set updates, sequences or tokens",
                       number);
    int32_t least = sr_examples_least(d);
    if (s->max_len != 0 && (s->max_len < least || s->max_len > o->max_len))
        return sr_fail(SR_EINVAL, "loader: stage %d: max_len is %d; must be %d..%d", number,
                       s->max_len, least, o->max_len);
    if (s->shortest < 0 || s->longest < 0 || (s->longest > 0 && s->shortest > s->longest))
        return sr_fail(SR_EINVAL, "loader: stage %d: no sequence has %d to %d tokens", number,
                       s->shortest, s->longest);
    SR_TRY(check_prob(s, number, d));
    return check_uids(s, number, d);
}

sr_status sr_stages_check(const sr_stage *stage, int stages, const sr_dataset *d,
                          const sr_examples_opts *opts) {
    for (int i = 0; i < stages; i++) SR_TRY(check(&stage[i], i + 1, i == stages - 1, d, opts));
    return SR_OK;
}

int sr_stage_due(const sr_stage *stage, int stages, const sr_counters *drawn) {
    int i = 0;
    while (i < stages - 1 && reached(&stage[i].until, drawn)) i++;
    return i;
}

bool sr_stage_same_set(const sr_stage *a, const sr_stage *b) {
    return a->shortest == b->shortest && a->longest == b->longest && a->text == b->text &&
           (!a->text || a->short_seq_prob == b->short_seq_prob) &&
           (a->uid == NULL) == (b->uid == NULL) && a->uids == b->uids &&
           (a->uid == NULL || memcmp(a->uid, b->uid, (size_t)a->uids * sizeof *a->uid) == 0);
}

sr_status sr_stages_copy(sr_stage **out, const sr_stage *stage, int stages) {
    *out = NULL;
    sr_stage *copy;
    SR_TRY(sr_new(&copy, stages));
    sr_status st = SR_OK;
    for (int i = 0; st == SR_OK && i < stages; i++) {
        copy[i] = stage[i];
        copy[i].uid = NULL;
        if (stage[i].uid == NULL) continue;
        uint32_t *uid;
        st = sr_new(&uid, stage[i].uids + 1);
        if (st == SR_OK && stage[i].uids > 0)
            memcpy(uid, stage[i].uid, (size_t)stage[i].uids * sizeof *uid);
        copy[i].uid = uid;
    }
    if (st != SR_OK) {
        sr_stages_free(copy, stages);
        return st;
    }
    *out = copy;
    return SR_OK;
}

void sr_stages_free(sr_stage *stage, int stages) {
    for (int i = 0; stage != NULL && i < stages; i++) sr_free((void *)stage[i].uid);
    sr_free(stage);
}
