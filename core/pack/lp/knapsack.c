#include "core/pack/lp/knapsack.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/pack/lp/fast.h"

static const double MUCH_WORK = 3e8; /* additions per fill: about a tenth of a second */

/* out[i] = max(out[i], in[i] + add) */
SR_FAST static void raise_by(double *restrict out, const double *restrict in, double add,
                             int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        double v = in[i] + add;
        out[i] = out[i] > v ? out[i] : v;
    }
}

/* ---- any number of items ---- */

/* Items from short to long.  Within `length` elements there are no dependences. */
static void fill_any(sr_knapsack *k) {
    double *f = k->table[0].f;
    const int32_t L = k->capacity;
    memset(f, 0, ((size_t)L + 1) * sizeof *f);
    for (int32_t i = k->rows - 1; i >= 0; i--) {
        int32_t l = k->length[i];
        if (k->value[i] <= f[l]) continue;
        for (int32_t at = l; at <= L; at += l)
            raise_by(f + at, f + at - l, k->value[i], at + l <= L + 1 ? l : L + 1 - at);
    }
}

/* ---- at most n items ---- */

static void fill_one(sr_knapsack *k) {
    double *f = k->table[0].f;
    memset(f, 0, ((size_t)k->capacity + 1) * sizeof *f);
    for (int32_t i = 0; i < k->rows; i++)
        if (k->value[i] > f[k->length[i]]) f[k->length[i]] = k->value[i];
    for (int32_t s = 1; s <= k->capacity; s++)
        if (f[s - 1] > f[s]) f[s] = f[s - 1];
}

static int32_t find_steps(int32_t *step, const double *f, int32_t capacity) {
    int32_t n = 0;
    if (f[0] > 0) step[n++] = 0;
    for (int32_t s = 1; s <= capacity; s++)
        if (f[s] > f[s - 1]) step[n++] = s;
    return n;
}

/* f = max-plus product of a and b.  The best split is where one of them increases. */
static void multiply(sr_knapsack *k, double *f, const double *a, const double *b) {
    const int32_t L = k->capacity;
    memcpy(f, a, ((size_t)L + 1) * sizeof *f);
    raise_by(f, b, 0, L + 1);
    int32_t n = find_steps(k->step, b, L), other = find_steps(k->step + L + 1, a, L);
    const int32_t *step = k->step;
    if (other < n) {
        const double *swap = a;
        a = b, b = swap;
        n = other, step = k->step + L + 1;
    }
    for (int32_t i = 0; i < n; i++) raise_by(f + step[i], a, b[step[i]], L + 1 - step[i]);
}

/* ---- */

/* Plans the tables needed for f_n, in order; returns the index of f_n.  Doubling needs the fewest
 * tables; adding one item at a time is less work if there are few different lengths. */
static int32_t plan_tables(sr_knapsack *k, int32_t n, bool doubling) {
    for (int32_t t = 0; t < k->tables; t++)
        if (k->table[t].items == n) return t;
    int32_t left = -1, right = -1;
    if (n > 1) {
        bool halve = doubling && n % 2 == 0;
        left = plan_tables(k, halve ? n / 2 : n - 1, doubling);
        right = plan_tables(k, halve ? n / 2 : 1, doubling);
    }
    k->table[k->tables] = (sr_knapsack_table){n, left, right, NULL};
    return k->tables++;
}

static bool doubling_is_cheaper(int32_t n, int32_t capacity, int32_t rows) {
    double products = 0; /* of two general tables that increase nearly everywhere */
    for (int32_t m = n; m > 1; m = m % 2 == 0 ? m / 2 : m - 1) products += m % 2 == 0 && m > 2;
    double singles = 0; /* of a table and f_1 */
    for (int32_t m = n; m > 1; m = m % 2 == 0 ? m / 2 : m - 1) singles += m % 2 != 0 || m == 2;
    return n > SR_KNAPSACK_TABLES || products * capacity + singles * rows < (double)(n - 1) * rows;
}

sr_status sr_knapsack_new(sr_knapsack *k, int32_t capacity, int32_t max_seqs, const int32_t *length,
                          int32_t rows) {
    memset(k, 0, sizeof *k);
    k->capacity = capacity;
    k->length = length;
    k->rows = rows;
    int32_t shortest = rows > 0 ? length[rows - 1] : capacity;
    int32_t most = shortest > 0 ? capacity / shortest : INT32_MAX;
    k->max_items = max_seqs > 0 && max_seqs < most ? max_seqs : 0;
    if (k->max_items == 0)
        k->table[k->tables++].left = -1;
    else if (k->max_items > 1)
        plan_tables(k, k->max_items - 1, doubling_is_cheaper(k->max_items - 1, capacity, rows));
    size_t size = (size_t)capacity + 1;
    SR_TRY(sr_new(&k->memory, size * (size_t)(k->tables + 1)));
    sr_status st = sr_new(&k->step, 2 * size);
    for (int32_t t = 0; t < k->tables; t++) {
        k->table[t].f = k->memory + size * (size_t)t;
        k->work += (k->table[t].right > 0 ? capacity : rows) * (double)capacity / 2;
    }
    if (st != SR_OK) sr_knapsack_free(k);
    return st;
}

