#include "core/pack/lp/nnls.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/base/thread.h"

/* The passive columns (those that may be positive) and R with R^T R = A_P^T W A_P.  Row i of R is
 * at r + i * room, upper triangle. */
typedef struct passive {
    const sr_nnls *p;
    int32_t n, room;
    int64_t *column;
    double *r, *x, *solution, *scratch; /* by passive index */
    double *residual;                   /* by row: weight * (target - A x) */
    double *spread;                     /* by row */
    double largest;                     /* norm of weight * target: the scale of gradients */
} passive;

static const uint16_t *rows_of(const sr_nnls *p, int64_t j) {
    return p->row + j * p->width;
}

/* sum of v over the entries of column j */
static double dot(const sr_nnls *p, int64_t j, const double *v) {
    const uint16_t *row = rows_of(p, j);
    double sum = 0;
    for (int32_t k = 0; k < p->width; k++) sum += v[row[k]]; /* v[0] is 0 */
    return sum;
}

static void set_residual(passive *s, const double *x) {
    const sr_nnls *p = s->p;
    memcpy(s->residual, p->target, ((size_t)p->rows + 1) * sizeof *s->residual);
    for (int32_t i = 0; i < s->n; i++)
        for (int32_t k = 0; k < p->width; k++) s->residual[rows_of(p, s->column[i])[k]] -= x[i];
    for (int32_t r = 0; r <= p->rows; r++) s->residual[r] *= p->weight[r];
    s->residual[0] = 0;
}

/* Computes the last row and column of R for column j; false if j is linearly dependent. */
static bool append(passive *s, int64_t j) {
    const sr_nnls *p = s->p;
    double *z = s->scratch, own;
    memset(s->spread, 0, ((size_t)p->rows + 1) * sizeof *s->spread);
    for (int32_t k = 0; k < p->width; k++)
        s->spread[rows_of(p, j)[k]] += p->weight[rows_of(p, j)[k]];
    s->spread[0] = 0;
    own = dot(p, j, s->spread);
    double rest = own;
    for (int32_t i = 0; i < s->n; i++) z[i] = dot(p, s->column[i], s->spread);
    for (int32_t i = 0; i < s->n; i++) { /* R^T z = g, row by row of R */
        const double *row = s->r + (size_t)i * s->room;
        z[i] /= row[i];
        double zi = z[i];
        if (zi == 0) continue;
        for (int32_t k = i + 1; k < s->n; k++) z[k] -= row[k] * zi;
        rest -= zi * zi;
    }
    if (rest < 1e-10 * own || s->n == s->room) return false;
    for (int32_t i = 0; i < s->n; i++) s->r[(size_t)i * s->room + s->n] = z[i];
    s->r[(size_t)s->n * s->room + s->n] = sqrt(rest);
    s->x[s->n] = 0;
    s->column[s->n++] = j;
    return true;
}

/* Removes column `at` and restores the triangle by rotations. */
static void drop(passive *s, int32_t at) {
    const size_t room = (size_t)s->room;
    for (int32_t i = 0; i < s->n; i++) {
        double *row = s->r + (size_t)i * room;
        memmove(row + at, row + at + 1, (size_t)(s->n - at - 1) * sizeof *row);
    }
    memmove(s->column + at, s->column + at + 1, (size_t)(s->n - at - 1) * sizeof *s->column);
    memmove(s->x + at, s->x + at + 1, (size_t)(s->n - at - 1) * sizeof *s->x);
    s->n--;
    for (int32_t i = at; i < s->n; i++) {
        double *a = s->r + (size_t)i * room, *b = a + room;
        double h = hypot(a[i], b[i]), c = a[i] / h, d = b[i] / h;
        for (int32_t k = i; k < s->n; k++) {
            double u = a[k], v = b[k];
            a[k] = c * u + d * v;
            b[k] = c * v - d * u;
        }
    }
}

/* s->solution = the least-squares x of the passive columns, of any sign; one step of refinement
 * recovers the precision lost by the normal equations. */
static void correct(passive *s, double *x) {
    const size_t room = (size_t)s->room;
    double *g = s->scratch;
    set_residual(s, x);
    for (int32_t i = 0; i < s->n; i++) g[i] = dot(s->p, s->column[i], s->residual);
    for (int32_t i = 0; i < s->n; i++) {
        const double *row = s->r + (size_t)i * room;
        g[i] /= row[i];
        for (int32_t k = i + 1; k < s->n; k++) g[k] -= row[k] * g[i];
    }
    for (int32_t i = s->n - 1; i >= 0; i--) {
        const double *row = s->r + (size_t)i * room;
        for (int32_t k = i + 1; k < s->n; k++) g[i] -= row[k] * g[k];
        g[i] /= row[i];
    }
    for (int32_t i = 0; i < s->n; i++) x[i] += g[i];
}

