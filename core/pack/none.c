#include "core/pack/build.h"
#include "core/pack/solvers.h"

sr_status sr_solve_none(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts) {
    sr_builder b;
    SR_TRY(sr_build_begin(&b, h, opts->max_seqs, "none"));
    sr_status st = SR_OK;
    for (int32_t l = h->capacity; l >= 1 && st == SR_OK; l--)
        st = sr_build_add(&b, h->count[l], &(sr_plan_part){(uint16_t)l, 1}, 1);
    if (st == SR_OK) return sr_build_end(out, &b);
    sr_build_drop(&b);
    return st;
}
