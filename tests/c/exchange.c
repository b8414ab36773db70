/* exchange.c - several ranks compute the bits that one rank computes, whatever their number. */
#include "core/batch/part.h"
#include "tests/support/world.h"

enum { SIZES = 5, MOST_SHARES = 33, MOST_RANKS = 9 };

/* Pieces of 32,768 elements: cuts fall between and inside parameters, and some ranks own none. */
static const int64_t sizes[SIZES] = {70000, 30, 33000, 100, 20000};
static sr_param_spec specs[SIZES];

static void name_all(void) {
    static char names[SIZES][8];
    for (int i = 0; i < SIZES; i++) {
        snprintf(names[i], sizeof names[i], "p%d", i);
        specs[i] = (sr_param_spec){.name = names[i], .ndim = 1, .shape = {sizes[i]}};
    }
}

/* The gradient of a share: numbers whose sum depends on the order. */
static void add_share(sr_params *p, int64_t share) {
    float *grad = SR_DATA(float, p->grad);
    for (int64_t i = 0; i < p->stored; i++) {
        uint32_t x = (uint32_t)(i * 2654435761u) ^ (uint32_t)(share * 40503u + 1);
        x = (x ^ x >> 15) * 2246822519u;
        grad[i] += (float)((double)x / 4e9 - 0.5) * (float)(1 << (x >> 29));
    }
}

typedef struct job {
    int64_t total;
    bool library, gather;
    float *wanted;          /* (stored) */
    bool good[WORLD_MOST];  /* by rank */
    double off[WORLD_MOST]; /* largest difference */
    sr_range piece[WORLD_MOST];
} job;

/* What one rank does in an update. */
static sr_status update(sr_params *p, sr_shares *s, sr_exchange *x, const sr_comm *comm, job *j) {
    SR_TRY(sr_params_zero_grad(p));
    SR_TRY(sr_shares_begin(s, j->total));
    int64_t end = sr_part_first(j->total, comm->rank + 1, comm->ranks);
    for (int64_t i = sr_part_first(j->total, comm->rank, comm->ranks); i < end; i++) {
        add_share(p, i);
        SR_TRY(sr_shares_end(s, i));
    }
    if (j->library) return sr_exchange_library(x);
    SR_TRY(sr_exchange_reduce(x, j->total));
    return j->gather ? sr_exchange_gather(x) : SR_OK;
}

static void compare(const sr_params *p, const sr_exchange *x, int rank, job *j) {
    const float *got = SR_DATA(float, p->grad);
    sr_range piece = sr_exchange_piece(x, rank);
    if (j->gather || j->library) piece = (sr_range){0, p->stored};
    j->piece[rank] = piece;
    for (int64_t i = piece.first; i < piece.last; i++) {
        if (memcmp(&got[i], &j->wanted[i], sizeof(float)) != 0) j->good[rank] = false;
        double off = (double)got[i] - (double)j->wanted[i];
        if (off < 0) off = -off;
        if (off > j->off[rank]) j->off[rank] = off;
    }
}

static void work(sr_comm *comm, void *context) {
    job *j = context;
    sr_params *p;
    sr_shares *s;
    sr_exchange *x;
    j->good[comm->rank] = true;
    j->off[comm->rank] = 0;
    CHECK_OK(sr_params_new(&p, comm->device, specs, SIZES, SR_F32));
    CHECK_OK(sr_shares_new(&s, p));
    CHECK_OK(sr_exchange_new(&x, s, comm));
    for (int round = 0; round < 2; round++) {
        sr_status st = update(p, s, x, comm, j);
        if (st != SR_OK) printf("rank %d: %s\n", comm->rank, sr_message());
        if (st != SR_OK) j->good[comm->rank] = false;
        compare(p, x, comm->rank, j);
    }
    sr_exchange_free(x);
    sr_shares_free(s);
    sr_params_free(p);
}

/* The gradient of one rank alone, by shares.h. */
static float *alone(sr_device *d, int64_t total) {
    sr_params *p;
    sr_shares *s;
    CHECK_OK(sr_params_new(&p, d, specs, SIZES, SR_F32));
    CHECK_OK(sr_shares_new(&s, p));
    CHECK_OK(sr_shares_begin(s, total));
    for (int64_t i = 0; i < total; i++) {
        add_share(p, i);
        CHECK_OK(sr_shares_end(s, i));
    }
    size_t bytes = (size_t)p->stored * sizeof(float);
    float *sum = malloc(bytes);
    memcpy(sum, SR_DATA(float, p->grad), bytes);
    sr_shares_free(s);
    sr_params_free(p);
    return sum;
}

