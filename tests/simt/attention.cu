/* attention.cu - the attention kernels themselves: lse, both ways to share the
 * backward pass, outputs that are written in full, and accesses without conflicts of banks. */
#include <stdlib.h>

#include "kernels/cuda/attention.cuh"
#include "tests/simt/simt_device.h"

/* ---- a problem and its solution in f64 ------------------------------------------------------- */

struct problem {
    int32_t sequences, len[8], start[8];
    int64_t rows;
    int heads, d;
    uint32_t keep;
    float deviation;
};

enum { LAYER = 5, SEED = 11, START = 3 /* what dbias holds before */ };

struct solution {
    sr_layout *layout;
    sr_tensor *qkv, *dout, *out, *lse, *dqkv, *dbias;
    double *o, *l, *dx; /* expected */
};

static double number(uint32_t i, uint32_t salt) {
    sr_u32x4 w = sr_philox(sr_u32x4{{i, salt, 0, 0}}, SEED, SR_ROUNDS_DATA);
    double sum = 0; /* nearly normal */
    for (int k = 0; k < 4; k++) sum += sr_unit(w.w[k]) - 0.5;
    return sum * 1.7320508;
}

static sr_tensor *tensor(int64_t rows, int64_t width, uint32_t salt, float deviation) {
    const int64_t shape[] = {rows, width};
    sr_tensor *t;
    CHECK_OK(sr_tensor_new(&t, device, SR_BF16, 2, shape));
    uint16_t *x = data_of<uint16_t>(t);
    for (int64_t i = 0; i < rows * width; i++)
        x[i] = salt == 0 ? 0xFFFF : sr_bf16_from_f32((float)number((uint32_t)i, salt) * deviation);
    return t;
}

static double at(const sr_tensor *t, int64_t i) {
    return sr_bf16_to_f32(data_of<uint16_t>(t)[i]);
}

/* One head of one sequence. */
static void solve_head(solution *s, const problem *p, int seq, int head) {
    const int n = p->len[seq], d = p->d;
    const int64_t hidden = (int64_t)p->heads * d, start = p->start[seq];
    const double scale = 1 / sqrt((double)d), keep = 256.0 / p->keep;
    double *prob = (double *)malloc(sizeof *prob * (size_t)n * 3), *z = prob + n, *dp = z + n;
    for (int i = 0; i < n; i++) {
        const int64_t q = (start + i) * 3 * hidden + head * d, o = (start + i) * hidden + head * d;
        double most = -1e300, sum = 0, delta = 0;
        for (int j = 0; j < n; j++) {
            const int64_t k = (start + j) * 3 * hidden + hidden + head * d;
            prob[j] = dp[j] = 0;
            for (int c = 0; c < d; c++) {
                prob[j] += scale * at(s->qkv, q + c) * at(s->qkv, k + c);
                dp[j] += at(s->dout, o + c) * at(s->qkv, k + hidden + c);
            }
            most = fmax(most, prob[j]);
            const sr_u32x4 c =
                sr_counter((uint32_t)i, sr_drop_group((uint32_t)j), s->layout->uid[seq],
                           SR_PURPOSE_DROP_ATTENTION, LAYER, (uint32_t)head, s->layout->epoch[seq]);
            const sr_u32x4 w = sr_philox(c, SEED, SR_ROUNDS_DROPOUT);
            z[j] = sr_drop_byte(w, (uint32_t)j) < p->keep ? keep : 0;
        }
        for (int j = 0; j < n; j++) sum += exp(prob[j] - most);
        s->l[head * p->rows + start + i] = most + log(sum);
        for (int j = 0; j < n; j++) {
            prob[j] = exp(prob[j] - most) / sum;
            delta += prob[j] * z[j] * dp[j];
        }
        for (int j = 0; j < n; j++) {
            const int64_t k = (start + j) * 3 * hidden + hidden + head * d;
            const double derivative = prob[j] * (dp[j] * z[j] - delta) * scale;
            for (int c = 0; c < d; c++) {
                s->o[o + c] += prob[j] * z[j] * at(s->qkv, k + hidden + c);
                s->dx[q + c] += derivative * at(s->qkv, k + c);
                s->dx[k + c] += derivative * at(s->qkv, q + c);
                s->dx[k + hidden + c] += prob[j] * z[j] * at(s->dout, o + c);
            }
        }
    }
    free(prob);
}

