/* condition.h - whether a record of JSON is wanted: lang == 'en' and score > 0.5, as a tree.
 *
 * Lua parses conditions (lua/seqrun/base/condition.lua says what they mean); this file evaluates
 * them where Lua may not run.  A comparison with null is true for != only; a name that a record
 * lacks is an error, unless the name is alone, which tests whether the record has it.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef enum sr_condition_kind {
    SR_WHERE_AND,     /* left, right */
    SR_WHERE_OR,      /* left, right */
    SR_WHERE_NOT,     /* left */
    SR_WHERE_HAS,     /* name: neither absent nor null nor false */
    SR_WHERE_COMPARE, /* name, compare, text, number */
} sr_condition_kind;

/* How a value is compared. */
typedef enum sr_compare {
    SR_EQUAL,
    SR_UNEQUAL,
    SR_LESS,
    SR_AT_MOST,
    SR_MORE,
    SR_AT_LEAST,
    SR_CONTAINS
} sr_compare;

typedef struct sr_condition {
    sr_condition_kind kind;
    struct sr_condition *left, *right; /* owned */
    char *name, *text;                 /* owned */
    sr_compare compare;
    bool numeric; /* the text is a number and not in quotes: numbers are compared as such */
    double number;
} sr_condition;

void sr_condition_free(sr_condition *c); /* may be NULL */

/* A member of an object by its name, else by a path: meta.lang is the member lang of the object
 * meta.  NULL if there is none. */
const json_t *sr_record_member(const json_t *record, const char *name);

/* Whether a value compares as `c` says: its text, NULL for what is neither a text, a number nor a
 * boolean, and its number, NULL for what is none. */
bool sr_condition_compares(const sr_condition *c, const char *text, const double *number);

/* *missing is the name that the record lacks, or NULL; then the result is meaningless. */
bool sr_condition_holds(const char **missing, const sr_condition *c, const json_t *record);

SR_END_C
