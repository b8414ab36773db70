/* shares.c - the sum over shares is the binary tree by index, whoever computes which part of it. */
#include "tests/c/owners.h"
#include "tests/support/fail.h"

enum { N = 100, MOST = 19 };

static const sr_param_spec spec = {.name = "w", .ndim = 1, .shape = {N}};
static float share[MOST][N];

static void fill_shares(void) {
    uint32_t x = 1;
    for (int s = 0; s < MOST; s++)
        for (int i = 0; i < N; i++) {
            x = x * 1664525u + 1013904223u;
            share[s][i] = (float)((double)x / 4e9 - 0.5) * (float)(1 << (x >> 28));
        }
}

/* The sum of shares [first, first + 2^level) that an update of `total` has, by the definition. */
static void tree(float out[N], int first, int level, int total) {
    int half = first + (1 << level) / 2;
    if (level == 0) {
        memcpy(out, share[first], sizeof share[first]);
    } else if (half >= total) {
        tree(out, first, level - 1, total);
    } else {
        float right[N];
        tree(out, first, level - 1, total);
        tree(right, half, level - 1, total);
        for (int i = 0; i < N; i++) out[i] += right[i];
    }
}

static int levels(int total) {
    int level = 0;
    while (1 << level < total) level++;
    return level;
}

static bool grad_is(const sr_params *p, const float wanted[N]) {
    float got[N];
    CHECK_OK(sr_tensor_read(p->list[0].leaf->grad, got, SR_F32));
    return memcmp(got, wanted, sizeof got) == 0;
}

static sr_status accumulate(sr_params *p, const float g[N]) {
    TRY_OWN(sr_tensor, *more, sr_tensor_full(&more, p->device, SR_F32, 1, (int64_t[]){N}, 0));
    SR_TRY(sr_tensor_write(more, g, SR_F32));
    return p->device->backend->axpby(p->list[0].leaf->grad, more, 1, 1);
}

static sr_status add_share(sr_shares *s, int index) {
    SR_TRY(accumulate(s->params, share[index]));
    return sr_shares_end(s, index);
}

static void test_tree(sr_device *d) {
    for (int total = 1; total <= MOST; total++) {
        float wanted[N];
        OWN(sr_params, *p, sr_params_new(&p, d, &spec, 1, d->real));
        OWN(sr_shares, *s, sr_shares_new(&s, p));
        tree(wanted, 0, levels(total), total);
        for (int round = 0; round < 2; round++) {
            CHECK_OK(sr_shares_begin(s, total));
            for (int i = 0; i < total; i++) CHECK_OK(add_share(s, i));
            CHECK(grad_is(p, wanted));
            CHECK_OK(sr_params_zero_grad(p));
        }
        CHECK(s->room <= levels(total));
    }
}

/* A rank that computes shares [first, end) holds the fewest nodes that cover them, with their sums.
 */
static void check_nodes(sr_device *d, int first, int end, int total) {
    sr_share_node node[SR_MOST_NODES];
    OWN(sr_params, *p, sr_params_new(&p, d, &spec, 1, d->real));
    OWN(sr_shares, *s, sr_shares_new(&s, p));
    CHECK_OK(sr_shares_begin(s, total));
    for (int i = first; i < end; i++) CHECK_OK(add_share(s, i));
    int64_t n = sr_shares_nodes(node, total, first, end);
    CHECK(s->count == (first == 0 && end == total ? 0 : n));
    CHECK(s->room == sr_shares_most(total, first, end, false));
    for (int64_t i = 0; i < n; i++) {
        float wanted[N], got[2 * N]; /* with the padding of the store */
        const sr_tensor *sum = sr_shares_sum(s, node[i].level, node[i].index);
        tree(wanted, (int)(node[i].index << node[i].level), node[i].level, total);
        CHECK(sum != NULL && sr_tensor_elements(sum) <= 2 * N);
        CHECK_OK(sr_tensor_read(sum, got, SR_F32));
        CHECK(memcmp(got, wanted, sizeof wanted) == 0);
    }
}

static void test_ranks(sr_device *d) {
    static const int cuts[][4] = {{0, 4, 8, 8}, {0, 3, 6, 8}, {0, 1, 7, 8}, {0, 5, 5, 7}};
    for (int c = 0; c < 4; c++)
        for (int r = 0; r < 3; r++) check_nodes(d, cuts[c][r], cuts[c][r + 1], cuts[c][3]);
}

static void test_unfinished(sr_device *d) {
    float wanted[N];
    OWN(sr_params, *p, sr_params_new(&p, d, &spec, 1, d->real));
    OWN(sr_shares, *s, sr_shares_new(&s, p));
    CHECK_FAILS(sr_shares_end(s, 0), SR_EINVAL, "no update has begun");
    CHECK_FAILS(sr_shares_begin(s, 0), SR_EINVAL, "choose 1 to");
    CHECK_OK(sr_shares_begin(s, 6));
    CHECK_OK(add_share(s, 0));
    CHECK_OK(add_share(s, 1));
    CHECK_FAILS(sr_shares_end(s, 1), SR_EINVAL, "share 1 was added before");
    CHECK_FAILS(sr_shares_end(s, 6), SR_EINVAL, "has no share 6");
    CHECK_OK(accumulate(p, share[2])); /* a share that does not come to its end */
    CHECK_OK(sr_shares_finish(s));
    for (int i = 0; i < N; i++) wanted[i] = share[2][i] + (share[0][i] + share[1][i]);
    CHECK(grad_is(p, wanted));
    CHECK_OK(sr_shares_finish(s));
    CHECK(grad_is(p, wanted));
    CHECK_OK(sr_shares_begin(s, 4));
    CHECK_OK(sr_shares_end(s, 0)); /* the old value belongs to the first share */
    sr_shares_drop(s);
    CHECK_OK(sr_shares_begin(s, 1));
    CHECK_OK(add_share(s, 0));
    CHECK(grad_is(p, share[0]));
}

static sr_status whole_life(sr_device *d) {
    TRY_OWN(sr_params, *p, sr_params_new(&p, d, &spec, 1, d->real));
    TRY_OWN(sr_shares, *s, sr_shares_new(&s, p));
    SR_TRY(sr_shares_begin(s, 8));
    for (int i = 0; i < 8; i++) SR_TRY(add_share(s, i));
    return SR_OK;
}

static void test_memory(sr_device *d) {
    CHECK_OK(whole_life(d));
    CHECK_STARVED_BUT(false, whole_life(d), d->bytes_used);
}

int main(void) {
    int64_t live = sr_mem_live();
    sr_device *d;
    CHECK_OK(sr_device_open(&d, &sr_backend_cpu, 0, NULL));
    fill_shares();
    test_tree(d);
    test_ranks(d);
    test_unfinished(d);
    test_memory(d);
    sr_device_close(d);
    CHECK(sr_mem_live() == live);
    return CHECK_DONE();
}
