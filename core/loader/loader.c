#include "core/loader/loader.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/base/thread.h"
#include "core/loader/fetcher.h"
#include "core/loader/window.h"

typedef enum slot_state { SLOT_EMPTY, SLOT_BUSY, SLOT_READY } slot_state;

/* Update i is in slot i % prefetch. */
typedef struct slot {
    slot_state state;
    sr_update *update; /* NULL: nothing is left */
    sr_status status;
    char message[1024];
} slot;

/* An order from outside. */
typedef struct pushed {
    sr_order order;
    sr_window *window; /* retained: the order is that of its update number `index`; or NULL */
    int64_t index;
} pushed;

struct sr_loader {
    sr_fetcher fetcher;
    sr_cursor start; /* before anything was drawn */
    double waited;
    int64_t masked; /* tokens masked before the next update: known once an update is made */
    int64_t words;  /* words before it, alike */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    sr_cursor next;      /* where the next update to be ordered begins */
    sr_cursor delivered; /* where the next update to be returned begins */
    int64_t ordered, given;
    bool pushes;     /* orders come from sr_loader_push() */
    pushed **pushed; /* (pending) not given out yet; the oldest first */
    int64_t pending, room;
    bool ordering; /* a worker is ordering an update */
    bool ended;    /* nothing is left to order, or ordering failed */
    bool paused, quit;
    int busy;
    slot *slot;
    int slots;
    pthread_t *thread;
    int threads;
    pthread_t planner;
    bool has_planner;
};

/* ---- workers ---- */

/* True if a worker may order the next update.  The lock is held. */
static bool may_order(const sr_loader *l) {
    int64_t ahead = l->ordered - l->given;
    return !l->paused && !l->ordering && !l->ended && ahead < l->slots &&
           (!l->pushes || ahead < l->pending);
}

static void finish_slot(slot *s, sr_update *update, sr_status status) {
    s->state = SLOT_READY;
    s->update = update;
    s->status = status;
    snprintf(s->message, sizeof s->message, "%s", status == SR_OK ? "" : sr_message());
}

/* Orders one update while others wait for their turn.  The lock is held, but not in between. */
static sr_status order_next(sr_loader *l, sr_order *order) {
    sr_cursor cursor = l->next;
    l->ordering = true;
    pthread_mutex_unlock(&l->lock);
    sr_status st = sr_fetcher_order(order, &l->fetcher, &cursor);
    pthread_mutex_lock(&l->lock);
    l->ordering = false;
    l->next = cursor;
    l->ended = st != SR_OK || order->groups == 0;
    pthread_cond_broadcast(&l->changed);
    return st;
}

static sr_status make(sr_update **out, const sr_loader *l, const pushed *p) {
    *out = NULL;
    if (p->window == NULL) return sr_fetcher_make(out, &l->fetcher, &p->order);
    sr_order order;
    SR_TRY(sr_window_order(&order, p->window, p->index, &l->fetcher.opts));
    sr_status st = sr_fetcher_make(out, &l->fetcher, &order);
    sr_order_free(&order);
    return st;
}

/* Takes the next update and makes it.  The lock is held on entry and on return, not in between. */
static void work_once(sr_loader *l) {
    slot *s = &l->slot[l->ordered % l->slots];
    pushed own = {0}, *p = l->pushes ? l->pushed[l->ordered - l->given] : &own;
    sr_update *update = NULL;
    sr_status st = SR_OK;
    s->state = SLOT_BUSY;
    l->ordered++;
    l->busy++;
    if (p == &own) st = order_next(l, &own.order);
    if (st == SR_OK && (p->order.groups > 0 || p->window != NULL)) {
        pthread_mutex_unlock(&l->lock);
        st = make(&update, l, p);
        pthread_mutex_lock(&l->lock);
    }
    sr_order_free(&own.order);
    finish_slot(s, update, st);
    l->busy--;
    pthread_cond_broadcast(&l->changed);
}

