/* build.h - builds the plan of a solver: begin, add patterns, end.
 *
 * Internal to core/pack.  The builder merges equal patterns, computes the sums, sets the cheap
 * lower bounds and checks the plan, so that a solver cannot return an invalid one.
 */
#pragma once

#include "core/pack/plan.h"

SR_BEGIN_C

typedef struct sr_builder {
    sr_plan *plan; /* NULL before begin and after end */
    size_t pattern_room, part_room;
    uint32_t *table; /* hash of patterns -> index + 1 */
    size_t table_size;
    sr_plan_part *scratch; /* one pattern, sorted */
    size_t scratch_room;
    double began;
} sr_builder;

/* Copies the histogram and starts the clock.  Call sr_build_drop() after a failure or to cancel. */
sr_status sr_build_begin(sr_builder *b, const sr_histogram *hist, int32_t max_seqs,
                         const char *solver);

/* Adds `count` packs of these parts, in any order, with or without repeated lengths. */
sr_status sr_build_add(sr_builder *b, int64_t count, const sr_plan_part *parts, size_t n);

/* The finished plan, owned by the caller.  SR_EINTERNAL if it is invalid. */
sr_status sr_build_end(sr_plan **out, sr_builder *b);
void sr_build_drop(sr_builder *b); /* no-op after end */

SR_END_C
