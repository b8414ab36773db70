/* odd.c - plug-ins that cannot be used, one for each value of SEQRUN_ODD: "abi", "bytes", "taken",
 * "colon", "lonely" (devices without facts), "empty", "half", "fails", "silent", "lone" (an engine
 * of ranks without functions); without it a backend that can fill and copy, "odd", and with "ranks"
 * an engine of ranks beside it, "odd ranks"; with "two" it has two devices, the second without
 * memory, with "none" no device, with "cuda" it is
 * called that, and with "nogpu" that and without devices. Built as build/tests/odd.so. */
#include <stdlib.h>
#include <string.h>

#include "core/tensor/plugin.h"

static sr_status build_nothing(sr_weight *weight, const sr_tensor *w) {
    (void)weight, (void)w;
    return SR_OK;
}

static sr_comm_engine ranks = {.abi = SR_ABI, .bytes = sizeof(sr_comm_engine), .name = "odd ranks"};

/* self's functions under another name. */
static sr_status add_ranks(const sr_host *host, bool complete) {
    const char *name = ranks.name;
    if (complete) ranks = *sr_comm_at(0);
    ranks.name = name;
    return host->add_comm(&ranks);
}

static sr_status two_devices(int *devices) {
    *devices = 2;
    return SR_OK;
}

static sr_status no_device(int *devices) {
    (void)devices;
    return sr_fail(SR_EDEVICE, "odd: the driver is missing");
}

static sr_status describe(sr_device_facts *facts, int number) {
    *facts = (sr_device_facts){.model = "Odd 1000", .arch = "odd_1", .memory = 3LL << 29};
    if (number == 1) strcpy(facts->problem, "it has no memory");
    return SR_OK;
}

static sr_backend backend = {SR_BACKEND_ABI, .name = "odd", .real = SR_F32};

sr_status sr_plugin_init(const sr_host *host, int abi) {
    const char *way = getenv("SEQRUN_ODD");
    if (abi != host->abi) return sr_fail(SR_EINTERNAL, "two numbers for one interface");
    const sr_backend *cpu = host->find_backend("cpu");
    if (way == NULL) way = "";
    backend.open = cpu->open;
    backend.close = cpu->close;
    backend.alloc = cpu->alloc;
    backend.free = cpu->free;
    backend.upload = cpu->upload;
    backend.download = cpu->download;
    backend.fill = cpu->fill;
    if (strcmp(way, "empty") != 0) backend.copy = cpu->copy;
    if (strcmp(way, "abi") == 0) backend.abi = abi + 1;
    if (strcmp(way, "bytes") == 0) backend.bytes += sizeof(void *);
    if (strcmp(way, "taken") == 0) backend.name = "cpu";
    if (strcmp(way, "half") == 0) backend.weight_build = build_nothing;
    if (strcmp(way, "silent") == 0) return SR_EDEVICE;
    if (strcmp(way, "cuda") == 0 || strcmp(way, "nogpu") == 0) backend.name = "cuda";
    if (strcmp(way, "two") == 0 || way[0] == 'n' || strcmp(way, "cuda") == 0) {
        backend.count = way[0] == 'n' ? no_device : two_devices;
        backend.describe = describe;
    }
    if (strcmp(way, "colon") == 0) backend.name = "odd:1";
    if (strcmp(way, "lonely") == 0) backend.count = two_devices;
    SR_TRY(host->add_backend(&backend));
    if (strcmp(way, "ranks") == 0 || strcmp(way, "lone") == 0)
        return add_ranks(host, strcmp(way, "ranks") == 0);
    return strcmp(way, "fails") == 0 ? sr_fail(SR_EDEVICE, "the driver is missing") : SR_OK;
}
