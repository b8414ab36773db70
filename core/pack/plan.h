/* plan.h - which lengths share a pack, and how often: the result of a solver.
 *
 * A plan is a list of patterns.  A pattern is a small multiset of lengths that fits one pack, with
 * a number of packs.  A plan names no sequences, so it is valid for any order of the examples and
 * every epoch: instances.h assigns the sequences.
 *
 * A plan has a certificate of quality: the strongest known lower bound on the packs for these
 * lengths, its kind, and the gap to it.
 *
 * Some solvers (nnlshp) round to whole packs and leave slots without sequences, which are padding.
 * All others cover each length exactly.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/pack/histogram.h"

SR_BEGIN_C

/* `copies` slots of `length` tokens in a pattern. */
typedef struct sr_plan_part {
    uint16_t length, copies;
} sr_plan_part;

typedef struct sr_plan_pattern {
    int64_t count;  /* number of packs, at least 1 */
    uint32_t first; /* its parts: part[first .. first + parts), lengths descending */
    uint32_t parts;
} sr_plan_pattern;

typedef enum sr_bound_kind {
    SR_BOUND_TOKENS, /* tokens / capacity */
    SR_BOUND_COUNT,  /* number of sequences: sr_bound_count() */
    SR_BOUND_L2,     /* Martello and Toth: long sequences cannot share */
    SR_BOUND_LP      /* linear program of Gilmore and Gomory, checked in integers */
} sr_bound_kind;

typedef struct sr_bound {
    int64_t packs;
    sr_bound_kind kind;
} sr_bound;

typedef struct sr_plan {
    char solver[32];
    int32_t capacity; /* tokens per pack */
    int32_t max_seqs; /* maximum sequences per pack; 0: no limit */
    sr_histogram histogram;
    sr_plan_pattern *pattern;
    sr_plan_part *part;
    size_t strategies, parts; /* patterns, all different; all their parts */
    int64_t packs;            /* sum of pattern[].count */
    int64_t unfilled;         /* slots without a sequence */
    int32_t deepest;          /* largest number of slots of a pattern */
    sr_bound bound;
    double milliseconds; /* the solver's time */
    int32_t shared;      /* owners after the first */
} sr_plan;

sr_plan *sr_plan_retain(sr_plan *plan); /* one more owner; nobody changes the plan from then on */
void sr_plan_free(sr_plan *plan);       /* may be NULL; the last owner frees it */

double sr_plan_efficiency(const sr_plan *plan); /* tokens / (packs * capacity); 1 when empty */
double sr_plan_factor(const sr_plan *plan);     /* sequences / packs; 1 when empty */
int64_t sr_plan_padding(const sr_plan *plan);   /* packs * capacity - tokens */
int64_t sr_plan_gap(const sr_plan *plan);       /* packs - bound */
const char *sr_bound_name(sr_bound_kind kind);  /* "tokens", "count", "l2", "lp" */

/* Sets packs, unfilled and deepest from the patterns; slots in excess of the histogram are
 * unfilled. Sums wrap on overflow, which sr_plan_check() detects. */
void sr_plan_sum(sr_plan *plan);

/* Checks all invariants of a plan: capacity, depth, cover of the histogram, sums, bound <= packs.
 * SR_EDATA names the first violation. */
sr_status sr_plan_check(const sr_plan *plan);

/* Writes and parses the versioned text form, which ends in a checksum.  *text is freed by
 * sr_free(). Parse errors are SR_EDATA and name the line. */
sr_status sr_plan_print(char **text, size_t *size, const sr_plan *plan);
sr_status sr_plan_parse(sr_plan **out, const void *bytes, size_t size, const char *name);

sr_status sr_plan_save(const sr_plan *plan, const char *path); /* atomic */
sr_status sr_plan_load(sr_plan **out, const char *path);

SR_END_C
