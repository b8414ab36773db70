#include "core/pack/pack.h"

#include <stdio.h>
#include <string.h>

#include "core/pack/solvers.h"

typedef struct solver {
    const char *name;
    sr_status (*solve)(sr_plan **, const sr_histogram *, const sr_pack_opts *);
} solver;

static const solver solvers[] = {
    {"optimal", sr_solve_optimal}, {"lpfhp", sr_solve_lpfhp},   {"spfhp", sr_solve_spfhp},
    {"nnlshp", sr_solve_nnlshp},   {"bfd", sr_solve_bfd},       {"ffd", sr_solve_ffd},
    {"bpcc", sr_solve_bpcc},       {"online", sr_solve_online}, {"none", sr_solve_none},
};
enum { SOLVERS = sizeof solvers / sizeof *solvers };

const char *sr_pack_solver(int i) {
    return i >= 0 && i < SOLVERS ? solvers[i].name : NULL;
}

static sr_status unknown(const char *name) {
    char list[256] = "";
    for (int i = 0; i < SOLVERS; i++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "", solvers[i].name);
    }
    return sr_fail(SR_EINVAL, "pack: unknown solver '%s'; choose one of: %s", name, list);
}

sr_status sr_pack_solve(sr_plan **out, const sr_histogram *hist, const sr_pack_opts *opts) {
    *out = NULL;
    const char *name = opts->solver != NULL ? opts->solver : solvers[0].name;
    if (opts->max_seqs < 0)
        return sr_fail(SR_EINVAL, "pack: max_seqs is %d; must be at least 1, or 0 for no limit",
                       opts->max_seqs);
    if (opts->own != NULL) return opts->own(out, hist, opts);
    for (int i = 0; i < SOLVERS; i++)
        if (strcmp(name, solvers[i].name) == 0) return solvers[i].solve(out, hist, opts);
    return unknown(name);
}
