#include "core/tensor/launch.h"

#include <stdlib.h>
#include <string.h>

/* The variables of each launcher; the first whose `ranks` is set has started the process, or `job`
 * where there is no such variable.  In a Slurm job only steps have SLURM_STEP_NUM_TASKS: the batch
 * script is one process. */
static const struct {
    const char *name, *ranks, *rank, *local_rank, *local_ranks, *job;
} launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "", NULL},
    {"mpirun", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL},
    {"mpirun", "PMIX_SIZE", "PMIX_RANK", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE", NULL},
    {"mpirun", "", "PMIX_RANK", "", "",
     "PMIX_NAMESPACE"}, /* a name, which may look like a number */
};

static int number(const char *variable) {
    const char *value = getenv(variable);
    char *end = NULL;
    long n = value != NULL && *value != '\0' ? strtol(value, &end, 10) : -1;
    return end != NULL && *end == '\0' && n >= 0 && n < 1 << 24 ? (int)n : -1;
}

/* Open MPI reports whether it bound its processes, Slurm which mask it set. */
static bool is_bound(void) {
    const char *srun = getenv("SLURM_CPU_BIND_TYPE");
    return getenv("OMPI_MCA_orte_bound_at_launch") != NULL ||
           (srun != NULL && *srun != '\0' && strncmp(srun, "none", 4) != 0);
}

sr_launch sr_launch_find(void) {
    sr_launch found = {.rank = -1, .ranks = -1, .local_rank = -1, .local_ranks = -1};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *job = launchers[i].job != NULL ? launchers[i].job : launchers[i].ranks;
        if (getenv(job) == NULL) continue;
        found.name = launchers[i].name;
        found.ranks = number(launchers[i].ranks);
        found.rank = number(launchers[i].rank);
        found.local_rank = number(launchers[i].local_rank);
        found.local_ranks = number(launchers[i].local_ranks);
        found.bound = is_bound();
        return found;
    }
    return found;
}
