#include "core/pack/lp/basis.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"

/* ---- sparse vectors ---- */

sr_status sr_vectors_new(sr_vectors *v, size_t count_room, size_t entry_room) {
    memset(v, 0, sizeof *v);
    SR_TRY(sr_new(&v->start, count_room + 2));
    v->count_room = count_room;
    v->entry_room = entry_room;
    return sr_new(&v->entry, entry_room);
}

void sr_vectors_free(sr_vectors *v) {
    sr_free(v->entry);
    sr_free(v->start);
    memset(v, 0, sizeof *v);
}

static void clear(sr_vectors *v) {
    v->count = v->used = 0;
    v->start[0] = 0;
}

sr_status sr_vectors_reserve(sr_vectors *v, size_t n) {
    if (v->count + 1 > v->count_room) {
        size_t room = v->count_room * 2 + 16;
        SR_TRY(sr_grow(&v->start, room + 2));
        v->count_room = room;
    }
    if (v->used + n > v->entry_room) {
        size_t room = v->entry_room * 2 + n;
        SR_TRY(sr_grow(&v->entry, room));
        v->entry_room = room;
    }
    return SR_OK;
}

/* ---- the basis ---- */

sr_status sr_basis_new(sr_basis *b, int32_t rows) {
    memset(b, 0, sizeof *b);
    b->rows = rows;
    size_t n = (size_t)rows;
    sr_status st;
    SR_GO(fail, st, sr_vectors_new(&b->lower, n, 4 * n));
    SR_GO(fail, st, sr_vectors_new(&b->upper, n, 4 * n));
    SR_GO(fail, st, sr_vectors_new(&b->eta, SR_BASIS_ETAS, 16 * n));
    SR_GO(fail, st, sr_new(&b->row_of, 10 * n + SR_BASIS_ETAS));
    SR_GO(fail, st, sr_new(&b->diagonal, 2 * n + SR_BASIS_ETAS));
    int32_t *at = b->row_of;
    b->position_of = at += n, b->step_of = at += n, b->order = at += n, b->hint = at += n;
    b->row_count = at += n, b->column_count = at += n, b->queue = at += n;
    b->touched = at += n, b->active = at += n, b->eta_at = at += n;
    b->work = b->diagonal + n, b->eta_pivot = b->work + n;
    return SR_OK;
fail:
    sr_basis_free(b);
    return st;
}

void sr_basis_free(sr_basis *b) {
    sr_vectors_free(&b->lower);
    sr_vectors_free(&b->upper);
    sr_vectors_free(&b->eta);
    sr_free(b->row_of);
    sr_free(b->diagonal);
    memset(b, 0, sizeof *b);
}

/* The columns with an entry in each row: the transposed pattern. */
static sr_status turn(sr_vectors *rows, const sr_basis *b, const sr_vectors *columns,
                      const int32_t *column) {
    size_t entries = 0;
    for (int32_t p = 0; p < b->rows; p++)
        entries += columns->start[column[p] + 1] - columns->start[column[p]];
    SR_TRY(sr_vectors_new(rows, (size_t)b->rows, entries));
    for (int32_t p = 0; p < b->rows; p++)
        for (size_t k = columns->start[column[p]]; k < columns->start[column[p] + 1]; k++)
            rows->start[columns->entry[k].at + 1]++;
    for (int32_t r = 0; r < b->rows; r++) {
        b->row_count[r] = (int32_t)rows->start[r + 1];
        rows->start[r + 1] += rows->start[r];
        b->touched[r] = (int32_t)rows->start[r];
    }
    for (int32_t p = 0; p < b->rows; p++) {
        size_t first = columns->start[column[p]], last = columns->start[column[p] + 1];
        b->column_count[p] = (int32_t)(last - first);
        for (size_t k = first; k < last; k++)
            rows->entry[b->touched[columns->entry[k].at]++].at = p;
    }
    return SR_OK;
}

/* Plans the elimination: order[step] = position, hint[step] = row, or -1 to choose it later. */
typedef struct elimination {
    sr_basis *b;
    const sr_vectors *rows, *columns;
    const int32_t *column;
    int32_t steps;
} elimination;

static void take(elimination *e, int32_t position, int32_t row) {
    e->b->order[e->steps] = position;
    e->b->hint[e->steps] = row;
    e->b->active[position] = 0;
    e->b->step_of[row] = e->steps++;
}

