#include "core/tensor/comm.h"

#include <stdlib.h>
#include <string.h>

#include "core/tensor/backend.h"

/* ---- self: a world of one rank ----------------------------------------------------------------
 */

static bool self_launched(void) {
    return true;
}

static sr_status self_open(sr_comm *comm) {
    comm->rank = 0;
    comm->ranks = 1;
    return SR_OK;
}

static void self_close(sr_comm *comm) {
    (void)comm;
}

static sr_status self_done(sr_comm *comm) {
    (void)comm;
    return SR_OK;
}

static void self_abort(sr_comm *comm, int code) {
    (void)comm;
    _Exit(code);
}

static sr_status self_broadcast(sr_comm *comm, sr_tensor *x, int root) {
    (void)comm, (void)x;
    return root == 0 ? SR_OK : sr_fail(SR_EINVAL, "comm: no rank %d in a world of 1", root);
}

static sr_status self_reduce(sr_comm *comm, sr_tensor *x) {
    (void)comm, (void)x;
    return SR_OK;
}

static sr_status self_copy(sr_comm *comm, sr_tensor *to, const sr_tensor *from) {
    sr_tensor_wrote(to);
    return comm->device->backend->copy(to, from);
}

static sr_status self_send(sr_comm *comm, const sr_tensor *x, int to) {
    (void)comm, (void)x;
    return sr_fail(SR_EINVAL, "comm: no rank %d to send to in a world of 1", to);
}

static sr_status self_receive(sr_comm *comm, sr_tensor *x, int from) {
    (void)comm, (void)x;
    return sr_fail(SR_EINVAL, "comm: no rank %d to receive from in a world of 1", from);
}

static const sr_comm_engine self = {
    .abi = SR_ABI,
    .bytes = sizeof(sr_comm_engine),
    .name = "self",
    .launched = self_launched,
    .open = self_open,
    .close = self_close,
    .wait = self_done,
    .barrier = self_done,
    .abort = self_abort,
    .broadcast = self_broadcast,
    .all_reduce = self_reduce,
    .reduce_scatter = self_copy,
    .all_gather = self_copy,
    .send = self_send,
    .receive = self_receive,
};

/* ---- the registry -----------------------------------------------------------------------------
 */

enum { MOST = 8 };
static const sr_comm_engine *engines[MOST] = {&self};
static int count = 1;

int sr_comm_count(void) {
    return count;
}

const sr_comm_engine *sr_comm_at(int index) {
    return engines[index];
}

const sr_comm_engine *sr_comm_launched(void) {
    int i = count - 1;
    while (i > 0 && !engines[i]->launched()) i--;
    return engines[i];
}

static bool is_complete(const sr_comm_engine *e) {
    return e->name != NULL && e->launched != NULL && e->open != NULL && e->close != NULL &&
           e->wait != NULL && e->barrier != NULL && e->abort != NULL && e->broadcast != NULL &&
           e->all_reduce != NULL && e->reduce_scatter != NULL && e->all_gather != NULL &&
           e->send != NULL && e->receive != NULL;
}

sr_status sr_comm_add(const sr_comm_engine *e) {
    if (e->abi != SR_ABI || e->bytes != sizeof *e)
        return sr_fail(SR_EDEVICE,
                       "its communication was built for interface %d (%zu bytes), this program has "
                       "%d (%zu bytes); rebuild it against the headers of this program",
                       e->abi, e->bytes, SR_ABI, sizeof *e);
    if (!is_complete(e))
        return sr_fail(SR_EDEVICE, "its communication table has no name, or lacks a function");
    for (int i = 0; i < count; i++)
        if (strcmp(engines[i]->name, e->name) == 0)
            return sr_fail(SR_EDEVICE, "duplicate communication engine '%s'", e->name);
    if (count == MOST)
        return sr_fail(SR_EDEVICE, "too many communication engines; the maximum is %d", MOST);
    engines[count++] = e;
    return SR_OK;
}

void sr_comm_truncate(int to) {
    count = to;
}

sr_status sr_comm_open(sr_comm *out, const sr_comm_engine *engine, sr_device *device) {
    *out = (sr_comm){.engine = engine, .device = device};
    return engine->open(out);
}

void sr_comm_close(sr_comm *comm) {
    comm->engine->close(comm);
}
