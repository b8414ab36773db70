/* affinity.h - the processors that this process may run on. */
#pragma once

#include "core/base/status.h"

SR_BEGIN_C

enum { SR_MOST_PROCESSORS = 1024 };

/* The numbers of the processors that the affinity mask allows; returns how many (0: unknown). */
int sr_affinity_get(int cpus[SR_MOST_PROCESSORS]);

/* Binds all threads of this process, and those it makes later, to these processors.  Memory that
 * they touch first is then on the nodes of these processors.
 *
 * Errors: SR_EINVAL  none of them is one that the process may use */
sr_status sr_affinity_set(const int *cpus, int count);

SR_END_C