static void prepare(solution *s, const problem *p) {
    const int64_t hidden = (int64_t)p->heads * p->d;
    CHECK_OK(
        sr_layout_new(&s->layout, p->sequences, p->start, p->len, nullptr, nullptr, p->rows, SEED));
    s->qkv = tensor(p->rows, 3 * hidden, 1, p->deviation);
    s->dout = tensor(p->rows, hidden, 2, 1);
    s->out = tensor(p->rows, hidden, 0, 1);
    s->dqkv = tensor(p->rows, 3 * hidden, 0, 1);
    const int64_t shape[] = {p->heads, p->rows};
    CHECK_OK(sr_tensor_new(&s->lse, device, SR_F32, 2, shape));
    memset(data_of<void>(s->lse), 0xFF, (size_t)(p->heads * p->rows) * 4);
    const int64_t width[] = {3 * hidden};
    CHECK_OK(sr_tensor_new(&s->dbias, device, SR_F32, 1, width));
    for (int64_t i = 0; i < 3 * hidden; i++) data_of<float>(s->dbias)[i] = START;
    s->o = (double *)calloc((size_t)(p->rows * hidden), sizeof(double));
    s->l = (double *)calloc((size_t)(p->rows * p->heads), sizeof(double));
    s->dx = (double *)calloc((size_t)(3 * p->rows * hidden), sizeof(double));
    for (int seq = 0; seq < p->sequences; seq++)
        for (int head = 0; head < p->heads; head++) solve_head(s, p, seq, head);
}

static void clear(solution *s) {
    sr_layout_release(s->layout);
    sr_tensor *all[] = {s->qkv, s->dout, s->out, s->lse, s->dqkv, s->dbias};
    for (sr_tensor *t : all) sr_tensor_release(t);
    free(s->o);
    free(s->l);
    free(s->dx);
}

/* ---- running --------------------------------------------------------------------------------- */

static attention_job job_of(const solution *s, const problem *p) {
    attention_job j = {};
    j.g = g();
    j.d = p->d;
    j.layout = s->layout;
    j.out = s->out;
    j.lse = s->lse;
    j.qkv = s->qkv;
    j.call.heads = j.call.kv_heads = p->heads;
    j.call.before = j.call.after = attention::FAR;
    j.call.rows = (size_t)p->rows;
    j.call.scale = 1 / sqrtf((float)p->d);
    j.call.drop = drop_site{SEED, p->keep, SR_PURPOSE_DROP_ATTENTION << 24 | LAYER << 12,
                            256.0f / (float)p->keep};
    return j;
}

static void run(const solution *s, const problem *p) {
    attention_job j = job_of(s, p);
    CHECK_OK(attention_forward(&j));
    j.dqkv = s->dqkv;
    j.dout = s->dout;
    j.dbias = s->dbias;
    CHECK_OK(attention_backward(&j));
    CHECK_OK(sr_device_wait(device));
}

/* Relative Frobenius error of a part of the columns; every element must have been written. */
static double error_of(const sr_tensor *t, const double *wanted, int64_t from, int64_t to) {
    const int64_t width = t->shape[1];
    double miss = 0, norm = 1e-12;
    bool written = true;
    for (int64_t r = 0; r < t->shape[0]; r++) {
        for (int64_t c = from; c < to; c++) {
            const int64_t i = r * width + c;
            written = written && data_of<uint16_t>(t)[i] != 0xFFFF;
            miss += pow(at(t, i) - wanted[i], 2);
            norm += wanted[i] * wanted[i];
        }
    }
    CHECK(written);
    return sqrt(miss / norm);
}

static void check_lse(const solution *s, const problem *p) {
    double most = 0;
    bool slack = true;
    for (int head = 0; head < p->heads; head++) {
        for (int64_t r = 0; r < p->rows; r++) {
            const float got = data_of<float>(s->lse)[head * p->rows + r];
            if (s->layout->owner[r] < 0)
                slack = slack && got == INFINITY;
            else
                most = fmax(most, fabs(got - s->l[head * p->rows + r]));
        }
    }
    CHECK(slack);
    CHECK(most < 1e-5 * p->deviation * p->deviation);
    if (!(most < 1e-5 * p->deviation * p->deviation)) printf("lse: %g\n", most);
}

/* dbias: sums of what is in dqkv, which a pass has added. */
static void check_bias(const solution *s) {
    const int64_t width = s->dqkv->shape[1];
    double most = 0, largest = 0;
    for (int64_t c = 0; c < width; c++) {
        double sum = 0;
        for (int64_t r = 0; r < s->dqkv->shape[0]; r++) sum += at(s->dqkv, r * width + c);
        largest = fmax(largest, fabs(sum));
        most = fmax(most, fabs(data_of<float>(s->dbias)[c] - START - sum));
    }
    CHECK(most < 4e-6 * fmax(largest, START));
    if (!(most < 4e-6 * fmax(largest, START))) printf("dbias: %g of %g\n", most, largest);
}