sr_status sr_knapsack_relaxed(sr_knapsack *k, int32_t capacity, int32_t max_seqs,
                              const int32_t *length, int32_t rows, double average) {
    SR_TRY(sr_knapsack_new(k, capacity, max_seqs, length, rows));
    bool binds = k->max_items < 2 * average && k->work < 10 * MUCH_WORK;
    if (k->max_items == 0 || binds || k->work < MUCH_WORK) return SR_OK;
    int32_t keep = k->max_items;
    sr_knapsack_free(k);
    SR_TRY(sr_knapsack_new(k, capacity, 0, length, rows));
    k->keep = keep;
    return SR_OK;
}

void sr_knapsack_free(sr_knapsack *k) {
    sr_free(k->memory);
    sr_free(k->step);
    memset(k, 0, sizeof *k);
}

double sr_knapsack_fill(sr_knapsack *k, const double *value) {
    k->value = value;
    if (k->max_items == 0)
        fill_any(k);
    else if (k->max_items > 1)
        fill_one(k);
    for (int32_t t = 1; t < k->tables; t++) {
        const sr_knapsack_table *p = &k->table[t];
        multiply(k, p->f, k->table[p->left].f, k->table[p->right].f);
    }
    double best = 0;
    for (int32_t i = 0; i < k->rows; i++) {
        double v = sr_knapsack_with(k, i);
        if (v > best) best = v;
    }
    return best;
}

double sr_knapsack_with(const sr_knapsack *k, int32_t row) {
    double rest = k->tables > 0 ? k->table[k->tables - 1].f[k->capacity - k->length[row]] : 0;
    return k->value[row] + rest;
}

/* The best first item of a pattern of total length s, followed by `rest`; on ties the shortest, or
 * the longest if the pattern must have few items. */
static int32_t best_item(const sr_knapsack *k, const double *rest, int32_t s) {
    int32_t best = -1;
    double most = 0, slack = k->keep > 0 ? 1e-12 : 0;
    for (int32_t i = k->rows - 1; i >= 0 && k->length[i] <= s; i--) {
        double v = k->value[i] + (rest != NULL ? rest[s - k->length[i]] : 0);
        if (v + slack > most) most = v, best = i;
    }
    return best;
}

static void collect_any(const sr_knapsack *k, int32_t s, int32_t *items, int32_t *n) {
    const double *f = k->table[0].f;
    while (s > 0 && f[s] > 0 && (k->keep == 0 || *n < k->keep)) {
        int32_t i = best_item(k, f, s);
        if (i < 0) break;
        items[(*n)++] = i;
        s -= k->length[i];
    }
}

/* The items of f_n[s] in table t. */
static void collect(const sr_knapsack *k, int32_t t, int32_t s, int32_t *items, int32_t *n) {
    const sr_knapsack_table *p = &k->table[t];
    if (p->f[s] <= 0) return;
    if (p->left < 0) {
        int32_t i = best_item(k, NULL, s);
        if (i >= 0) items[(*n)++] = i;
        return;
    }
    const double *a = k->table[p->left].f, *b = k->table[p->right].f;
    if (p->right == 0) { /* f_1: one item and the rest */
        int32_t i = best_item(k, a, s);
        if (i < 0) return;
        items[(*n)++] = i;
        collect(k, p->left, s - k->length[i], items, n);
        return;
    }
    int32_t split = 0;
    for (int32_t c = 0; c <= s; c++)
        if (a[c] + b[s - c] > a[split] + b[s - split]) split = c;
    collect(k, p->left, split, items, n);
    collect(k, p->right, s - split, items, n);
}

void sr_knapsack_pattern(const sr_knapsack *k, int32_t row, int32_t *items, int32_t *n) {
    *n = 0;
    items[(*n)++] = row;
    int32_t s = k->capacity - k->length[row];
    if (k->max_items == 0)
        collect_any(k, s, items, n);
    else if (k->tables > 0)
        collect(k, k->tables - 1, s, items, n);
}

sr_status sr_knapsack_heaviest(int64_t *heaviest, int32_t capacity, int32_t max_items,
                               const int64_t *weight, const int64_t *count) {
    int32_t rows = 0, *length;
    double *value;
    sr_knapsack k = {0};
    SR_TRY(sr_new(&length, capacity + 1));
    sr_status st;
    SR_GO(done, st, sr_new(&value, capacity + 1));
    for (int32_t l = capacity; l >= 0; l--)
        if (count == NULL || count[l] > 0) value[rows] = (double)weight[l], length[rows++] = l;
    st = sr_knapsack_new(&k, capacity, max_items, length, rows);
    if (st == SR_OK) *heaviest = (int64_t)sr_knapsack_fill(&k, value);
    sr_knapsack_free(&k);
    sr_free(value);
done:
    sr_free(length);
    return st;
}