/* Columns with one row left: they need no elimination. */
static void peel_columns(elimination *e) {
    sr_basis *b = e->b;
    int32_t waiting = 0;
    for (int32_t p = 0; p < b->rows; p++)
        if (b->column_count[p] == 1) b->queue[waiting++] = p;
    for (int32_t i = 0; i < waiting; i++) {
        int32_t p = b->queue[i], row = -1;
        if (b->column_count[p] != 1) continue; /* its row is taken: singular, detected later */
        for (size_t k = e->columns->start[e->column[p]]; row < 0; k++)
            if (b->step_of[e->columns->entry[k].at] < 0) row = e->columns->entry[k].at;
        take(e, p, row);
        for (size_t k = e->rows->start[row]; k < e->rows->start[row + 1]; k++) {
            int32_t q = e->rows->entry[k].at;
            if (--b->column_count[q] == 1 && b->active[q]) b->queue[waiting++] = q;
        }
    }
}

/* Rows with one column left: that column is eliminated without fill-in. */
static void peel_rows(elimination *e) {
    sr_basis *b = e->b;
    int32_t waiting = 0;
    for (int32_t r = 0; r < b->rows; r++) {
        if (b->step_of[r] >= 0) continue;
        b->row_count[r] = 0;
        for (size_t k = e->rows->start[r]; k < e->rows->start[r + 1]; k++)
            b->row_count[r] += b->active[e->rows->entry[k].at];
        if (b->row_count[r] == 1) b->queue[waiting++] = r;
    }
    for (int32_t i = 0; i < waiting; i++) {
        int32_t r = b->queue[i], p = -1;
        if (b->row_count[r] != 1) continue;
        for (size_t k = e->rows->start[r]; p < 0; k++)
            if (b->active[e->rows->entry[k].at]) p = e->rows->entry[k].at;
        take(e, p, r);
        for (size_t k = e->columns->start[e->column[p]]; k < e->columns->start[e->column[p] + 1];
             k++) {
            int32_t s = e->columns->entry[k].at;
            if (--b->row_count[s] == 1 && b->step_of[s] < 0) b->queue[waiting++] = s;
        }
    }
}

/* The remaining columns are sorted by number of entries; their pivots are chosen later. */
static void order_rest(elimination *e) {
    sr_basis *b = e->b;
    int32_t found = e->steps;
    for (int32_t size = 0; found < b->rows && size <= b->rows; size++)
        for (int32_t p = 0; p < b->rows; p++)
            if (b->active[p] && b->column_count[p] == size) {
                b->order[found] = p;
                b->hint[found++] = -1;
            }
}

static sr_status plan_order(sr_basis *b, const sr_vectors *columns, const int32_t *column) {
    sr_vectors rows;
    sr_status st = turn(&rows, b, columns, column);
    if (st == SR_OK) {
        elimination e = {b, &rows, columns, column, 0};
        for (int32_t i = 0; i < b->rows; i++) b->step_of[i] = -1, b->active[i] = 1;
        peel_columns(&e);
        peel_rows(&e);
        order_rest(&e);
        for (int32_t i = 0; i < b->rows; i++) b->step_of[i] = -1;
    }
    sr_vectors_free(&rows);
    return st;
}

/* Loads a column into b->work and applies the previous steps; b->touched lists the rows that may be
 * non-zero.  `chosen` lists the steps whose L column can affect later columns. */
static int32_t bring(sr_basis *b, const sr_vectors *columns, int32_t c, const int32_t *chosen,
                     int32_t chosen_count) {
    int32_t touched = 0;
    for (size_t k = columns->start[c]; k < columns->start[c + 1]; k++) {
        int32_t r = columns->entry[k].at;
        b->work[r] = columns->entry[k].value;
        b->active[r] = 1; /* reused: rows in `touched` */
        b->touched[touched++] = r;
    }
    for (int32_t i = 0; i < chosen_count; i++) {
        int32_t s = chosen[i];
        double v = b->work[b->row_of[s]];
        if (v == 0) continue;
        for (size_t k = b->lower.start[s]; k < b->lower.start[s + 1]; k++) {
            int32_t r = b->lower.entry[k].at;
            if (!b->active[r]) b->active[r] = 1, b->touched[touched++] = r;
            b->work[r] -= b->lower.entry[k].value * v;
        }
    }
    return touched;
}

/* Of the entries of at least a tenth of the largest, the one whose row has the fewest columns. */
static int32_t choose_pivot(const sr_basis *b, int32_t touched) {
    double largest = 0;
    int32_t best = -1;
    for (int32_t i = 0; i < touched; i++)
        if (b->step_of[b->touched[i]] < 0) largest = fmax(largest, fabs(b->work[b->touched[i]]));
    if (largest < 1e-9) return -1;
    for (int32_t i = 0; i < touched; i++) {
        int32_t r = b->touched[i];
        if (b->step_of[r] >= 0 || fabs(b->work[r]) < 0.1 * largest) continue;
        if (best < 0 || b->row_count[r] < b->row_count[best]) best = r;
    }
    return best;
}