static void check_problem(const problem *p, double forward, double backward) {
    solution s;
    prepare(&s, p);
    run(&s, p);
    const int64_t hidden = (int64_t)p->heads * p->d;
    check_lse(&s, p);
    check_bias(&s);
    const double e[] = {error_of(s.out, s.o, 0, hidden), error_of(s.dqkv, s.dx, 0, hidden),
                        error_of(s.dqkv, s.dx, hidden, 2 * hidden),
                        error_of(s.dqkv, s.dx, 2 * hidden, 3 * hidden)};
    bool right = e[0] < forward && e[1] < backward && e[2] < backward && e[3] < backward;
    CHECK(right);
    if (!right) printf("heads of %d: %g %g %g %g\n", p->d, e[0], e[1], e[2], e[3]);
    clear(&s);
}

/* Groups, a narrow tile, wide tiles, gaps and an end that no sequence owns. */
static problem usual(int d, uint32_t keep) {
    return problem{5, {20, 40, 150, 1, 64}, {3, 23, 70, 220, 230}, 300, 2, d, keep, 1};
}

static void numbers() {
    for (int d = 32; d <= 128; d *= 2) {
        for (uint32_t keep = 256; keep >= 200; keep -= 56) {
            const problem p = usual(d, keep);
            check_problem(&p, 4e-3, 6e-3);
        }
    }
    problem large = usual(64, 256); /* scores of thousands */
    large.deviation = 150;
    solution s;
    prepare(&s, &large);
    run(&s, &large);
    CHECK(error_of(s.out, s.o, 0, 128) < 4e-3);
    clear(&s);
}

/* ---- who does the backward pass -------------------------------------------------------------- */

static void modes() {
    for (int d = 32; d <= 128; d *= 2) {
        const problem p = usual(d, 200);
        const size_t width = (size_t)(3 * p.heads * p.d), bytes = (size_t)p.rows * width * 2;
        solution all[3]; /* one block has a sequence; 132: an H100; one block has 64 rows of it */
        const int before = g()->processors, processors[] = {1, 132, 1000};
        for (int i = 0; i < 3; i++) {
            prepare(&all[i], &p);
            g()->processors = processors[i];
            run(&all[i], &p);
            check_bias(&all[i]);
            const sr_tensor *dqkv = all[i].dqkv, *dbias = all[i].dbias;
            CHECK(memcmp(data_of<void>(all[0].dqkv), data_of<void>(dqkv), bytes) == 0);
            CHECK(memcmp(data_of<void>(all[0].dbias), data_of<void>(dbias), width * 4) == 0);
        }
        g()->processors = before;
        for (solution &s : all) clear(&s);
    }
}

/* ---- costs that the host can count ----------------------------------------------------------- */

/* Sums the units and best units of accesses to shared memory in the report. */
static void read_report(FILE *report, long *units, long *best) {
    char line[500], op[64], place[200], access[64];
    *units = *best = 0;
    while (fgets(line, sizeof line, report) != nullptr) {
        long launches, requests, cost, least;
        if (sscanf(line, "%63[^\t]\t%199[^\t]\t%63[^\t]\t%ld\t%ld\t%ld\t%ld", op, place, access,
                   &launches, &requests, &cost, &least) != 7)
            continue;
        if (strncmp(access, "shared", 6) != 0 && strcmp(access, "matrix") != 0) continue;
        *units += cost;
        *best += least;
        if (cost != least) printf("%s %s %s: %ld, at best %ld\n", op, place, access, cost, least);
    }
}

static void conflicts() {
    char path[] = "/tmp/simt-attention-XXXXXX";
    FILE *report = fdopen(mkstemp(path), "r");
    sr_device *before = device;
    setenv("SEQRUN_SIMT_REPORT", path, 1);
    CHECK_OK(sr_device_open(&device, backend, 0, nullptr));
    for (int d = 32; d <= 128; d *= 2) {
        problem p = usual(d, 200);
        solution s;
        prepare(&s, &p);
        run(&s, &p);
        g()->processors = 1;
        run(&s, &p);
        clear(&s);
    }
    sr_device_close(device);
    device = before;
    unsetenv("SEQRUN_SIMT_REPORT");
    long units, best;
    read_report(report, &units, &best);
    CHECK(best > 0 && units == best);
    fclose(report);
    unlink(path);
}

int main() {
    open_device();
    numbers();
    modes();
    conflicts();
    sr_device_close(device);
    return CHECK_DONE();
}
