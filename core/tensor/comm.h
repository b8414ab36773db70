/* comm.h - the table that a communication engine fills: MPI on CPUs, NCCL on GPUs.
 *
 * A run on several ranks makes the same calls in the same order on each (send and receive: in the
 * same order for each pair).  Calls work on contiguous tensors of the device that the world was
 * opened with, views of a store among them.  They may return before they are done: until
 * sr_comm_wait() a tensor being sent must not be written, one being received must not be touched,
 * and both must stay alive.  Further calls may use it: a call sees the results of those before it.
 * Where calls join the queue of a device, wait() makes the work that the device gets later wait,
 * not the host, and failures are reported by the next wait for the device.
 *
 * A rank that fails warns the others (tell), and their next wait returns its failure; so does the
 * death of a rank, or its silence for `timeout` seconds, as SR_EPEER.
 *
 * No reduction of an engine decides an order of summation where bits matter: shares.h exchanges
 * subtree sums by send and receive.
 *
 * One engine is built in: "self", a world of one rank.  Others come with plug-ins (plugin.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

typedef struct sr_comm_engine sr_comm_engine;

/* An open world, as one of its ranks sees it. */
typedef struct sr_comm {
    const sr_comm_engine *engine;
    sr_device *device;
    int rank, ranks;
    bool exchanging; /* gradients are in flight (core/train/exchange.h): other calls would mix with
                        theirs, and are refused */
    double timeout;  /* seconds that wait() gives the other ranks; 0: forever */
    void *state;     /* the engine's own */
} sr_comm;

struct sr_comm_engine {
    int abi;      /* SR_ABI, */
    size_t bytes; /* sizeof(sr_comm_engine): of the headers that it was built with */
    const char *name;
    /* or NULL: "Open MPI v4.1.4", or why it cannot be used */
    sr_status (*describe)(char *text, size_t size);
    bool (*launched)(void);                 /* its launcher started this process */
    sr_status (*open)(sr_comm *comm);       /* engine and device are set; sets the rest */
    void (*close)(sr_comm *comm);           /* after wait() */
    sr_status (*wait)(sr_comm *comm);       /* what comes later sees the results of all calls */
    sr_status (*progress)(sr_comm *comm);   /* starts pending calls, moves data; does not wait */
    sr_status (*barrier)(sr_comm *comm);    /* returns when all ranks have, and calls are done */
    void (*abort)(sr_comm *comm, int code); /* ends the processes of all ranks */
    /* Tells the other ranks why this one exits.  True on the one rank that is to print it, the
     * lowest that is alive; the others return when that rank knows, or after some seconds.
     */
    bool (*tell)(sr_comm *comm, sr_status status, const char *message);
    sr_status (*broadcast)(sr_comm *comm, sr_tensor *x, int root);
    sr_status (*all_reduce)(sr_comm *comm, sr_tensor *x); /* x = sum over ranks */
    /* On `root` x = sum over ranks; undefined on the others. */
    sr_status (*reduce)(sr_comm *comm, sr_tensor *x, int root);
    /* x has ranks x the elements of part: part = this rank's piece of the sum over ranks */
    sr_status (*reduce_scatter)(sr_comm *comm, sr_tensor *part, const sr_tensor *x);
    /* x = the parts of all ranks, by rank */
    sr_status (*all_gather)(sr_comm *comm, sr_tensor *x, const sr_tensor *part);
    sr_status (*send)(sr_comm *comm, const sr_tensor *x, int to);
    sr_status (*receive)(sr_comm *comm, sr_tensor *x, int from);
};

/* Calls with their arguments checked: SR_EINVAL names the call and what was wrong. */
sr_status sr_comm_wait(sr_comm *comm);
sr_status sr_comm_barrier(sr_comm *comm);
sr_status sr_comm_broadcast(sr_comm *comm, sr_tensor *x, int root);
sr_status sr_comm_all_reduce(sr_comm *comm, sr_tensor *x); /* not of bool */
sr_status sr_comm_reduce(sr_comm *comm, sr_tensor *x, int root);
sr_status sr_comm_reduce_scatter(sr_comm *comm, sr_tensor *part, const sr_tensor *x);
sr_status sr_comm_all_gather(sr_comm *comm, sr_tensor *x, const sr_tensor *part);
sr_status sr_comm_send(sr_comm *comm, const sr_tensor *x, int to);
sr_status sr_comm_receive(sr_comm *comm, sr_tensor *x, int from);

/* Registered engines: self, then those of plug-ins as they were loaded. */
int sr_comm_count(void);
const sr_comm_engine *sr_comm_at(int index);

const sr_comm_engine *sr_comm_named(const char *name); /* NULL: none of this name */

/* Opens the world of an engine; closed by sr_comm_close().  Failures are the engine's. */
sr_status sr_comm_open(sr_comm *out, const sr_comm_engine *engine, sr_device *device);
/* Ends calls in progress and frees the engine's state; harmless on a comm that is all zero. */
void sr_comm_close(sr_comm *comm);

/* For plugin.c: sr_host.add_comm, and the number of engines to go back to when an init fails. */
sr_status sr_comm_add(const sr_comm_engine *engine);
void sr_comm_truncate(int count);

SR_END_C
