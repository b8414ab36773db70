/* exchange.c - several ranks compute the bits that one rank computes, whatever their number. */
#include "tests/support/fail.h"
#include "tests/c/world.h"

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
static void add_range(sr_params *p, int64_t share, int64_t first, int64_t last) {
    float *grad = SR_DATA(float, p->grad);
    for (int64_t i = first; i < last; i++) {
        uint32_t x = (uint32_t)(i * 2654435761u) ^ (uint32_t)(share * 40503u + 1);
        x = (x ^ x >> 15) * 2246822519u;
        grad[i] += (float)((double)x / 4e9 - 0.5) * (float)(1 << (x >> 29));
    }
}

static void add_share(sr_params *p, int64_t share) {
    add_range(p, share, 0, p->stored);
}

/* The same by a backward pass, from the last parameter to the first, which is added to twice. */
static void pass_back(sr_params *p, int64_t share) {
    sr_grad_watch *watch = sr_grad_watched();
    for (int64_t i = 0; i <= p->count && watch != NULL; i++)
        watch->expects(watch, p->list[i % p->count].leaf);
    for (int64_t i = p->count; i >= 0; i--) {
        sr_param *param = &p->list[i % p->count];
        int64_t end = i + 1 < p->count ? param[1].offset : p->stored;
        p->grad->storage->version++;
        if (i < p->count) add_range(p, share, param->offset, end);
        if (watch != NULL) watch->added(watch, param->leaf);
    }
}

typedef enum fault { NONE, LATE, HIDDEN, WRITTEN } fault;

typedef struct job {
    int64_t total;
    bool library, gather, overlap, sharded;
    int64_t bucket;
    fault fault;
    float *wanted;          /* (stored) */
    bool good[WORLD_MOST];  /* by rank */
    double off[WORLD_MOST]; /* largest difference */
    sr_range part[WORLD_MOST];
} job;

static bool in_pass(const sr_comm *comm) {
    return comm->exchanging;
}

/* Something goes wrong after the last backward pass. */
static void go_wrong(sr_params *p, fault fault) {
    sr_grad_watch *watch = sr_grad_watched();
    sr_tensor *leaf = p->list[p->count - 1].leaf;
    if (fault == LATE && watch != NULL) watch->expects(watch, leaf);
    if (fault == LATE || fault == HIDDEN || fault == WRITTEN) p->grad->storage->version++;
    if ((fault == LATE || fault == HIDDEN) && watch != NULL) watch->added(watch, leaf);
}

/* What one rank does in an update. */
static sr_status update(sr_params *p, sr_shares *s, sr_exchange *x, sr_comm *comm, job *j) {
    int64_t first = sr_first_share(j->total, comm->rank, comm->ranks);
    int64_t end = sr_first_share(j->total, comm->rank + 1, comm->ranks);
    SR_TRY(sr_params_zero_grad(p));
    SR_TRY(sr_shares_begin(s, j->total));
    for (int64_t i = first; i < end; i++) {
        bool last = i == end - 1;
        SR_TRY(sr_exchange_batch(x, j->total, last ? i : -1));
        if (in_pass(comm)) CHECK_FAILS(sr_comm_barrier(comm), SR_EINVAL, "call it after the loop");
        pass_back(p, i);
        if (last && in_pass(comm)) go_wrong(p, j->fault);
        if (!last) SR_TRY(sr_shares_end(s, i));
    }
    SR_TRY(sr_exchange_rest(x, j->total, end - 1 >= first ? end - 1 : -1));
    CHECK(!in_pass(comm) && sr_grad_watched() == NULL);
    SR_TRY(sr_exchange_reduce(x, j->total));
    return j->gather ? sr_exchange_gather(x) : SR_OK;
}

static void compare(const sr_params *p, const sr_comm *comm, job *j) {
    int rank = comm->rank;
    const float *got = SR_DATA(float, p->grad);
    sr_range part = sr_optim_cut(p, rank, comm->ranks);
    if (j->gather || (j->library && !j->sharded)) part = (sr_range){0, p->stored};
    j->part[rank] = part;
    for (int64_t i = part.first; i < part.last; i++) {
        if (memcmp(&got[i], &j->wanted[i], sizeof(float)) != 0) j->good[rank] = false;
        double off = (double)got[i] - (double)j->wanted[i];
        if (off < 0) off = -off;
        if (off > j->off[rank]) j->off[rank] = off;
    }
}

static void work(sr_comm *comm, void *context) {
    job *j = context;
    sr_exchange_opts opts = {j->library, j->sharded, j->overlap, j->bucket};
    j->good[comm->rank] = true;
    j->off[comm->rank] = 0;
    OWN(sr_params, *p, sr_params_new(&p, comm->device, specs, SIZES, SR_F32));
    OWN(sr_shares, *s, sr_shares_new(&s, p));
    OWN(sr_exchange, *x, sr_exchange_new(&x, s, comm, &opts));
    for (int round = 0; round < 2; round++) {
        sr_status st = update(p, s, x, comm, j);
        if (st != SR_OK) printf("rank %d: %s\n", comm->rank, sr_message());
        if (st != SR_OK) j->good[comm->rank] = false;
        compare(p, comm, j);
    }
}

