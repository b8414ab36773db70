/* imitate.h - packs real lengths by the patterns of a grid.
 *
 * Internal to core/pack.  The program of a grid (grid.h) shows which lengths belong together,
 * within about a cell.  Every pack takes real lengths near the nodes of a pattern: some spread
 * around their nodes as the sequences are, the last ones so that the pack is full.  Most of each
 * pattern's packs are made, then the program is solved again for the rest.
 */
#pragma once

#include "core/pack/pack.h"

SR_BEGIN_C

/* A plan for `h` with at most opts->max_seqs sequences per pack, from a grid of `cells` cells, and
 * the bound of the grid for the whole histogram. */
sr_status sr_imitate(sr_plan **out, int64_t *bound, const sr_histogram *h, const sr_pack_opts *opts,
                     int32_t cells);

SR_END_C
