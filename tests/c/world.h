/* world.h - ranks as threads of one process: an engine for tests of what several ranks do.
 *
 *     static void work(sr_comm *comm, void *context) { ... the calls of one rank ... }
 *     world_run(3, &sr_backend_cpu, work, context);
 *
 * Every rank has a thread, a device of its own and an sr_comm of `world_engine`.  A send returns
 * when its receive has taken the data, so an order of calls that could block on some engine does
 * not end here.  A failed check ends nothing: the others continue.
 */
#pragma once

#include <pthread.h>
#include <stdlib.h>

#include "tests/c/owners.h"

enum { WORLD_MOST = 16 };

/* What one rank has put down for another. */
typedef struct world_slot {
    const void *data;
    size_t bytes;
} world_slot;

typedef struct world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ranks, arrived;
    int64_t round;                           /* barriers passed */
    world_slot slot[WORLD_MOST][WORLD_MOST]; /* by sender and receiver; NULL: empty */
    const void *shown[WORLD_MOST];           /* during a collective call */
} world;

typedef struct world_rank {
    sr_comm comm;
    world *world;
    const sr_backend *backend;
    void (*work)(sr_comm *comm, void *context);
    void *context;
} world_rank;

static size_t world_bytes(const sr_tensor *x) {
    return (size_t)sr_tensor_elements(x) * sr_dtype_size(x->dtype);
}

static sr_status world_wait(sr_comm *comm) {
    (void)comm;
    return SR_OK;
}

static sr_status world_barrier(sr_comm *comm) {
    world *w = comm->state;
    pthread_mutex_lock(&w->lock);
    int64_t round = w->round;
    if (++w->arrived == w->ranks) {
        w->arrived = 0;
        w->round++;
        pthread_cond_broadcast(&w->changed);
    }
    while (w->round == round) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return SR_OK;
}

static sr_status world_send(sr_comm *comm, const sr_tensor *x, int to) {
    world *w = comm->state;
    world_slot *slot = &w->slot[comm->rank][to];
    pthread_mutex_lock(&w->lock);
    while (slot->data != NULL) pthread_cond_wait(&w->changed, &w->lock);
    *slot = (world_slot){sr_tensor_data(x), world_bytes(x)};
    pthread_cond_broadcast(&w->changed);
    while (slot->data == sr_tensor_data(x)) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return SR_OK;
}

static sr_status world_receive(sr_comm *comm, sr_tensor *x, int from) {
    world *w = comm->state;
    world_slot *slot = &w->slot[from][comm->rank];
    pthread_mutex_lock(&w->lock);
    while (slot->data == NULL) pthread_cond_wait(&w->changed, &w->lock);
    bool fits = slot->bytes == world_bytes(x);
    if (fits) memcpy(sr_tensor_data(x), slot->data, slot->bytes);
    slot->data = NULL;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    sr_tensor_wrote(x);
    return fits ? SR_OK : sr_fail(SR_EINVAL, "world: a message of another size");
}

/* Between two barriers every rank may read what all others show. */
static void world_show(sr_comm *comm, const sr_tensor *x) {
    ((world *)comm->state)->shown[comm->rank] = sr_tensor_data(x);
    world_barrier(comm);
}

static sr_status world_broadcast(sr_comm *comm, sr_tensor *x, int root) {
    world_show(comm, x);
    if (comm->rank != root)
        memcpy(sr_tensor_data(x), ((world *)comm->state)->shown[root], world_bytes(x));
    sr_tensor_wrote(x);
    return world_barrier(comm);
}

/* part = elements first, first + 1 ... of the sum over ranks, in f32. */
static sr_status world_sum(sr_comm *comm, sr_tensor *part, const sr_tensor *x, int64_t first) {
    const world *w = comm->state;
    int64_t n = sr_tensor_elements(part);
    float *sum = calloc((size_t)n + 1, sizeof *sum);
    world_show(comm, x);
    for (int r = 0; r < w->ranks; r++)
        for (int64_t i = 0; i < n; i++) sum[i] += ((const float *)w->shown[r])[first + i];
    world_barrier(comm);
    memcpy(sr_tensor_data(part), sum, (size_t)n * sizeof *sum);
    sr_tensor_wrote(part);
    free(sum);
    return SR_OK;
}

static sr_status world_all_reduce(sr_comm *comm, sr_tensor *x) {
    return world_sum(comm, x, x, 0);
}

static sr_status world_reduce(sr_comm *comm, sr_tensor *x, int root) {
    sr_tensor part = *x;
    if (comm->rank != root) part.shape[0] = 0;
    return world_sum(comm, &part, x, 0);
}

static sr_status world_reduce_scatter(sr_comm *comm, sr_tensor *part, const sr_tensor *x) {
    return world_sum(comm, part, x, comm->rank * sr_tensor_elements(part));
}

static sr_status world_all_gather(sr_comm *comm, sr_tensor *x, const sr_tensor *part) {
    const world *w = comm->state;
    size_t bytes = world_bytes(part);
    world_show(comm, part);
    for (int r = 0; r < w->ranks; r++)
        memcpy((char *)sr_tensor_data(x) + (size_t)r * bytes, w->shown[r], bytes);
    sr_tensor_wrote(x);
    return world_barrier(comm);
}

static bool world_launched(void) {
    return true;
}

static sr_status world_open(sr_comm *comm) {
    (void)comm;
    return SR_OK;
}

static void world_close(sr_comm *comm) {
    (void)comm;
}

static void world_abort(sr_comm *comm, int code) {
    (void)comm;
    exit(code);
}

static const sr_comm_engine world_engine = {
    .abi = SR_ABI,
    .bytes = sizeof(sr_comm_engine),
    .name = "world",
    .launched = world_launched,
    .open = world_open,
    .close = world_close,
    .wait = world_wait,
    .progress = world_wait,
    .barrier = world_barrier,
    .abort = world_abort,
    .broadcast = world_broadcast,
    .all_reduce = world_all_reduce,
    .reduce = world_reduce,
    .reduce_scatter = world_reduce_scatter,
    .all_gather = world_all_gather,
    .send = world_send,
    .receive = world_receive,
};

static void *world_thread(void *argument) {
    world_rank *r = argument;
    CHECK_OK(sr_device_open(&r->comm.device, r->backend, 0, NULL));
    r->work(&r->comm, r->context);
    world_barrier(&r->comm);
    sr_device_close(r->comm.device);
    return NULL;
}

/* Runs `work` on each of `ranks` ranks, which get the same context, and waits for all. */
static inline void world_run(int ranks, const sr_backend *backend,
                             void (*work)(sr_comm *comm, void *context), void *context) {
    world *w = calloc(1, sizeof *w);
    world_rank rank[WORLD_MOST];
    pthread_t thread[WORLD_MOST];
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->ranks = ranks;
    for (int r = 0; r < ranks; r++) {
        sr_comm comm = {.engine = &world_engine, .rank = r, .ranks = ranks, .state = w};
        rank[r] = (world_rank){comm, w, backend, work, context};
        CHECK(pthread_create(&thread[r], NULL, world_thread, &rank[r]) == 0);
    }
    for (int r = 0; r < ranks; r++) pthread_join(thread[r], NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
