#include "core/pack/lp/master.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

static const double ENTER = 1e-9; /* a column is improving if its reduced cost is below -ENTER */
static const double PIVOT = 1e-7; /* smallest pivot */
static const double SHAKE = 1e-7; /* relative perturbation of the demand */

static double cost(const sr_master *m, int32_t column) {
    return sr_master_is_exchange(m, column) ? 0 : 1;
}

static sr_status column_room(sr_master *m) {
    if (m->columns.count < m->column_room) return SR_OK;
    size_t room = m->column_room * 2;
    SR_TRY(sr_grow(&m->reduced, room));
    SR_TRY(sr_grow(&m->weight, room));
    SR_TRY(sr_grow(&m->position, room));
    m->column_room = room;
    return SR_OK;
}

static double price(const sr_master *m, size_t j, const double *y) {
    double sum = 0;
    for (size_t k = m->columns.start[j]; k < m->columns.start[j + 1]; k++)
        sum += m->columns.entry[k].value * y[m->columns.entry[k].at];
    return sum;
}

/* Completes the pushed column. */
static void close_column(sr_master *m) {
    size_t j = m->columns.count;
    sr_vectors_close(&m->columns);
    m->weight[j] = 1;
    m->position[j] = -1;
    m->reduced[j] = cost(m, (int32_t)j) - price(m, j, m->y);
}

sr_status sr_master_add(sr_master *m, const int32_t *items, int32_t n) {
    SR_TRY(column_room(m));
    SR_TRY(sr_vectors_reserve(&m->columns, (size_t)n));
    size_t first = m->columns.used;
    for (int32_t i = 0; i < n; i++) {
        size_t k = first;
        while (k < m->columns.used && m->columns.entry[k].at != items[i]) k++;
        if (k < m->columns.used)
            m->columns.entry[k].value += 1;
        else
            sr_vectors_push(&m->columns, items[i], 1);
    }
    close_column(m);
    return SR_OK;
}

static int32_t copies_alone(const sr_master *m, int32_t row) {
    int32_t copies = m->length[row] > 0 ? m->capacity / m->length[row] : m->max_seqs;
    return m->max_seqs > 0 && copies > m->max_seqs ? m->max_seqs : copies;
}

/* The permanent columns; the first `rows` of them are the initial basis. */
static sr_status first_columns(sr_master *m) {
    for (int32_t r = 0; r < m->rows; r++) {
        m->y[r] = 1.0 / copies_alone(m, r);
        sr_vectors_push(&m->columns, r, copies_alone(m, r));
        close_column(m);
        m->position[r] = m->basic[r] = r;
    }
    for (int32_t r = 0; r < m->rows; r++) {
        sr_vectors_push(&m->columns, r, -1);
        if (r + 1 < m->rows) sr_vectors_push(&m->columns, r + 1, 1);
        close_column(m);
    }
    return SR_OK;
}

/* Computes x, y and the reduced costs from the current basis. */
static sr_status refresh(sr_master *m, const double *demand) {
    SR_TRY(sr_basis_factor(&m->basis, &m->columns, m->basic));
    memcpy(m->scratch, demand, (size_t)m->rows * sizeof *demand);
    sr_basis_solve(&m->basis, m->x, m->scratch);
    for (int32_t p = 0; p < m->rows; p++) m->scratch[p] = cost(m, m->basic[p]);
    sr_basis_solve_transposed(&m->basis, m->y, m->scratch);
    for (int32_t p = 0; p < m->rows; p++)
        if (m->x[p] < 0) m->x[p] = 0;
    for (size_t j = 0; j < m->columns.count; j++)
        m->reduced[j] = m->position[j] >= 0 ? 0 : cost(m, (int32_t)j) - price(m, j, m->y);
    return SR_OK;
}

/* A fixed, uneven perturbation: multiples of the golden ratio spread over (0, 1). */
static void shake(sr_master *m) {
    for (int32_t r = 0; r < m->rows; r++) {
        double u = fmod((r + 1) * 0.6180339887498949, 1.0);
        m->perturbed[r] = m->demand[r] * (1 + SHAKE * (0.5 + u));
    }
}

