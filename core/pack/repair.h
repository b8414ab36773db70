/* repair.h - packs the packs of a plan that are not full once more.
 *
 * Internal to core/pack.  Where space decides, nearly all packs of a good plan are full, and the
 * rest of the free space is in few of them.  Their sequences, with those of some full packs, are a
 * small problem of the same kind.
 */
#pragma once

#include "core/pack/pack.h"

SR_BEGIN_C

/* Replaces *plan if the packs that are not full can be fewer; else, or if they are many, leaves it.
 */
sr_status sr_repair(sr_plan **plan, const sr_pack_opts *opts, int32_t cells);

SR_END_C
