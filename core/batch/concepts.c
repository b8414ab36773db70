#include "core/batch/concepts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/batch/mask.h"

/* ---- the table ---- */

static int by_tokens(const void *a, const void *b) {
    const sr_form *x = a, *y = b;
    int32_t n = x->len < y->len ? x->len : y->len;
    for (int32_t i = 0; i < n; i++)
        if (x->ids[i] != y->ids[i]) return x->ids[i] < y->ids[i] ? -1 : 1;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static sr_status check(const int32_t *ids, const int32_t *len, const int32_t *stage, int64_t n,
                       int32_t vocabulary) {
    for (int64_t i = 0; i < n; i++) {
        if (len[i] < 1 || stage[i] < 1 || stage[i] > SR_CONCEPT_STAGES)
            return sr_fail(SR_EINVAL,
                           "concepts: form %" PRId64 " has %d tokens and stage %d; a form has at "
                           "least one token, and stages are 1..%d",
                           i + 1, len[i], stage[i], SR_CONCEPT_STAGES);
        for (int32_t k = 0; k < len[i]; k++, ids++)
            if (*ids < 0 || *ids >= vocabulary)
                return sr_fail(SR_EINVAL,
                               "concepts: form %" PRId64 " has the id %d, outside the vocabulary "
                               "of %d",
                               i + 1, *ids, vocabulary);
    }
    return SR_OK;
}

static int64_t sum_of(const int32_t *len, int64_t n) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += len[i];
    return sum;
}

enum { BEGINS = 1, ENDS = 2 }; /* with punctuation */

static bool is_mark(char c) {
    return c > ' ' && c < 127 && !(c >= '0' && c <= '9') && !((c | 32) >= 'a' && (c | 32) <= 'z');
}

static void find_marks(uint8_t *marks, const sr_tokenizer *t, int32_t vocabulary) {
    for (int32_t id = 0; id < vocabulary; id++) {
        size_t n = 0;
        const char *token = sr_tokenizer_token(t, id, &n);
        if (token == NULL || n == 0) continue;
        marks[id] =
            (uint8_t)((is_mark(token[0]) ? BEGINS : 0) | (is_mark(token[n - 1]) ? ENDS : 0));
    }
}

static void fill(sr_concepts *c, const int32_t *len, const int32_t *stage) {
    const int32_t *ids = c->ids;
    for (int64_t i = 0; i < c->count; ids += len[i++])
        c->form[i] = (sr_form){.ids = ids, .len = len[i], .stage = stage[i], .number = i};
    if (c->count > 0) qsort(c->form, (size_t)c->count, sizeof *c->form, by_tokens);
    int64_t at = 0;
    for (int32_t id = 0; id <= c->vocabulary; id++) {
        while (at < c->count && c->form[at].ids[0] < id) at++;
        c->first[id] = at;
    }
}

sr_status sr_concepts_new(sr_concepts **out, const int32_t *ids, const int32_t *len,
                          const int32_t *stage, int64_t n, const sr_tokenizer *t,
                          int32_t vocabulary) {
    *out = NULL;
    if (t != NULL) vocabulary = sr_tokenizer_size(t);
    SR_TRY(check(ids, len, stage, n, vocabulary));
    int64_t tokens = sum_of(len, n);
    sr_concepts *c;
    SR_TRY(sr_new(&c, 1));
    c->vocabulary = vocabulary;
    c->count = n;
    sr_status st;
    SR_GO(failed, st, sr_new(&c->ids, tokens));
    SR_GO(failed, st, sr_new(&c->form, n));
    SR_GO(failed, st, sr_new(&c->first, (int64_t)vocabulary + 1));
    SR_GO(failed, st, sr_new(&c->marks, vocabulary));
    if (t != NULL) find_marks(c->marks, t, vocabulary);
    if (tokens > 0) memcpy(c->ids, ids, (size_t)tokens * sizeof *ids);
    fill(c, len, stage);
    *out = c;
    return SR_OK;
failed:
    sr_concepts_free(c);
    return st;
}

void sr_concepts_free(sr_concepts *c) {
    if (c == NULL) return;
    sr_free(c->ids);
    sr_free(c->form);
    sr_free(c->first);
    sr_free(c->marks);
    sr_free(c);
}

/* ---- matching ---- */

/* Forms first .. last - 1, which have their first tokens in common. */
typedef struct range {
    int64_t first, last;
} range;

/* The first form of a range whose token `depth` is at least `id`. */
static int64_t lower(const sr_concepts *c, range r, int32_t depth, int64_t id) {
    while (r.first < r.last) {
        int64_t middle = r.first + (r.last - r.first) / 2;
        const sr_form *f = &c->form[middle];
        int64_t own = depth < f->len ? f->ids[depth] : -1;
        if (own < id)
            r.first = middle + 1;
        else
            r.last = middle;
    }
    return r.first;
}

static range narrow(const sr_concepts *c, range r, int32_t depth, int32_t id) {
    if (depth == 0) return (range){c->first[id], c->first[id + 1]};
    return (range){lower(c, r, depth, id), lower(c, r, depth, (int64_t)id + 1)};
}

