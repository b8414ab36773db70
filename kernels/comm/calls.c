/* calls.c - MPI calls in progress, and the wait that ends them. */
#include <sched.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/tensor/backend.h"
#include "kernels/comm/mpi.h"

enum { SPINS = 200 };                    /* polls before yielding the processor */
static const double LOOK_SECONDS = 0.05; /* between looks at the other ranks */

sr_status mpi_check(const char *call, int code) {
    if (code == MPI_SUCCESS) return SR_OK;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return sr_fail(SR_EPEER, "%s: MPI failed: %s", call, text);
}

/* ---- calls in progress ----------------------------------------------------------------------- */

static sr_status grow(void **list, int64_t count, int64_t *room, size_t size) {
    if (count < *room) return SR_OK;
    int64_t more = *room == 0 ? 16 : 2 * *room;
    SR_TRY(sr_resize(list, (size_t)more, size));
    *room = more;
    return SR_OK;
}

sr_status mpi_room(mpi_world *w, MPI_Request **request) {
    SR_TRY(grow((void **)&w->request, w->requests, &w->request_room, sizeof *w->request));
    *request = &w->request[w->requests];
    return SR_OK;
}

sr_status mpi_started(mpi_world *w, const char *call, int code) {
    SR_TRY(mpi_check(call, code));
    w->requests++;
    return SR_OK;
}

bool comm_conflicts(const mpi_use *use, int64_t count, uintptr_t from, uintptr_t to, bool written) {
    for (int64_t i = 0; i < count; i++)
        if ((written || use[i].written) && from < use[i].to && use[i].from < to) return true;
    return false;
}

static sr_status copy_to_host(mpi_use *use, sr_device *device, size_t bytes, bool read) {
    SR_TRY(sr_alloc(&use->host, bytes, 1));
    if (!read || use->host == NULL) return SR_OK;
    sr_status st = sr_device_download(device, use->host, (const void *)use->from, bytes);
    if (st != SR_OK) sr_free(use->host);
    return st;
}

sr_status mpi_use_tensor(sr_comm *comm, void **memory, const sr_tensor *x, bool read,
                         bool written) {
    mpi_world *w = comm->state;
    sr_device *device = comm->device;
    size_t bytes = (size_t)sr_tensor_elements(x) * sr_dtype_size(x->dtype);
    mpi_use use = {.from = (uintptr_t)sr_tensor_data(x), .written = written};
    use.to = use.from + bytes;
    if (comm_conflicts(w->use, w->uses, use.from, use.to, written)) SR_TRY(mpi_wait(comm));
    SR_TRY(grow((void **)&w->use, w->uses, &w->use_room, sizeof *w->use));
    if (!device->backend->host) SR_TRY(copy_to_host(&use, device, bytes, read));
    use.tensor = sr_tensor_retain((sr_tensor *)x);
    w->use[w->uses++] = use;
    *memory = use.host != NULL ? use.host : (void *)use.from;
    return SR_OK;
}

/* ---- the end of calls ------------------------------------------------------------------------ */

static sr_status end_use(sr_device *device, mpi_use *use, bool arrived) {
    sr_status st = SR_OK;
    if (arrived && use->written && use->host != NULL) {
        st = sr_tensor_check("wait", use->tensor);
        if (st == SR_OK)
            st = sr_device_upload(device, (void *)use->from, use->host, use->to - use->from);
    }
    if (use->tensor != NULL) sr_tensor_release(use->tensor);
    sr_free(use->host);
    return st;
}

static sr_status end_uses(sr_comm *comm, bool arrived) {
    mpi_world *w = comm->state;
    sr_status first = SR_OK;
    for (int64_t i = 0; i < w->uses; i++) {
        sr_status st = end_use(comm->device, &w->use[i], arrived && first == SR_OK);
        if (first == SR_OK) first = st;
    }
    w->uses = 0;
    w->requests = 0;
    return first;
}

/* MPI may still write to the memory of requests that never end: it is not freed. */
void mpi_drop(mpi_world *w) {
    w->uses = 0;
    w->requests = 0;
}

/* Whether all are done. */
static sr_status test(mpi_world *w, int *done) {
    return mpi_check("wait", MPI_Testall((int)w->requests, w->request, done, MPI_STATUSES_IGNORE));
}

static sr_status poll(sr_comm *comm) {
    mpi_world *w = comm->state;
    double looked = sr_time_monotonic();
    for (int spin = 0;; spin++) {
        int done = 0;
        SR_TRY(test(w, &done));
        if (done) return SR_OK;
        if (spin < SPINS) continue;
        sched_yield();
        double now = sr_time_monotonic();
        if (now - looked < LOOK_SECONDS) continue;
        looked = now;
        SR_TRY(mpi_look(comm));
    }
}

sr_status mpi_wait(sr_comm *comm) {
    mpi_world *w = comm->state;
    if (w->broken) return mpi_look(comm);
    sr_status st = poll(comm);
    mpi_waited(comm);
    if (st == SR_OK) return end_uses(comm, true);
    w->broken = true;
    mpi_drop(w);
    return st;
}

/* MPI makes progress only while it is called. */
sr_status mpi_progress(sr_comm *comm) {
    mpi_world *w = comm->state;
    int done = 0;
    return w->broken || w->requests == 0 ? SR_OK : test(w, &done);
}