sr_status sr_master_new(sr_master *m, const int32_t *length, const double *demand, int32_t rows,
                        int32_t capacity, int32_t max_seqs) {
    memset(m, 0, sizeof *m);
    m->rows = rows, m->capacity = capacity, m->max_seqs = max_seqs;
    m->length = length, m->demand = demand;
    m->column_room = 4 * (size_t)rows + 1024;
    size_t n = (size_t)rows;
    sr_status st;
    SR_GO(fail, st, sr_vectors_new(&m->columns, m->column_room, 6 * m->column_room));
    SR_GO(fail, st, sr_new(&m->reduced, m->column_room));
    SR_GO(fail, st, sr_new(&m->weight, m->column_room));
    SR_GO(fail, st, sr_new(&m->position, m->column_room));
    SR_GO(fail, st, sr_new(&m->basic, n));
    SR_GO(fail, st, sr_new(&m->perturbed, 6 * n + 1)); /* not NULL without rows */
    m->x = m->perturbed + n, m->y = m->x + n, m->direction = m->y + n;
    m->ray = m->direction + n, m->scratch = m->ray + n;
    SR_GO(fail, st, sr_basis_new(&m->basis, rows));
    SR_GO(fail, st, first_columns(m));
    shake(m);
    SR_GO(fail, st, refresh(m, m->perturbed));
    return SR_OK;
fail:
    sr_master_free(m);
    return st;
}

void sr_master_free(sr_master *m) {
    sr_vectors_free(&m->columns);
    sr_free(m->reduced);
    sr_free(m->weight);
    sr_free(m->position);
    sr_free(m->basic);
    sr_free(m->perturbed);
    sr_basis_free(&m->basis);
    memset(m, 0, sizeof *m);
}

static int32_t choose_entering(const sr_master *m) {
    int32_t best = -1;
    double most = 0;
    for (size_t j = 0; j < m->columns.count; j++) {
        double r = m->reduced[j];
        if (r >= -ENTER) continue;
        if (r * r > most * m->weight[j]) most = r * r / m->weight[j], best = (int32_t)j;
    }
    return best;
}

/* The leaving position: the smallest ratio; of nearly equal ones, the largest pivot. */
static int32_t choose_leaving(const sr_master *m, const double *d) {
    double least = INFINITY;
    for (int32_t p = 0; p < m->rows; p++)
        if (d[p] > PIVOT && (m->x[p] + 1e-9) < least * d[p]) least = (m->x[p] + 1e-9) / d[p];
    int32_t best = -1;
    for (int32_t p = 0; p < m->rows; p++)
        if (d[p] > PIVOT && m->x[p] <= least * d[p] && (best < 0 || d[p] > d[best])) best = p;
    return best;
}

static void load_column(const sr_master *m, int32_t j, double *v) {
    memset(v, 0, (size_t)m->rows * sizeof *v);
    for (size_t k = m->columns.start[j]; k < m->columns.start[j + 1]; k++)
        v[m->columns.entry[k].at] = m->columns.entry[k].value;
}

/* The product of column j and the ray; without a loop for exchanges, half of all columns. */
static inline double alpha_of(const sr_master *m, int32_t j) {
    if (!sr_master_is_exchange(m, j)) return price(m, (size_t)j, m->ray);
    int32_t r = j - m->rows;
    return (r + 1 < m->rows ? m->ray[r + 1] : 0) - m->ray[r];
}

static inline void move_price(sr_master *m, size_t j, double alpha, double step, double grown) {
    if (alpha == 0) return;
    m->reduced[j] -= step * alpha;
    if (alpha * alpha * grown > m->weight[j]) m->weight[j] = alpha * alpha * grown;
}