/* Splits the column in b->work into its parts of U and L and its pivot. */
static sr_status store(sr_basis *b, int32_t step, int32_t pivot, int32_t touched) {
    double diagonal = b->work[pivot];
    SR_TRY(sr_vectors_reserve(&b->lower, (size_t)touched));
    SR_TRY(sr_vectors_reserve(&b->upper, (size_t)touched));
    b->diagonal[step] = diagonal;
    b->row_of[step] = pivot;
    b->position_of[step] = b->order[step];
    b->step_of[pivot] = step;
    for (int32_t i = 0; i < touched; i++) {
        int32_t r = b->touched[i];
        double v = b->work[r];
        b->work[r] = 0;
        b->active[r] = 0;
        if (r == pivot || v == 0) continue;
        if (b->step_of[r] >= 0)
            sr_vectors_push(&b->upper, b->step_of[r], v);
        else if (fabs(v) > 1e-14)
            sr_vectors_push(&b->lower, r, v / diagonal);
    }
    sr_vectors_close(&b->lower);
    sr_vectors_close(&b->upper);
    return SR_OK;
}

sr_status sr_basis_factor(sr_basis *b, const sr_vectors *columns, const int32_t *column) {
    SR_TRY(plan_order(b, columns, column));
    clear(&b->lower);
    clear(&b->upper);
    clear(&b->eta);
    memset(b->active, 0, (size_t)b->rows * sizeof *b->active);
    memset(b->work, 0, (size_t)b->rows * sizeof *b->work);
    int32_t chosen = 0;
    for (int32_t step = 0; step < b->rows; step++) {
        int32_t touched = bring(b, columns, column[b->order[step]], b->queue, chosen);
        int32_t pivot = b->hint[step] >= 0 ? b->hint[step] : choose_pivot(b, touched);
        if (pivot < 0 || b->work[pivot] == 0)
            return sr_fail(SR_ENUMERIC, "pack: the basis of the linear program is singular");
        bool hinted = b->hint[step] >= 0;
        SR_TRY(store(b, step, pivot, touched));
        if (!hinted && b->lower.start[step + 1] > b->lower.start[step]) b->queue[chosen++] = step;
    }
    return SR_OK;
}

/* ---- solving ---- */

void sr_basis_solve(const sr_basis *b, double *x, double *v) {
    for (int32_t s = 0; s < b->rows; s++) {
        double t = v[b->row_of[s]];
        if (t == 0) continue;
        for (size_t k = b->lower.start[s]; k < b->lower.start[s + 1]; k++)
            v[b->lower.entry[k].at] -= b->lower.entry[k].value * t;
    }
    for (int32_t s = b->rows - 1; s >= 0; s--) {
        double t = v[b->row_of[s]];
        if (t != 0) {
            t /= b->diagonal[s];
            for (size_t k = b->upper.start[s]; k < b->upper.start[s + 1]; k++)
                v[b->row_of[b->upper.entry[k].at]] -= b->upper.entry[k].value * t;
        }
        x[b->position_of[s]] = t;
    }
    for (size_t e = 0; e < b->eta.count; e++) {
        double t = x[b->eta_at[e]];
        if (t == 0) continue;
        t /= b->eta_pivot[e];
        for (size_t k = b->eta.start[e]; k < b->eta.start[e + 1]; k++)
            x[b->eta.entry[k].at] -= b->eta.entry[k].value * t;
        x[b->eta_at[e]] = t;
    }
}

void sr_basis_solve_transposed(const sr_basis *b, double *y, double *c) {
    for (size_t e = b->eta.count; e-- > 0;) {
        double t = c[b->eta_at[e]];
        for (size_t k = b->eta.start[e]; k < b->eta.start[e + 1]; k++)
            t -= b->eta.entry[k].value * c[b->eta.entry[k].at];
        c[b->eta_at[e]] = t / b->eta_pivot[e];
    }
    double *z = b->work; /* by step */
    for (int32_t s = 0; s < b->rows; s++) {
        double t = c[b->position_of[s]];
        for (size_t k = b->upper.start[s]; k < b->upper.start[s + 1]; k++)
            t -= b->upper.entry[k].value * z[b->upper.entry[k].at];
        z[s] = t / b->diagonal[s];
    }
    for (int32_t s = b->rows - 1; s >= 0; s--) {
        double t = z[s];
        for (size_t k = b->lower.start[s]; k < b->lower.start[s + 1]; k++)
            t -= b->lower.entry[k].value * y[b->lower.entry[k].at];
        y[b->row_of[s]] = t;
    }
}

sr_status sr_basis_replace(sr_basis *b, int32_t position, const double *d) {
    SR_TRY(sr_vectors_reserve(&b->eta, (size_t)b->rows));
    b->eta_at[b->eta.count] = position;
    b->eta_pivot[b->eta.count] = d[position];
    for (int32_t p = 0; p < b->rows; p++)
        if (p != position && fabs(d[p]) > 1e-13) sr_vectors_push(&b->eta, p, d[p]);
    sr_vectors_close(&b->eta);
    return SR_OK;
}
