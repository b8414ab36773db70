#include "core/base/affinity.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

int sr_affinity_get(int cpus[SR_MOST_PROCESSORS]) {
    cpu_set_t set;
    int count = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    for (int i = 0; i < SR_MOST_PROCESSORS && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) cpus[count++] = i;
    return count;
}

/* A thread that ends in the meantime is not an error. */
static void bind_threads(const cpu_set_t *set) {
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) return;
    for (struct dirent *e = readdir(tasks); e != NULL; e = readdir(tasks)) {
        int id = atoi(e->d_name);
        if (id > 0) (void)sched_setaffinity(id, sizeof *set, set);
    }
    closedir(tasks);
}

sr_status sr_affinity_set(const int *cpus, int count) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < count; i++)
        if (cpus[i] >= 0 && cpus[i] < CPU_SETSIZE) CPU_SET(cpus[i], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return sr_fail(SR_EINVAL, "cannot bind to %d processors from number %d: %s", count,
                       count > 0 ? cpus[0] : -1, strerror(errno));
    bind_threads(&set);
    return SR_OK;
}