static void *work(void *loader) {
    sr_loader *l = loader;
    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        if (may_order(l))
            work_once(l);
        else
            pthread_cond_wait(&l->changed, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Prepares the next epoch.  Failures are reported by the worker that needs it. */
static void *plan_ahead(void *loader) {
    sr_loader *l = loader;
    int64_t epochs = l->fetcher.opts.epochs;
    uint32_t first = l->fetcher.opts.examples.epoch, last_built = first;
    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        uint32_t want = l->next.epoch + 1;
        bool past_end = epochs > 0 && want - first >= (uint64_t)epochs;
        if (want == last_built || past_end || l->paused) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        int stage = l->next.stage;
        last_built = want;
        l->busy++;
        pthread_mutex_unlock(&l->lock);
        sr_epoch *e;
        if (sr_fetcher_epoch(&e, &l->fetcher, want, stage, NULL) == SR_OK) sr_epoch_release(e);
        pthread_mutex_lock(&l->lock);
        l->busy--;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static sr_status start_thread(pthread_t *thread, void *(*run)(void *), sr_loader *l) {
    sigset_t all, before;
    sigfillset(&all); /* the main thread handles signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) return SR_OK;
    return sr_fail(SR_ENOMEM, "loader: cannot start a thread: %s; use fewer (data.threads: 0)",
                   strerror(error));
}

static sr_status start_workers(sr_loader *l) {
    const sr_loader_opts *o = &l->fetcher.opts;
    l->slots = o->prefetch > 0 ? o->prefetch : 1;
    SR_TRY(sr_new(&l->slot, l->slots));
    if (o->threads == 0) return SR_OK;
    SR_TRY(sr_new(&l->thread, o->threads));
    for (; l->threads < o->threads; l->threads++)
        SR_TRY(start_thread(&l->thread[l->threads], work, l));
    if (l->fetcher.fixed || l->pushes) return SR_OK;
    SR_TRY(start_thread(&l->planner, plan_ahead, l));
    l->has_planner = true;
    return SR_OK;
}

static void stop_workers(sr_loader *l) {
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->threads; i++) pthread_join(l->thread[i], NULL);
    if (l->has_planner) pthread_join(l->planner, NULL);
}

/* ---- open and close ---- */

/* The first epoch's plan determines how many packs an update has, and how much memory. */
static sr_status determine_packs(sr_loader *l, sr_threads *threads) {
    const sr_loader_opts *o = &l->fetcher.opts;
    sr_epoch *e;
    SR_TRY(sr_fetcher_epoch(&e, &l->fetcher, o->examples.epoch, 0, threads));
    double packs = (double)o->packs;
    if (o->by == SR_BY_PACKS && packs == 0)
        packs = floor((double)o->sequences / sr_plan_factor(e->plan) + 0.5);
    sr_status st = sr_fetcher_check_size(&l->fetcher, e, packs);
    sr_epoch_release(e);
    SR_TRY(st);
    l->start = (sr_cursor){.epoch = o->examples.epoch,
                           .packs = packs < 1 && o->by == SR_BY_PACKS ? 1 : (int64_t)packs};
    l->next = l->delivered = l->start;
    return SR_OK;
}

sr_status sr_loader_open(sr_loader **out, const sr_dataset *d, const sr_loader_opts *opts,
                         sr_threads *threads) {
    *out = NULL;
    sr_loader *l;
    SR_TRY(sr_new(&l, 1));
    l->fetcher.d = d;
    l->fetcher.opts = *opts;
    l->pushes = opts->by == SR_BY_ORDER;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    sr_status st = sr_fetcher_open(&l->fetcher);
    if (st == SR_OK) st = determine_packs(l, threads);
    if (st == SR_OK) st = start_workers(l);
    return SR_GIVE(out, l, st, sr_loader_close);
}

static void drop_slots(sr_loader *l) {
    for (int i = 0; i < l->slots; i++) {
        sr_update_free(l->slot[i].update);
        l->slot[i] = (slot){0};
    }
}

static void pushed_free(pushed *p) {
    sr_window_release(p->window);
    sr_order_free(&p->order);
    sr_free(p);
}

/* Forgets the oldest of the pushed orders. */
static void drop_orders(sr_loader *l, int64_t n) {
    for (int64_t i = 0; i < n; i++) pushed_free(l->pushed[i]);
    l->pending -= n;
    if (l->pending > 0) memmove(l->pushed, l->pushed + n, (size_t)l->pending * sizeof *l->pushed);
}

void sr_loader_close(sr_loader *l) {
    if (l == NULL) return;
    stop_workers(l);
    if (l->slot != NULL) drop_slots(l);
    drop_orders(l, l->pending);
    sr_free(l->pushed);
    sr_fetcher_close(&l->fetcher);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    sr_free(l->slot);
    sr_free(l->thread);
    sr_free(l);
}

/* Stops the workers and waits until all are idle.  The lock is held. */
static void pause_workers(sr_loader *l) {
    l->paused = true;
    while (l->busy > 0) pthread_cond_wait(&l->changed, &l->lock);
}

/* Restarts at a cursor.  The lock is held. */
static void restart(sr_loader *l, const sr_cursor *cursor) {
    pause_workers(l);
    drop_slots(l);
    l->delivered = *cursor;
    l->next = l->pending > 0 ? l->pushed[l->pending - 1]->order.end : *cursor;
    l->masked = cursor->drawn.masked_tokens;
    l->words = cursor->drawn.words;
    l->ordered = l->given = 0;
    l->ended = l->paused = false;
    pthread_cond_broadcast(&l->changed);
}

/* ---- next ---- */

/* The slot of the next update, once it is ready.  The lock is held. */
static slot *wait_ready(sr_loader *l) {
    slot *s = &l->slot[l->given % l->slots];
    if (l->pushes && l->pending == 0) return NULL;
    while (s->state != SLOT_READY) {
        if (l->threads == 0 && may_order(l))
            work_once(l);
        else
            pthread_cond_wait(&l->changed, &l->lock);
    }
    return s;
}

sr_status sr_loader_next(sr_update **out, sr_loader *l) {
    *out = NULL;
    double began = sr_time_monotonic();
    pthread_mutex_lock(&l->lock);
    slot *s = wait_ready(l);
    while (s != NULL && s->status == SR_ESTOP && !sr_stop_requested()) { /* that stop is over */
        restart(l, &l->delivered);
        s = wait_ready(l);
    }
    l->waited += sr_time_monotonic() - began;
    if (s == NULL) {
        pthread_mutex_unlock(&l->lock);
        return sr_fail(SR_EINVAL, "loader: no order is pending; push one for every update");
    }
    sr_status st = s->status;
    if (st != SR_OK) sr_fail(st, "%s", s->message);
    sr_update *u = s->update;
    if (u != NULL) { /* a failure, and the end, stay where they are */
        *s = (slot){0};
        u->begin.drawn.masked_tokens = l->masked;
        u->end.drawn.masked_tokens = l->masked += u->masked;
        u->begin.drawn.words = l->words;
        u->end.drawn.words = l->words += u->words;
        l->delivered = u->end;
        l->given++;
        if (l->pushes) drop_orders(l, 1);
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    *out = u;
    return st;
}

/* ---- the cursor ---- */

sr_cursor sr_loader_cursor(const sr_loader *l) {
    return l->delivered; /* written by the thread that asks for updates, as is this call */
}

static bool possible(const sr_loader *l, const sr_cursor *c) {
    const sr_counters *n = &c->drawn;
    return c->epoch >= l->fetcher.opts.examples.epoch && c->position >= 0 && c->packs >= 0 &&
           c->stage >= 0 && (c->stage == 0 || c->stage < l->fetcher.opts.stages) &&
           c->packs <= INT32_MAX && n->updates >= 0 && n->sequences >= 0 && n->raw_tokens >= 0 &&
           n->real_tokens >= 0 && n->masked_tokens >= 0 && n->words >= 0;
}

/* Checks that the position of a cursor is within its epoch. */
static sr_status check_position(sr_loader *l, const sr_cursor *c) {
    if (c->position == 0) return SR_OK;
    sr_epoch *e;
    SR_TRY(sr_fetcher_epoch(&e, &l->fetcher, c->epoch, c->stage, NULL));
    bool packs = l->fetcher.opts.by == SR_BY_PACKS;
    int64_t all = packs ? e->packs : e->count;
    sr_epoch_release(e);
    if (c->position < all) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "loader: the cursor is at %s %" PRId64 " of epoch %" PRIu32
                   ", which has %" PRId64 "; the data set or its options have changed",
                   packs ? "pack" : "sequence", c->position, c->epoch, all);
}

sr_status sr_loader_seek(sr_loader *l, const sr_cursor *cursor) {
    if (!possible(l, cursor))
        return sr_fail(SR_EINVAL,
                       "loader: epoch %" PRIu32 ", position %" PRId64
                       " is out of range for this loader",
                       cursor->epoch, cursor->position);
    SR_TRY(check_position(l, cursor));
    sr_cursor from = *cursor;
    if (from.packs == 0) from.packs = l->start.packs;
    pthread_mutex_lock(&l->lock);
    pause_workers(l);
    drop_orders(l, l->pending);
    restart(l, &from);
    pthread_mutex_unlock(&l->lock);
    return SR_OK;
}

/* ---- orders from elsewhere ---- */

/* Takes orders over. */
static sr_status append(sr_loader *l, pushed **p, int64_t n) {
    sr_status st = SR_OK;
    pthread_mutex_lock(&l->lock);
    if (l->pending + n > l->room) {
        int64_t room = l->room * 2 + n;
        st = sr_grow(&l->pushed, room);
        if (st == SR_OK) l->room = room;
    }
    if (st == SR_OK) {
        memcpy(l->pushed + l->pending, p, (size_t)n * sizeof *p);
        l->pending += n;
        l->next = p[n - 1]->order.end;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return st;
}

static sr_status check_pushes(const sr_loader *l) {
    if (l->pushes) return SR_OK;
    return sr_fail(SR_EINVAL, "loader: sequences are not drawn by order; open it with by: order");
}

sr_status sr_loader_push(sr_loader *l, const sr_given *given) {
    sr_epoch *e;
    pushed *p;
    SR_TRY(check_pushes(l));
    SR_TRY(sr_fetcher_epoch(&e, &l->fetcher, l->start.epoch, 0, NULL));
    sr_status st;
    SR_GO(done, st, sr_new(&p, 1));
    st = sr_order_given(&p->order, e, given, &l->next); /* only this thread changes next */
    if (st == SR_OK) st = append(l, &p, 1);
    if (st != SR_OK) pushed_free(p);
done:
    sr_epoch_release(e);
    return st;
}

static sr_status push_updates(sr_loader *l, sr_window *w, int64_t from) {
    int64_t n = sr_window_updates(w) - from;
    pushed **p;
    SR_TRY(sr_new(&p, n));
    sr_status st = SR_OK;
    for (int64_t i = 0; st == SR_OK && i < n; i++) {
        st = sr_new(&p[i], 1);
        if (st == SR_OK) *p[i] = (pushed){{.end = sr_window_end(w)}, sr_window_retain(w), from + i};
    }
    if (st == SR_OK) st = append(l, p, n);
    for (int64_t i = 0; st != SR_OK && i < n && p[i] != NULL; i++) pushed_free(p[i]);
    sr_free(p);
    return st;
}

sr_status sr_loader_push_window(sr_loader *l, const sr_window_opts *window, int64_t from,
                                sr_counters *end) {
    sr_epoch *e;
    sr_window *w;
    sr_window_opts own = *window;
    own.begin = l->next; /* only this thread changes it */
    own.begin.drawn = window->begin.drawn;
    own.begin.epoch = window->begin.epoch;
    SR_TRY(check_pushes(l));
    if (from < 0 || from >= own.updates || own.begin.drawn.updates + from != l->next.drawn.updates)
        return sr_fail(SR_EINVAL,
                       "loader: a window of %" PRId64 " updates from update %" PRId64
                       " cannot continue at update %" PRId64,
                       own.updates, own.begin.drawn.updates, l->next.drawn.updates);
    if (!(own.mask >= 0 && own.mask <= l->fetcher.masker.prob))
        return sr_fail(SR_EINVAL, "order: mask is %g; must be 0 (the loader's) to mask.prob %g",
                       own.mask, l->fetcher.masker.prob);
    SR_TRY(sr_fetcher_epoch(&e, &l->fetcher, own.begin.epoch, 0, NULL));
    sr_status st = sr_window_new(&w, e, &own);
    if (st == SR_OK) {
        *end = sr_window_end(w).drawn;
        st = push_updates(l, w, from);
        sr_window_release(w);
    }
    sr_epoch_release(e);
    return st;
}

/* ---- inspection ---- */

sr_status sr_loader_update_of(sr_update **out, sr_loader *l, const uint32_t *uids, int64_t n,
                              uint32_t epoch, sr_arrange arrange) {
    *out = NULL;
    sr_epoch *e;
    sr_pick *pick;
    SR_TRY(sr_new(&pick, n));
    sr_status st = sr_fetcher_epoch(&e, &l->fetcher, epoch, l->delivered.stage, NULL);
    if (st == SR_OK) {
        for (int64_t i = 0; i < n; i++)
            pick[i] = (sr_pick){.examples = e->examples,
                                .uid = uids[i],
                                .epoch = epoch,
                                .stage = sr_concept_masks_at(&l->fetcher.masker.concepts, 1)};
        st = sr_fetcher_pick(out, &l->fetcher, pick, n, arrange);
        sr_epoch_release(e);
    }
    sr_free(pick);
    return st;
}

sr_status sr_loader_epoch(sr_epoch **out, sr_loader *l, uint32_t epoch) {
    return sr_fetcher_epoch(out, &l->fetcher, epoch, l->delivered.stage, NULL);
}

const sr_loader_opts *sr_loader_options(const sr_loader *l) {
    return &l->fetcher.opts;
}

double sr_loader_waited(const sr_loader *l) {
    return l->waited;
}
