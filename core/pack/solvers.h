/* solvers.h - the solvers of core/pack, with one signature; the table in pack.c lists them.
 *
 * Internal to core/pack; use sr_pack_solve().  Each creates a plan as specified in pack.h, from a
 * histogram with the capacity of the packs.
 */
#pragma once

#include "core/pack/pack.h"

SR_BEGIN_C

/* One sequence per pack: padding, for comparison, and so that loaders need only one path.  Its gap
 * is what packing with opts->max_seqs would save. */
sr_status sr_solve_none(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts);

/* Shortest-pack-first: longest sequences first, each into the pack with the most space (worst fit).
 * O(lengths^2).  Source: Krell et al. 2021, arXiv:2107.02027. */
sr_status sr_solve_spfhp(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts);

/* Longest-pack-first: longest sequences first, each into the pack with the least sufficient space
 * (best fit), as many copies at once as fit.  O(lengths * patterns) at worst, usually
 * O(lengths log lengths).  Source: packing paper reference implementation. */
sr_status sr_solve_lpfhp(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts);

/* Best-fit decreasing, sequence by sequence; ties go to the pack opened first.  Works on runs of
 * equal packs, so the cost does not depend on the number of sequences.  At most 11/9 of the optimum
 * plus one pack if depth is not limited. */
sr_status sr_solve_bfd(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts);

/* First-fit decreasing, sequence by sequence, on runs of equal packs in a treap. */
sr_status sr_solve_ffd(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts);

/* Bin packing with cardinality constraints (k-item bin packing) by equal shares: packs one after
 * another, of the longest remaining sequence and those that fit an equal share of the rest of the
 * pack.  O(patterns * depth).  Source: the problem is that of Krause, Shen and Schwetman 1975. */
sr_status sr_solve_bpcc(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts);

/* The linear program of Gilmore and Gomory (1961) by column generation, rounded: lp.h, round.h.
 * Never more packs than a greedy solver; bounded by opts->iterations. */
sr_status sr_solve_optimal(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts);

/* Non-negative least squares over the patterns that fill a pack exactly (nnls.h), rounded and
 * cleaned up as published; max_seqs 0 means the published depth, 3.  May leave slots unfilled. */
sr_status sr_solve_nnlshp(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts);

/* Best fit over opts->open packs (online.h), in a random order given by opts->seed. */
sr_status sr_solve_online(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts);

SR_END_C
