/* timed.c - the cpu under the name "timed", with linear layers whose bits depend on a choice that
 * is "timed" for each class of shapes: outputs are scaled by it.  Built as build/tests/timed.so.
 *
 *   SEQRUN_TIMED        what the clock says here, from 1 to 9; "rank": one more than the rank;
 *                       "never": this device chooses nothing
 *   SEQRUN_TIMED_GPU    the name of the choices; by default "timed-1"; "rank": one for each rank
 *   SEQRUN_TIMED_CACHE  "first": only rank 0 has the user's cache; "others": all but rank 0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/plugin.h"

static const sr_backend *cpu;
static sr_choices *known;

static const char *variable(const char *name, const char *otherwise) {
    const char *given = getenv(name);
    return given != NULL && given[0] != '\0' ? given : otherwise;
}

static int rank(void) {
    return atoi(variable("OMPI_COMM_WORLD_RANK", "0"));
}

static bool has_cache(void) {
    const char *who = variable("SEQRUN_TIMED_CACHE", "all");
    return strcmp(who, "all") == 0 || (strcmp(who, "first") == 0) == (rank() == 0);
}

static sr_status choices(sr_choices **out, sr_device *device) {
    char gpu[64], *path = NULL;
    const char *name = variable("SEQRUN_TIMED_GPU", "timed-1");
    (void)device;
    *out = known;
    if (known != NULL) return SR_OK;
    if (strcmp(name, "rank") == 0)
        snprintf(gpu, sizeof gpu, "timed-%d", rank());
    else
        snprintf(gpu, sizeof gpu, "%s", name);
    if (has_cache()) SR_TRY(sr_cache_path(&path, "timed"));
    sr_status st = sr_choices_open(&known, gpu, path, 1);
    sr_free(path);
    *out = known;
    return st;
}

static unsigned char measured(void) {
    const char *clock = variable("SEQRUN_TIMED", "1");
    return (unsigned char)(strcmp(clock, "rank") == 0 ? 1 + rank() : atoi(clock));
}

/* Rows of one class: multiples of 2, so that ranks meet different classes. */
static sr_status choose(unsigned char *out, sr_tensor *y, const sr_tensor *x) {
    char key[SR_CHOICE_KEY];
    sr_choices *all;
    SR_TRY(choices(&all, y->storage->device));
    snprintf(key, sizeof key, "linear %lld %lld %lld", (long long)(y->shape[0] + 1) / 2 * 2,
             (long long)y->shape[1], (long long)x->shape[1]);
    if (sr_choices_find(all, key) == NULL) {
        unsigned char mine = measured();
        SR_TRY(sr_choices_add(all, key, &mine));
    }
    *out = *(const unsigned char *)sr_choices_find(all, key);
    return SR_OK;
}

static sr_status linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                        const sr_tensor *b, sr_act act) {
    unsigned char by;
    SR_TRY(cpu->linear(y, pre, x, w, b, act));
    SR_TRY(choose(&by, y, x));
    float *out = SR_DATA(float, y);
    for (int64_t i = 0; i < sr_tensor_elements(y); i++) out[i] *= 1.0f + (float)by / 64.0f;
    return SR_OK;
}

static sr_backend backend;

sr_status sr_plugin_init(const sr_host *host, int abi) {
    (void)abi;
    cpu = host->find_backend("cpu");
    backend = *cpu;
    backend.name = "timed";
    if (strcmp(variable("SEQRUN_TIMED", ""), "never") != 0) {
        backend.linear = linear;
        backend.choices = choices;
    }
    return host->add_backend(&backend);
}
