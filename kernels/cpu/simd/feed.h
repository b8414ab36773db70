/* feed.h - prefetches the rows of the next head little by little during the work on this one, so
 * that they have arrived when they are needed.
 */
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/lanes.h"

typedef struct feed {
    const char *at[8]; /* first rows of its matrices */
    int64_t step[8];   /* bytes between rows */
    int matrices;
    int64_t bytes, rows; /* of a row; rows left */
    int64_t each;        /* rows of a step of the work */
} feed;

INLINE void feed_from(feed *f, const sr_attention_unit *u, const float *x, int64_t ld) {
    int64_t element = u->bf16 ? 2 : 4;
    f->at[f->matrices] = (const char *)x + u->ahead * element;
    f->step[f->matrices++] = ld * element;
}

/* All rows of the next head, in as many steps.  Where queries are listed, only those of k and v. */
INLINE feed feed_of(const sr_attention_unit *u, bool backward, int64_t steps) {
    feed f = {{NULL}, {0}, 0, u->d * (u->bf16 ? 2 : 4), 0, 1};
    if (u->ahead == 0) return f;
    f.rows = u->n, f.each = (u->n + steps - 1) / steps;
    bool whole = u->position == NULL;
    if (whole) feed_from(&f, u, u->q, u->ldq);
    feed_from(&f, u, u->k, u->ld);
    feed_from(&f, u, u->v, u->ld);
    if (whole) feed_from(&f, u, u->out, u->ldo);
    if (!backward) return f;
    if (whole) feed_from(&f, u, u->dout, u->ldo);
    if (whole) feed_from(&f, u, u->dq, u->ldq);
    feed_from(&f, u, u->dk, u->ld);
    feed_from(&f, u, u->dv, u->ld);
    return f;
}

/* Prefetches the rows of some steps. */
INLINE void take(feed *f, int64_t steps) {
    enum { LINE = 64 };
    for (int64_t rows = steps * f->each; rows > 0 && f->rows > 0; rows--, f->rows--)
        for (int m = 0; m < f->matrices; m++) {
            const char *p = f->at[m];
            f->at[m] = p + f->step[m];
            for (int64_t b = 0; b < f->bytes; b += LINE) __builtin_prefetch(p + b, 0, 2);
        }
}