static bool all_good(const job *j, int ranks) {
    for (int r = 0; r < ranks; r++)
        if (!j->good[r]) return false;
    return true;
}

static void test_bits(sr_device *d) {
    for (int64_t total = 1; total <= MOST_SHARES; total += total < 17 ? 1 : 8) {
        float *wanted = alone(d, total);
        for (int ranks = 1; ranks <= MOST_RANKS; ranks += ranks == 5 ? 3 : 1) {
            job j = {.total = total, .wanted = wanted, .gather = total % 2 == 0};
            world_run(ranks, &sr_backend_cpu, work, &j);
            if (!all_good(&j, ranks)) printf("%d shares, %d ranks\n", (int)total, ranks);
            CHECK(all_good(&j, ranks));
            for (int r = 1; r < ranks && !j.gather; r++)
                CHECK(j.piece[r].first == j.piece[r - 1].last);
        }
        free(wanted);
    }
}

/* The library's sum is near, but has other bits. */
static void test_library(sr_device *d) {
    float *wanted = alone(d, 7);
    job j = {.total = 7, .wanted = wanted, .library = true};
    world_run(3, &sr_backend_cpu, work, &j);
    for (int r = 0; r < 3; r++) CHECK(j.off[r] < 1e-3);
    free(wanted);
}

/* ---- one thread -------------------------------------------------------------------------------
 */

static sr_status nothing(sr_comm *comm) {
    (void)comm;
    return SR_OK;
}
static sr_status no_send(sr_comm *comm, const sr_tensor *x, int to) {
    (void)comm, (void)x, (void)to;
    return SR_OK;
}
static sr_status no_receive(sr_comm *comm, sr_tensor *x, int from) {
    (void)comm, (void)x, (void)from;
    return SR_OK;
}

/* Rank 1 of 3, of which the others are not there. */
static sr_status whole_life(sr_device *d, bool early) {
    const sr_comm_engine engine = {.name = "none",
                                   .wait = nothing,
                                   .send = no_send,
                                   .receive = no_receive,
                                   .broadcast = no_receive};
    sr_comm comm = {.engine = &engine, .device = d, .rank = 1, .ranks = 3};
    job j = {.total = 11, .gather = true};
    sr_params *p = NULL;
    sr_shares *s = NULL;
    sr_exchange *x = NULL;
    sr_status st = sr_params_new(&p, d, specs, SIZES, SR_F32);
    if (st == SR_OK) st = sr_shares_new(&s, p);
    if (st == SR_OK) st = sr_exchange_new(&x, s, &comm);
    if (st == SR_OK && early) {
        st = sr_shares_begin(s, 11);
        if (st == SR_OK) st = sr_exchange_reduce(x, 11);
    } else if (st == SR_OK) {
        st = update(p, s, x, &comm, &j);
    }
    sr_exchange_free(x);
    sr_shares_free(s);
    sr_params_free(p);
    return st;
}

static void test_memory(sr_device *d) {
    CHECK_OK(whole_life(d, false));
    int64_t used = (int64_t)d->bytes_used, n = 0;
    sr_status st = SR_ENOMEM;
    while (st != SR_OK && n < 3000) {
        sr_mem_fail_at(++n, false);
        st = whole_life(d, false);
        sr_mem_fail_at(0, false);
        CHECK(st == SR_OK || st == SR_ENOMEM);
        CHECK((int64_t)d->bytes_used == used);
    }
    CHECK(st == SR_OK && n > 10);
    CHECK_FAILS(whole_life(d, true), SR_EINVAL, "must not be left early");
}

int main(void) {
    int64_t live = sr_mem_live();
    sr_device *d;
    name_all();
    CHECK_OK(sr_device_open(&d, &sr_backend_cpu, 0, NULL));
    test_bits(d);
    test_library(d);
    test_memory(d);
    sr_device_close(d);
    CHECK(sr_mem_live() == live);
    return CHECK_DONE();
}
