/* ffd.c - first-fit decreasing on runs of equal packs.
 *
 * Packs are in the order in which they were opened.  A run is a sequence of adjacent packs with the
 * same contents.  n sequences of one length fill the first run with enough space from its front:
 * some packs with as many copies as fit, one pack with the rest, and the unchanged remainder.  The
 * runs are in a treap by position; each node has the largest usable space of its subtree.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/pack/build.h"
#include "core/pack/solvers.h"

typedef struct run {
    int64_t count;
    int32_t left, right, parent; /* treap; -1 for none.  parent: contents before the last part */
    int32_t usable, best;        /* space left, 0 at the depth limit; largest in the subtree */
    int32_t members;
    uint32_t priority;
    uint16_t length, copies;
} run;

typedef struct ffd {
    run *run;
    int32_t used, room, root, capacity, max_seqs;
} ffd;

static int32_t best_of(const ffd *f, int32_t i) {
    return i < 0 ? -1 : f->run[i].best;
}

static void refresh(ffd *f, int32_t i) {
    run *r = &f->run[i];
    int32_t a = best_of(f, r->left), b = best_of(f, r->right);
    r->best = r->usable;
    if (a > r->best) r->best = a;
    if (b > r->best) r->best = b;
}

/* Everything in a is before everything in b.  The priorities keep the depth at O(log runs). */
static int32_t merge(ffd *f, int32_t a, int32_t b) {
    if (a < 0) return b;
    if (b < 0) return a;
    if (f->run[a].priority > f->run[b].priority) {
        f->run[a].right = merge(f, f->run[a].right, b);
        refresh(f, a);
        return a;
    }
    f->run[b].left = merge(f, a, f->run[b].left);
    refresh(f, b);
    return b;
}

/* Removes the first run with space for `length` from the tree, which is split into *before, *after.
 */
static int32_t cut_first(ffd *f, int32_t i, int32_t length, int32_t *before, int32_t *after) {
    run *r = &f->run[i];
    int32_t found;
    if (best_of(f, r->left) >= length) {
        int32_t rest;
        found = cut_first(f, r->left, length, before, &rest);
        f->run[i].left = rest;
        refresh(f, i);
        *after = i;
    } else if (r->usable >= length) {
        *before = r->left, *after = r->right, found = i;
        r->left = r->right = -1;
        refresh(f, i);
    } else {
        int32_t rest;
        found = cut_first(f, r->right, length, &rest, after);
        f->run[i].right = rest;
        refresh(f, i);
        *before = i;
    }
    return found;
}

/* A new run: `count` packs like `parent` (-1: empty ones) with `copies` of `length` added. */
static int32_t new_run(ffd *f, int32_t parent, int64_t count, int32_t length, int32_t copies) {
    int32_t i = f->used++;
    int32_t space = parent < 0 ? f->capacity : f->run[parent].usable;
    int32_t members = (parent < 0 ? 0 : f->run[parent].members) + copies;
    run *r = &f->run[i];
    *r = (run){.count = count, .left = -1, .right = -1, .parent = parent, .members = members};
    r->usable = members < f->max_seqs ? space - copies * length : 0;
    r->priority = (uint32_t)(i + 1) * 0x9E3779B9u;
    r->priority = (r->priority ^ r->priority >> 15) * 0x85EBCA6Bu;
    r->length = (uint16_t)length;
    r->copies = (uint16_t)copies;
    refresh(f, i);
    return i;
}

/* Places *n sequences of `length` into the first run with space, or into new packs at the end. */
static sr_status place(ffd *f, int32_t length, int64_t *n) {
    if (f->used + 3 > f->room) {
        SR_TRY(sr_grow(&f->run, (size_t)f->room * 2));
        f->room *= 2;
    }
    int32_t before = f->root, after = -1, old = -1;
    if (best_of(f, f->root) >= length) old = cut_first(f, f->root, length, &before, &after);
    int32_t copies = (old < 0 ? f->capacity : f->run[old].usable) / length;
    int32_t depth = f->max_seqs - (old < 0 ? 0 : f->run[old].members);
    if (copies > depth) copies = depth;
    int64_t full = *n / copies, rest = *n % copies;
    if (old >= 0 && full >= f->run[old].count) full = f->run[old].count, rest = 0;
    if (full > 0) before = merge(f, before, new_run(f, old, full, length, copies));
    if (rest > 0) before = merge(f, before, new_run(f, old, 1, length, (int32_t)rest));
    if (old >= 0) {
        f->run[old].count -= full + (rest > 0);
        if (f->run[old].count > 0) before = merge(f, before, old);
    }
    f->root = merge(f, before, after);
    *n -= full * copies + rest;
    return SR_OK;
}

static sr_status build(sr_builder *b, const ffd *f) {
    sr_plan_part *parts;
    SR_TRY(sr_new(&parts, f->capacity));
    sr_status st = SR_OK;
    for (int32_t i = 0; i < f->used && st == SR_OK; i++) {
        size_t n = 0;
        for (int32_t k = i; k >= 0; k = f->run[k].parent)
            parts[n++] = (sr_plan_part){f->run[k].length, f->run[k].copies};
        st = sr_build_add(b, f->run[i].count, parts, n);
    }
    sr_free(parts);
    return st;
}

sr_status sr_solve_ffd(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts) {
    sr_builder b;
    SR_TRY(sr_build_begin(&b, h, opts->max_seqs, "ffd"));
    ffd f = {.room = 2048, .root = -1, .capacity = h->capacity};
    f.max_seqs = opts->max_seqs > 0 ? opts->max_seqs : h->capacity;
    sr_status st = sr_new(&f.run, f.room);
    for (int32_t l = h->capacity; l >= 1; l--)
        for (int64_t n = h->count[l]; n > 0 && st == SR_OK;) st = place(&f, l, &n);
    if (st == SR_OK) st = build(&b, &f);
    sr_free(f.run);
    if (st == SR_OK) return sr_build_end(out, &b);
    sr_build_drop(&b);
    return st;
}