/* Updates duals, reduced costs and weights along row `leaving` of the inverse. */
static void update_prices(sr_master *m, int32_t entering, int32_t leaving, double reduced) {
    memset(m->scratch, 0, (size_t)m->rows * sizeof *m->scratch);
    m->scratch[leaving] = 1;
    sr_basis_solve_transposed(&m->basis, m->ray, m->scratch);
    double pivot = m->direction[leaving], step = reduced / pivot;
    double grown = m->weight[entering] / (pivot * pivot);
    for (int32_t r = 0; r < m->rows; r++) m->y[r] += step * m->ray[r];
    for (size_t j = 0; j < m->columns.count; j++)
        if (m->position[j] < 0) move_price(m, j, alpha_of(m, (int32_t)j), step, grown);
    int32_t out = m->basic[leaving];
    m->reduced[out] = -step;
    m->weight[out] = grown > 1 ? grown : 1;
}

static sr_status pivot(sr_master *m, int32_t entering, int32_t leaving, double reduced) {
    double step = m->x[leaving] / m->direction[leaving];
    for (int32_t p = 0; p < m->rows; p++) {
        m->x[p] -= step * m->direction[p];
        if (m->x[p] < 0) m->x[p] = 0;
    }
    m->x[leaving] = step;
    update_prices(m, entering, leaving, reduced);
    m->position[m->basic[leaving]] = -1;
    m->basic[leaving] = entering;
    m->position[entering] = leaving;
    m->reduced[entering] = 0;
    m->pivots++;
    SR_TRY(sr_basis_replace(&m->basis, leaving, m->direction));
    return sr_basis_is_long(&m->basis) ? refresh(m, m->perturbed) : SR_OK;
}

sr_status sr_master_optimise(sr_master *m, int64_t most) {
    for (int64_t i = 0; i < most; i++) {
        int32_t entering = choose_entering(m);
        if (entering < 0) break;
        double reduced = cost(m, entering) - price(m, (size_t)entering, m->y);
        m->reduced[entering] = reduced;
        if (reduced >= -ENTER) continue; /* corrects drift */
        load_column(m, entering, m->scratch);
        sr_basis_solve(&m->basis, m->direction, m->scratch);
        int32_t leaving = choose_leaving(m, m->direction);
        if (leaving < 0) {
            m->reduced[entering] = 0; /* no sufficient pivot: skip it until the next refresh */
            continue;
        }
        SR_TRY(pivot(m, entering, leaving, reduced));
    }
    return SR_OK;
}

sr_status sr_master_finish(sr_master *m) {
    return refresh(m, m->demand);
}

double sr_master_packs(const sr_master *m) {
    double sum = 0;
    for (int32_t p = 0; p < m->rows; p++) sum += cost(m, m->basic[p]) * m->x[p];
    return sum;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The reduced cost below which there are `keep` non-basic patterns. */
static sr_status cutoff(const sr_master *m, size_t keep, double *out) {
    double *reduced;
    size_t n = 0;
    *out = INFINITY;
    SR_TRY(sr_new(&reduced, m->columns.count));
    for (size_t j = 2 * (size_t)m->rows; j < m->columns.count; j++)
        if (m->position[j] < 0) reduced[n++] = m->reduced[j];
    if (n > keep) {
        qsort(reduced, n, sizeof *reduced, by_value);
        *out = reduced[keep];
    }
    sr_free(reduced);
    return SR_OK;
}

static void move_column(sr_master *m, size_t to, size_t from) {
    sr_vectors *v = &m->columns;
    size_t n = v->start[from + 1] - v->start[from];
    memmove(v->entry + v->start[to], v->entry + v->start[from], n * sizeof *v->entry);
    v->start[to + 1] = v->start[to] + n;
    m->reduced[to] = m->reduced[from];
    m->weight[to] = m->weight[from];
    m->position[to] = m->position[from];
    if (m->position[to] >= 0) m->basic[m->position[to]] = (int32_t)to;
}

sr_status sr_master_trim(sr_master *m, size_t keep) {
    double most;
    SR_TRY(cutoff(m, keep, &most));
    size_t to = 2 * (size_t)m->rows;
    for (size_t j = to, n = m->columns.count; j < n; j++) {
        /* start[j + 1] of a column not yet moved is still valid: to <= j */
        if (m->position[j] < 0 && m->reduced[j] > most) continue;
        if (to < j) move_column(m, to, j);
        to++;
    }
    m->columns.count = to;
    m->columns.used = m->columns.start[to];
    return SR_OK;
}