static void solve(passive *s) {
    memcpy(s->solution, s->x, (size_t)s->n * sizeof *s->x);
    correct(s, s->solution);
    correct(s, s->solution);
}

/* Moves x towards the solution while x >= 0; columns that reach 0 become active. */
static void step_back(passive *s) {
    for (;;) {
        double part = 1;
        int32_t first = -1;
        for (int32_t i = 0; i < s->n; i++) {
            if (s->solution[i] > 0) continue;
            double t = s->x[i] / (s->x[i] - s->solution[i]);
            if (first < 0 || t < part) part = t, first = i;
        }
        for (int32_t i = 0; i < s->n; i++) s->x[i] += part * (s->solution[i] - s->x[i]);
        if (first < 0) return;
        s->x[first] = 0;
        for (int32_t i = s->n - 1; i >= 0; i--)
            if (s->x[i] <= 0) drop(s, i);
        solve(s);
    }
}

/* Gradients are often tied; the choice decides between equivalent solutions. */
static double favour(const sr_nnls *p, int64_t j) {
    if (p->tie == 0) return 1;
    uint32_t u = (uint32_t)(j + 1) * 0x9E3779B9u ^ p->tie * 0x85EBCA6Bu;
    u = (u ^ u >> 15) * 0xC2B2AE35u;
    return 1 + 1e-10 * (u >> 16) / 65536.0;
}

/* The column with the steepest gradient that is not excluded, or -1. */
static int64_t steepest(const passive *s, const uint8_t *banned) {
    int64_t best = -1;
    double most = 1e-11 * s->largest;
    for (int64_t j = 0; j < s->p->columns; j++) {
        double g = dot(s->p, j, s->residual) * favour(s->p, j);
        if (g > most && !banned[j]) most = g, best = j;
    }
    return best;
}

static sr_status allocate(passive *s, uint8_t **banned) {
    size_t n = (size_t)s->room, rows = (size_t)s->p->rows + 1;
    SR_TRY(sr_new(&s->column, n));
    SR_TRY(sr_new(&s->r, n * n + 3 * n + 2 * rows));
    s->x = s->r + n * n, s->solution = s->x + n, s->scratch = s->solution + n;
    s->residual = s->scratch + n, s->spread = s->residual + rows;
    return sr_new(banned, s->p->columns);
}

static sr_status iterate(passive *s, uint8_t *banned, int64_t iterations) {
    const double deadline = s->p->deadline;
    set_residual(s, s->x);
    for (int64_t i = 0; i < iterations; i++) {
        if (sr_stop_requested()) return sr_fail(SR_ESTOP, "pack: stopped on request");
        if (deadline > 0 && sr_time_monotonic() > deadline) break;
        int64_t j = steepest(s, banned);
        if (j < 0) break;
        banned[j] = 1; /* passive, or dependent on passive columns */
        if (!append(s, j)) continue;
        solve(s);
        if (s->solution[s->n - 1] <= 0) { /* chosen because of rounding errors */
            drop(s, s->n - 1);
            continue;
        }
        step_back(s);
        set_residual(s, s->x);
        memset(banned, 0, (size_t)s->p->columns);
        for (int32_t k = 0; k < s->n; k++) banned[s->column[k]] = 1;
    }
    return SR_OK;
}

sr_status sr_nnls_solve(double *x, const sr_nnls *problem, int64_t iterations) {
    int32_t most = problem->columns < problem->rows ? (int32_t)problem->columns : problem->rows;
    passive s = {.p = problem,
                 .room = most + 1}; /* at most as many columns as rows are independent */
    uint8_t *banned = NULL;
    for (int32_t r = 1; r <= problem->rows; r++)
        s.largest = fmax(s.largest, problem->weight[r] * problem->target[r]);
    sr_status st = allocate(&s, &banned);
    if (st == SR_OK) st = iterate(&s, banned, iterations > 0 ? iterations : 3 * problem->rows);
    if (st == SR_OK) {
        memset(x, 0, (size_t)problem->columns * sizeof *x);
        for (int32_t i = 0; i < s.n; i++) x[s.column[i]] = s.x[i];
    }
    sr_free(banned);
    sr_free(s.column);
    sr_free(s.r);
    return st;
}