/* Whether a word ends before token i. */
static bool is_cut(const sr_concepts *c, const sr_wording *w, int32_t i) {
    if (i >= w->len || !sr_goes_on(w, i)) return true;
    if (i == 0 || w->goes_on == NULL) return false; /* ## is not punctuation */
    return (c->marks[w->ids[i]] & BEGINS) != 0 || (c->marks[w->ids[i - 1]] & ENDS) != 0;
}

int32_t sr_concepts_at(int64_t *form, const sr_concepts *c, const sr_wording *w, int32_t i,
                       int32_t stage) {
    int32_t best = 0;
    if (!is_cut(c, w, i)) return 0;
    range r = {0, c->count};
    for (int32_t depth = 0; i + depth < w->len; depth++) {
        r = narrow(c, r, depth, w->ids[i + depth]);
        if (r.first == r.last) break;
        const sr_form *f = &c->form[r.first]; /* the shortest, and of equal ones the earliest */
        int32_t end = i + depth + 1;
        if (f->len != depth + 1 || f->stage > stage || !is_cut(c, w, end)) continue;
        best = f->len;
        if (form != NULL) *form = f->number;
    }
    return best;
}

/* ---- counting ---- */

typedef struct scan {
    const sr_concepts *c;
    const sr_dataset *d;
    const sr_masker *m; /* knows which ids continue a word */
    int32_t *ids;
    uint8_t *goes_on;
    uint64_t room;
} scan;

static sr_status count_unit(int64_t *times, scan *s, uint64_t first, uint64_t n) {
    if (n > INT32_MAX) return sr_fail(SR_EINVAL, "concepts: a document has 2^31 tokens or more");
    if (n > s->room) {
        s->room = n * 2;
        SR_TRY(sr_grow(&s->ids, s->room));
        SR_TRY(sr_grow(&s->goes_on, s->room));
    }
    SR_TRY(sr_dataset_ids(s->d, s->ids, first, n));
    if (s->m->by_place) SR_TRY(sr_dataset_goes_on(s->d, s->goes_on, first, n));
    sr_wording w = {s->ids, s->m->by_place ? s->goes_on : NULL, s->m->continues, (int32_t)n};
    for (int32_t i = 0; i < w.len;) {
        int64_t form;
        int32_t len = sr_concepts_at(&form, s->c, &w, i, SR_CONCEPT_STAGES);
        if (len > 0) times[form]++;
        i += len > 0 ? len : 1;
    }
    return SR_OK;
}

static sr_status count_part(int64_t *times, scan *s, const sr_portion *p) {
    for (int64_t i = 0; i < p->count; i++) {
        uint64_t first = s->d->unit_token[p->unit[i]];
        SR_TRY(count_unit(times, s, first, s->d->unit_token[p->unit[i] + 1] - first));
    }
    return SR_OK;
}

static sr_status check_words(const sr_masker *m) {
    if (m->by_place || m->continues != NULL) return SR_OK;
    return sr_fail(SR_EINVAL, "concepts: neither the ids nor the data set tell which tokens "
                              "continue a word; prepare it again from text");
}

sr_status sr_concepts_count(int64_t *times, const sr_concepts *c, const sr_dataset *d,
                            sr_data_part part) {
    sr_masker m = {0};
    scan s = {.c = c, .d = d, .m = &m};
    sr_status st;
    SR_GO(done, st, sr_masker_open(&m, d));
    SR_GO(done, st, check_words(&m));
    st = count_part(times, &s, &d->part[part]);
done:
    sr_masker_close(&m);
    sr_free(s.ids);
    sr_free(s.goes_on);
    return st;
}

/* ---- how a loader masks them ---- */

sr_status sr_concept_masks_check(const sr_concept_masks *m, int32_t vocabulary) {
    if (m->table == NULL) return SR_OK;
    if (!(m->share >= 0 && m->share <= 1))
        return sr_fail(SR_EINVAL,
                       "mask: concepts: share is %g; it is a fraction of the masked "
                       "tokens",
                       m->share);
    if (m->table->vocabulary != vocabulary)
        return sr_fail(SR_EINVAL,
                       "mask: concepts are of a vocabulary of %d tokens, the data of one of %d",
                       m->table->vocabulary, vocabulary);
    for (int32_t i = 0; i < m->stages; i++)
        if (m->from[i] < 0 || (i > 0 && m->from[i] <= m->from[i - 1]))
            return sr_fail(SR_EINVAL,
                           "mask: concepts: stages must begin one after the other; stage %d begins "
                           "with update %" PRId64,
                           i + 1, m->from[i]);
    return SR_OK;
}

int32_t sr_concept_masks_at(const sr_concept_masks *m, int64_t update) {
    int32_t stage = 0;
    while (stage < m->stages && m->from[stage] <= update) stage++;
    return stage;
}

sr_status sr_concept_masks_copy(sr_concept_masks *out, const sr_concept_masks *m) {
    sr_concept_masks copy = *m;
    *out = (sr_concept_masks){0};
    if (m->table == NULL) return SR_OK;
    SR_TRY(sr_new(&copy.from, m->stages));
    if (m->stages > 0) memcpy(copy.from, m->from, (size_t)m->stages * sizeof *copy.from);
    *out = copy;
    return SR_OK;
}

void sr_concept_masks_free(sr_concept_masks *m) {
    if (m->table != NULL) sr_free(m->from);
    *m = (sr_concept_masks){0};
}
