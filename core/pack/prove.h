/* prove.h - the strongest available certificate for a histogram. */
#pragma once

#include "core/pack/certificate.h"
#include "core/pack/pack.h"

SR_BEGIN_C

/* Solves the linear program to optimality (within opts->iterations and opts->seconds), or that of
 * grids (grid.h) if they suit, and keeps the best of five proofs: its prices, tokens, the two of
 * count, and Martello and Toth's weights.  The largest weight of a pack takes seconds for 65,535
 * lengths. Errors: SR_ENOMEM; SR_ESTOP if a stop was requested. */
sr_status sr_pack_prove(sr_certificate *out, const sr_histogram *h, const sr_pack_opts *opts);

SR_END_C
