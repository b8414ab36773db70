/* mpi.h - the state of a world over MPI, shared by the files of the plug-in.
 *
 *   mpi.c    the table: opening, and calls in pieces that MPI's int counts can hold
 *   calls.c  calls in progress, and the wait that ends them
 *   nccl.c   the table for NCCL, which MPI bootstraps
 *   peers.c  the other ranks: whether they are alive, and how they failed
 *
 * Only the main thread calls MPI.
 */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/tensor/comm.h"

/* A tensor of a call in progress: the bytes [from, to) of device memory. */
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
    unsigned long long started; /* by the kernel's clock: distinguishes processes with one id */
    bool watched;               /* on this machine, and visible in /proc */
    bool failed;                /* reported a failure, died, or is silent */
    bool told;                  /* the first of these */
    bool waiting;               /* reported that it is waiting */
} mpi_peer;

typedef struct mpi_world {
    MPI_Comm calls, notes;
    MPI_Op sum_bf16;
    int64_t most; /* elements in one MPI call */
    MPI_Request *request;
    int64_t requests, request_room;
    mpi_use *use;
    int64_t uses, use_room;
    mpi_peer *peer;
    double waiting_since; /* of the current wait */
    bool told_waiting, broken;
    bool spoken; /* another rank has printed why all ranks exit */
} mpi_world;

/* SR_OK, or the error of an MPI function as SR_EPEER. */
sr_status mpi_check(const char *call, int code);

/* ---- mpi.c, nccl.c ---- */

extern const sr_comm_engine comm_mpi, comm_nccl;
bool comm_launched(void);

/* ---- calls.c ---- */

/* Whether a call on [from, to) must come after one of these. */
bool comm_conflicts(const mpi_use *use, int64_t count, uintptr_t from, uintptr_t to, bool written);

/* Prepares `bytes` of memory for a call on the tensor: its own on a host device, else a copy.
 * Waits first where a call in progress writes what this one uses, or uses what it writes. */
sr_status mpi_use_tensor(sr_comm *comm, void **memory, const sr_tensor *x, bool read, bool written);
/* Room for the request of one more MPI call; counted by mpi_started(). */
sr_status mpi_room(mpi_world *w, MPI_Request **request);
sr_status mpi_started(mpi_world *w, const char *call, int code);
sr_status mpi_wait(sr_comm *comm);
sr_status mpi_progress(sr_comm *comm);
void mpi_drop(mpi_world *w); /* forgets the calls in progress */

/* ---- peers.c ---- */

sr_status mpi_meet(sr_comm *comm); /* collective: fills w->peer */
/* Called now and then during a wait: returns the failure of another rank once it is known. */
sr_status mpi_look(sr_comm *comm);
void mpi_waited(sr_comm *comm); /* the wait is over */
bool mpi_tell(sr_comm *comm, sr_status status, const char *message);
