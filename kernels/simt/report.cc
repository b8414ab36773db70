#include "kernels/simt/report.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

namespace simt {

enum : int { MAX_LINES = 256, MAX_ROWS = 2048 };

/* A line of a kernel and what it does there. */
struct line {
    place where;
    access kind;
    uint64_t requests, units, best, bytes;
    uint32_t seen[WARP]; /* by each lane since the warp met */
};

struct note_of_access {
    uint16_t line, bytes;
    uint32_t lane, turn; /* the lane's n-th access of the line */
    uintptr_t at;
};

struct pile {
    note_of_access *notes;
    int count, room;
};

struct report {
    line lines[MAX_LINES];
    int count;
    pile warps[MAX_WARPS];
};

/* ---- noting ---------------------------------------------------------------------------------- */

static int find_line(report *r, place where, access kind) {
    for (int i = 0; i < r->count; i++)
        if (r->lines[i].where.line == where.line && r->lines[i].kind == kind &&
            r->lines[i].where.file == where.file)
            return i;
    if (r->count == MAX_LINES) return -1;
    r->lines[r->count] = {};
    r->lines[r->count].where = where;
    r->lines[r->count].kind = kind;
    return r->count++;
}

void count_lane(machine *m, int lane, access kind, uintptr_t at, size_t bytes, place where) {
    if (m->counts == nullptr && sr_new(&m->counts, 1) != SR_OK) return;
    int i = find_line(m->counts, where, kind);
    pile *p = &m->counts->warps[m->thread / WARP];
    if (i < 0) return;
    if (p->count == p->room) {
        int room = p->room == 0 ? 1024 : p->room * 2;
        if (sr_grow(&p->notes, room) != SR_OK) return;
        p->room = room;
    }
    p->notes[p->count++] = {(uint16_t)i, (uint16_t)bytes, (uint32_t)lane, 0, at};
}

void count_access(machine *m, access kind, uintptr_t at, size_t bytes, place where) {
    for (; bytes > 16; at += 16, bytes -= 16) /* a struct is several accesses */
        count_lane(m, m->thread % WARP, kind, at, 16, where);
    count_lane(m, m->thread % WARP, kind, at, bytes, where);
}

/* ---- requests -------------------------------------------------------------------------------- */

static int compare_notes(const void *a, const void *b) {
    const note_of_access *x = (const note_of_access *)a, *y = (const note_of_access *)b;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
    return x->lane < y->lane ? -1 : x->lane > y->lane;
}

static int compare_words(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

static int distinct(uintptr_t *list, int count) {
    int n = 0;
    qsort(list, (size_t)count, sizeof *list, compare_words);
    for (int i = 0; i < count; i++)
        if (i == 0 || list[i] != list[n - 1]) list[n++] = list[i];
    return n;
}

/* 32-byte sectors, and as many as its bytes would fill. */
static void count_sectors(line *l, const note_of_access *notes, int count) {
    uintptr_t sectors[2 * WARP], granules[16 * WARP];
    int s = 0, n = 0;
    for (int i = 0; i < count; i++) {
        uintptr_t end = notes[i].at + notes[i].bytes;
        for (uintptr_t a = notes[i].at / 32; a <= (end - 1) / 32; a++) sectors[s++] = a;
        for (uintptr_t a = notes[i].at; a < end; a++) granules[n++] = a;
    }
    n = distinct(granules, n);
    l->units += (uint64_t)distinct(sectors, s);
    l->best += (uint64_t)(n + 31) / 32;
    l->bytes += (uint64_t)n;
}

/* Wavefronts of one phase: the most distinct words in a bank. */
static int wavefronts(const note_of_access *notes, int count) {
    uintptr_t words[4 * WARP];
    int n = 0, busy[32] = {}, most = 0;
    for (int i = 0; i < count; i++)
        for (uintptr_t a = notes[i].at / 4; a <= (notes[i].at + notes[i].bytes - 1) / 4; a++)
            words[n++] = a;
    n = distinct(words, n);
    for (int i = 0; i < n; i++) {
        int *bank = &busy[words[i] % 32];
        if (++*bank > most) most = *bank;
    }
    return most;
}

static void count_banks(line *l, const note_of_access *notes, int count) {
    int lanes = notes->bytes == 16 ? 8 : notes->bytes == 8 ? 16 : 32;
    for (int i = 0; i < count;) {
        int end = i;
        while (end < count && notes[end].lane / (uint32_t)lanes == notes[i].lane / (uint32_t)lanes)
            l->bytes += notes[end++].bytes;
        l->units += (uint64_t)wavefronts(notes + i, end - i);
        l->best++;
        i = end;
    }
}

/* Numbers the accesses of each line by each lane. */
static void number_turns(report *r, pile *p) {
    for (int i = 0; i < r->count; i++) memset(r->lines[i].seen, 0, sizeof r->lines[i].seen);
    for (int i = 0; i < p->count; i++) {
        note_of_access *n = &p->notes[i];
        n->turn = r->lines[n->line].seen[n->lane]++;
    }
}

void count_warp(machine *m, int warp) {
    report *r = m->counts;
    if (r == nullptr || r->warps[warp].count == 0) return;
    pile *p = &r->warps[warp];
    number_turns(r, p);
    qsort(p->notes, (size_t)p->count, sizeof *p->notes, compare_notes);
    for (int i = 0; i < p->count;) {
        int end = i + 1;
        while (end < p->count && p->notes[end].line == p->notes[i].line &&
               p->notes[end].turn == p->notes[i].turn)
            end++;
        line *l = &r->lines[p->notes[i].line];
        l->requests++;
        if (l->kind == COUNT_READ || l->kind == COUNT_WRITE)
            count_sectors(l, p->notes + i, end - i);
        else
            count_banks(l, p->notes + i, end - i);
        i = end;
    }
    p->count = 0;
}

void count_block(machine *m) {
    for (int w = 0; w < m->threads / WARP; w++) count_warp(m, w);
}

void counts_free(report *r) {
    if (r == nullptr) return;
    for (int w = 0; w < MAX_WARPS; w++) sr_free(r->warps[w].notes);
    sr_free(r);
}

/* ---- the table ------------------------------------------------------------------------------- */

struct row {
    char op[48];
    line what;
    uint64_t launches;
};

static row *rows;
static int row_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static row *find_row(const char *op, const line *l) {
    if (rows == nullptr && sr_new(&rows, MAX_ROWS) != SR_OK) return nullptr;
    for (int i = 0; i < row_count; i++)
        if (rows[i].what.where.line == l->where.line && rows[i].what.kind == l->kind &&
            strcmp(rows[i].op, op) == 0 && strcmp(rows[i].what.where.file, l->where.file) == 0)
            return &rows[i];
    if (row_count == MAX_ROWS) return nullptr;
    row *r = &rows[row_count++];
    *r = {};
    snprintf(r->op, sizeof r->op, "%s", op);
    r->what.where = l->where;
    r->what.kind = l->kind;
    return r;
}

void report_launch(machine *m, const char *op) {
    report *counts = m->counts;
    if (counts == nullptr) return;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < counts->count; i++) {
        const line *l = &counts->lines[i];
        row *r = find_row(op, l);
        if (r == nullptr) continue;
        r->launches++;
        r->what.requests += l->requests;
        r->what.units += l->units;
        r->what.best += l->best;
        r->what.bytes += l->bytes;
    }
    counts->count = 0;
    for (int w = 0; w < MAX_WARPS; w++) counts->warps[w].count = 0;
    pthread_mutex_unlock(&mutex);
}

static int compare_rows(const void *a, const void *b) {
    const row *x = (const row *)a, *y = (const row *)b;
    int by_op = strcmp(x->op, y->op), by_file = strcmp(x->what.where.file, y->what.where.file);
    if (by_op != 0) return by_op;
    if (by_file != 0) return by_file;
    if (x->what.where.line != y->what.where.line)
        return x->what.where.line < y->what.where.line ? -1 : 1;
    return (int)x->what.kind - (int)y->what.kind;
}

void report_print(FILE *out, bool tabs) {
    static const char *const kinds[] = {"read", "write", "shared read", "shared write", "matrix"};
    pthread_mutex_lock(&mutex);
    if (rows != nullptr) qsort(rows, (size_t)row_count, sizeof *rows, compare_rows);
    fprintf(out, tabs ? "op\tplace\taccess\tlaunches\trequests\tunits\tbest\tbytes\n"
                      : "simt: sectors of device memory and wavefronts of shared memory, at best "
                        "and as counted\n");
    for (int i = 0; i < row_count; i++) {
        const row *r = &rows[i];
        const char *slash = strrchr(r->what.where.file, '/');
        char at[64];
        snprintf(at, sizeof at, "%s:%d", slash != nullptr ? slash + 1 : r->what.where.file,
                 r->what.where.line);
        fprintf(out,
                tabs
                    ? "%s\t%s\t%s\t%llu\t%llu\t%llu\t%llu\t%llu\n"
                    : "%-24s %-20s %-12s %8llu launches %10llu requests %10llu units, best %10llu, "
                      "%12llu bytes\n",
                r->op, at, kinds[r->what.kind], (unsigned long long)r->launches,
                (unsigned long long)r->what.requests, (unsigned long long)r->what.units,
                (unsigned long long)r->what.best, (unsigned long long)r->what.bytes);
    }
    sr_free(rows);
    rows = nullptr;
    row_count = 0;
    pthread_mutex_unlock(&mutex);
}

} // namespace simt
