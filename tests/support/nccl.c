/* nccl.c - a stand-in for libnccl that writes down every call, for the order of calls; host memory.
 *
 * It is the CUDA driver's streams and events as well (SEQRUN_CUDA_DRIVER).
 * $NCCL_CALLS.RANK receives a line a call.  Data moves within the rank only: the sum over ranks is
 * the rank's own.  Built as build/tests/nccl.so; $NCCL_FAILS names a call that fails
 * (Later: all of them, seen by those that ask),
 * $NCCL_VERSION another version. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/comm/nccl.h"

static FILE *calls;
static int ranks, own;

__attribute__((format(printf, 1, 2))) static int record(const char *format, ...) {
    char path[1024], line[256];
    const char *base = getenv("NCCL_CALLS"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    const char *fails = getenv("NCCL_FAILS");
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    snprintf(path, sizeof path, "%s.%s", base, rank != NULL ? rank : "0");
    if (calls == NULL) calls = fopen(path, "a");
    if (calls == NULL) return 3;
    fprintf(calls, "%s\n", line);
    fflush(calls);
    size_t length = strcspn(line, " ");
    return fails != NULL && strlen(fails) == length && strncmp(line, fails, length) == 0 ? 2 : 0;
}

static size_t size_of(int type) {
    return type == NCCL_FLOAT64 ? 8 : type == NCCL_BFLOAT16 ? 2 : type == NCCL_UINT8 ? 1 : 4;
}

const char *ncclGetErrorString(int result);
const char *ncclGetErrorString(int result) {
    return result == 2 ? "unhandled system error" : "internal error";
}

#define NCCL_DECLARE(name, arguments) int nccl##name arguments;
NCCL_FUNCTIONS(NCCL_DECLARE)

int ncclGetVersion(int *version) {
    const char *text = getenv("NCCL_VERSION");
    *version = text != NULL ? atoi(text) : 22800;
    return 0;
}

int ncclGetUniqueId(nccl_id *id) {
    snprintf(id->bytes, sizeof id->bytes, "the id of rank 0");
    return record("GetUniqueId");
}

int ncclCommInitRank(nccl_comm **comm, int count, nccl_id id, int rank) {
    ranks = count;
    own = rank;
    *comm = (nccl_comm *)&ranks;
    return record("CommInitRank %d of %d: %s", rank, count, id.bytes);
}

/* ---- streams and events ---- */

static int own_stream, own_event;
static bool created;

static const char *name_of(const void *stream) {
    return stream == &own_stream ? "own" : stream != NULL ? "device's" : "no";
}

/* A call on another stream than that which was created for calls. */
static bool misses(const void *stream) {
    return created && stream != &own_stream;
}

int cuStreamCreate(void **stream, unsigned flags);
int cuStreamCreate(void **stream, unsigned flags) {
    created = true;
    *stream = &own_stream;
    return record("StreamCreate %u", flags);
}

int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream) {
    return record("StreamDestroy %s", name_of(stream));
}

int cuStreamQuery(void *stream);
int cuStreamQuery(void *stream) {
    const char *fails = getenv("NCCL_FAILS");
    (void)stream;
    return fails != NULL && strcmp(fails, "StreamQuery") == 0 ? 719 : 0; /* a launch failed */
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)flags;
    return event == &own_event ? record("StreamWaitEvent on %s stream", name_of(stream)) : 1;
}

int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags) {
    *event = &own_event;
    return record("EventCreate %u", flags);
}

int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event) {
    return event == &own_event ? record("EventDestroy") : 1;
}

int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream) {
    return event == &own_event ? record("EventRecord on %s stream", name_of(stream)) : 1;
}

/* ---- calls ---- */

int ncclCommDestroy(nccl_comm *comm) {
    (void)comm;
    return record("CommDestroy");
}

int ncclCommAbort(nccl_comm *comm) {
    (void)comm;
    return record("CommAbort");
}

int ncclCommGetAsyncError(nccl_comm *comm, int *error) {
    const char *fails = getenv("NCCL_FAILS");
    (void)comm;
    *error = fails != NULL && strcmp(fails, "Later") == 0 ? 2 : 0;
    return 0;
}

int ncclGroupStart(void) {
    return record("GroupStart");
}

int ncclGroupEnd(void) {
    return record("GroupEnd");
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, nccl_comm *comm,
                  void *stream) {
    (void)from, (void)to, (void)comm;
    if (misses(stream)) return 3;
    return record("Broadcast %zu of %d from %d", count, type, root);
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, nccl_comm *comm,
                  void *stream) {
    (void)comm;
    if (misses(stream)) return 3;
    if (from != to) memcpy(to, from, count * size_of(type));
    return record("AllReduce %zu of %d by %d", count, type, op);
}

int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root,
               nccl_comm *comm, void *stream) {
    (void)comm;
    if (misses(stream)) return 3;
    if (from != to) memcpy(to, from, count * size_of(type));
    return record("Reduce %zu of %d by %d to %d", count, type, op, root);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, nccl_comm *comm,
                      void *stream) {
    (void)comm;
    if (misses(stream)) return 3;
    size_t bytes = count * size_of(type);
    memmove(to, (const char *)from + (size_t)own * bytes, bytes);
    return record("ReduceScatter %zu of %d by %d", count, type, op);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, nccl_comm *comm,
                  void *stream) {
    (void)comm;
    if (misses(stream)) return 3;
    size_t bytes = count * size_of(type);
    for (int i = 0; i < ranks; i++) memmove((char *)to + (size_t)i * bytes, from, bytes);
    return record("AllGather %zu of %d", count, type);
}

int ncclSend(const void *from, size_t count, int type, int to, nccl_comm *comm, void *stream) {
    (void)from, (void)comm;
    if (misses(stream)) return 3;
    return record("Send %zu of %d to %d", count, type, to);
}

int ncclRecv(void *to, size_t count, int type, int from, nccl_comm *comm, void *stream) {
    (void)to, (void)comm;
    if (misses(stream)) return 3;
    return record("Recv %zu of %d from %d", count, type, from);
}
