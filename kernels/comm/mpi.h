/* mpi.h - the state of a world over MPI, shared by the files of the plug-in.
 *
 *   mpi.c    the table: opening, and calls in pieces that MPI's int counts can hold
 *   calls.c  calls that are under way, and the wait that ends them
 *   nccl.c   the table of NCCL, which MPI starts
 *   peers.c  the other ranks: whether they live, and what they said when they failed
 *
 * Only the main thread calls MPI.
 */
#ifndef SR_COMM_MPI_H
#define SR_COMM_MPI_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/tensor/comm.h"

/* A tensor of a call under way: the bytes [from, to) of device memory. */
typedef struct mpi_use {
    uintptr_t from, to;
    bool written;
    void *host;        /* where the device's memory is not the host's: a copy that MPI works on */
    sr_tensor *tensor; /* retained: filled from `host` at the end */
} mpi_use;

/* A rank as the others know it. */
typedef struct mpi_peer {
    char host[64];
    int pid;
    unsigned long long started; /* by the kernel's clock: tells a process from a later one */
    bool watched;               /* on this machine, and visible in /proc */
    bool failed;                /* told its failure, died, or is silent */
    bool told;                  /* the first of these */
    bool waiting;               /* said that it waits */
} mpi_peer;

typedef struct mpi_world {
    MPI_Comm calls, notes;
    MPI_Op sum_bf16;
    int64_t most; /* elements of one call of MPI */
    MPI_Request *request;
    int64_t requests, request_room;
    mpi_use *use;
    int64_t uses, use_room;
    mpi_peer *peer;
    double waiting_since; /* of the wait under way */
    bool told_waiting, broken;
    bool spoken; /* another rank has printed why all end */
} mpi_world;

/* SR_OK, or the error of an MPI function as SR_EPEER. */
sr_status mpi_check(const char *call, int code);

/* ---- mpi.c, nccl.c ---- */

extern const sr_comm_engine comm_mpi, comm_nccl;
bool comm_launched(void);

/* ---- calls.c ---- */

/* Whether a call on [from, to) must come after one of these. */
bool comm_conflicts(const mpi_use *use, int64_t count, uintptr_t from, uintptr_t to, bool written);

/* Makes `bytes` of memory for the tensor ready for a call: its own memory on a host device, else a
 * copy.  Waits first where a call under way writes what this one uses, or uses what it writes. */
sr_status mpi_use_tensor(sr_comm *comm, void **memory, const sr_tensor *x, bool read, bool written);
/* Room for the request of one more call of MPI; counted by mpi_started(). */
sr_status mpi_room(mpi_world *w, MPI_Request **request);
sr_status mpi_started(mpi_world *w, const char *call, int code);
sr_status mpi_wait(sr_comm *comm);
sr_status mpi_progress(sr_comm *comm);
void mpi_drop(mpi_world *w); /* forgets what is under way */

/* ---- peers.c ---- */

sr_status mpi_meet(sr_comm *comm); /* collective: fills w->peer */
/* To be called now and then by who waits: returns the failure of another rank, once it is known. */
sr_status mpi_look(sr_comm *comm);
void mpi_waited(sr_comm *comm); /* the wait is over */
bool mpi_tell(sr_comm *comm, sr_status status, const char *message);

#endif