/* The gradient of one rank alone, by shares.h. */
static float *alone(sr_device *d, int64_t total) {
    OWN(sr_params, *p, sr_params_new(&p, d, specs, SIZES, SR_F32));
    OWN(sr_shares, *s, sr_shares_new(&s, p));
    CHECK_OK(sr_shares_begin(s, total));
    for (int64_t i = 0; i < total; i++) {
        add_share(p, i);
        CHECK_OK(sr_shares_end(s, i));
    }
    size_t bytes = (size_t)p->stored * sizeof(float);
    float *sum = malloc(bytes);
    memcpy(sum, SR_DATA(float, p->grad), bytes);
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
            j.overlap = total % 3 != 0;
            j.bucket = total % 4 < 2 ? 1 : 60000;
            world_run(ranks, &sr_backend_cpu, work, &j);
            if (!all_good(&j, ranks)) printf("%d shares, %d ranks\n", (int)total, ranks);
            CHECK(all_good(&j, ranks));
            for (int r = 1; r < ranks && !j.gather; r++)
                CHECK(j.part[r].first == j.part[r - 1].last);
        }
        free(wanted);
    }
}

/* The library's sum is near, but has other bits. */
static void test_library(sr_device *d) {
    float *wanted = alone(d, 7);
    for (int i = 0; i < 8; i++) {
        job j = {.total = 7, .wanted = wanted, .library = true, .bucket = 60000};
        j.overlap = (i & 1) != 0;
        j.sharded = (i & 2) != 0;
        j.gather = (i & 4) != 0;
        world_run(3, &sr_backend_cpu, work, &j);
        for (int r = 0; r < 3; r++) CHECK(j.off[r] < 1e-3);
    }
    free(wanted);
}

/* ---- one thread ------------------------------------------------------------------------------ */

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
static sr_status whole_life(sr_device *d, bool early, fault fault) {
    const sr_comm_engine engine = {.name = "none",
                                   .wait = nothing,
                                   .barrier = nothing,
                                   .progress = nothing,
                                   .send = no_send,
                                   .receive = no_receive,
                                   .broadcast = no_receive};
    sr_comm comm = {.engine = &engine, .device = d, .rank = 1, .ranks = 3};
    job j = {.total = 11, .gather = true, .overlap = true, .bucket = 1, .fault = fault};
    sr_exchange_opts opts = {.overlap = true, .bucket = 1};
    TRY_OWN(sr_params, *p, sr_params_new(&p, d, specs, SIZES, SR_F32));
    TRY_OWN(sr_shares, *s, sr_shares_new(&s, p));
    TRY_OWN(sr_exchange, *x, sr_exchange_new(&x, s, &comm, &opts));
    if (early) {
        SR_TRY(sr_shares_begin(s, 11));
        return sr_exchange_reduce(x, 11);
    }
    for (int i = 0; i < 2; i++) SR_TRY(update(p, s, x, &comm, &j));
    return SR_OK;
}

static void test_memory(sr_device *d) {
    CHECK_OK(whole_life(d, false, NONE));
    CHECK_STARVED_BUT(false, whole_life(d, false, NONE), d->bytes_used);
    CHECK_FAILS(whole_life(d, true, NONE), SR_EINVAL, "must not be left early");
}

/* What comes after a bucket has been sent is refused. */
static void test_faults(sr_device *d) {
    CHECK_FAILS(whole_life(d, false, LATE), SR_EINVAL, "'p4' got a gradient on rank 1 after");
    CHECK_FAILS(whole_life(d, false, HIDDEN), SR_EINVAL, "set ranks.overlap=false");
    CHECK_FAILS(whole_life(d, false, WRITTEN), SR_EINVAL, "changed gradients after the backward");
    CHECK(sr_grad_watched() == NULL);
}

/* ---- when buckets are sent ------------------------------------------------------------------- */

static int64_t sent, progressed;

static sr_status count_send(sr_comm *comm, const sr_tensor *x, int to) {
    (void)comm, (void)x, (void)to;
    sent++;
    return SR_OK;
}

static sr_status count_progress(sr_comm *comm) {
    (void)comm;
    progressed++;
    return SR_OK;
}

/* Sends of rank 0 of 2 before and after each parameter's gradient is complete. */
static void test_early(sr_device *d) {
    const sr_comm_engine engine = {.name = "count",
                                   .wait = nothing,
                                   .progress = count_progress,
                                   .send = count_send,
                                   .receive = no_receive};
    sr_comm comm = {.engine = &engine, .device = d, .rank = 0, .ranks = 2};
    sr_exchange_opts opts = {.overlap = true, .bucket = 30000};
    OWN(sr_params, *p, sr_params_new(&p, d, specs, SIZES, SR_F32));
    OWN(sr_shares, *s, sr_shares_new(&s, p));
    OWN(sr_exchange, *x, sr_exchange_new(&x, s, &comm, &opts));
    for (int round = 0; round < 2; round++) {
        sent = progressed = 0;
        CHECK_OK(sr_shares_begin(s, 2));
        CHECK_OK(sr_exchange_batch(x, 2, 0));
        pass_back(p, 0);
        CHECK(sent == 2 * round); /* two buckets reach into the part of the other rank */
        CHECK((progressed > SIZES) == (round == 1));
        CHECK_OK(sr_exchange_rest(x, 2, 0));
        CHECK(sent == 2);
        CHECK_OK(sr_exchange_reduce(x, 2));
    }
}

int main(void) {
    int64_t live = sr_mem_live();
    sr_device *d;
    name_all();
    CHECK_OK(sr_device_open(&d, &sr_backend_cpu, 0, NULL));
    test_bits(d);
    test_library(d);
    test_memory(d);
    test_faults(d);
    test_early(d);
    sr_device_close(d);
    CHECK(sr_mem_live() == live);
    return CHECK_DONE();
}
