/* launch.h - which launcher started this process as one of several ranks, from its environment. */
#pragma once

#include <stdbool.h>

#include "core/base/extern.h"

SR_BEGIN_C

typedef struct sr_launch {
    const char *name;            /* "mpirun" or "srun"; NULL: no launcher */
    int rank, ranks;             /* of the job; -1: the environment does not say */
    int local_rank, local_ranks; /* on this machine; likewise */
    bool bound;                  /* the launcher bound the process to processors */
} sr_launch;

sr_launch sr_launch_find(void);

SR_END_C
