/* late.c - a device that does nothing before it must: built as build/tests/late.so.
 *
 * A plug-in that wraps the cpu backend.  Every call is queued with copies of its arguments; at the
 * next wait (download, wait) a thread of its own runs the queue in order.  Whatever relies on a
 * call being done when it returns, or on memory that the caller may take back, shows here.
 *
 * Errors that a queued call meets are kept, the first of them, and the next wait reports it.
 */
#include <pthread.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/layout_on.h"
#include "core/tensor/plugin.h"

static const sr_backend *cpu;

/* ---- the queue ------------------------------------------------------------------------------- */

typedef struct call {
    struct call *next;
    sr_status (*run)(struct call *);
} call;

typedef struct queue {
    sr_device *inner; /* of the cpu backend; its pool is not used */
    call *first, *last;
    sr_status status; /* the first failure since the last wait */
    char message[1024];
} queue;

static queue *queue_of(const sr_device *device) {
    return device->state;
}

static void enqueue(queue *q, call *c, sr_status (*run)(call *)) {
    c->run = run;
    if (q->last != NULL)
        q->last->next = c;
    else
        q->first = c;
    q->last = c;
}

static void *run_all(void *context) {
    queue *q = context;
    while (q->first != NULL) {
        call *c = q->first;
        q->first = c->next;
        sr_status st = c->run(c);
        if (st != SR_OK && q->status == SR_OK) {
            q->status = st;
            memcpy(q->message, sr_message(), strlen(sr_message()) + 1);
        }
        sr_free(c);
    }
    q->last = NULL;
    return NULL;
}

static sr_status late_wait(sr_device *device) {
    queue *q = queue_of(device);
    pthread_t thread;
    q->inner->threads = device->threads; /* the pool may be another one by now */
    if (q->first != NULL) {
        if (pthread_create(&thread, NULL, run_all, q) != 0)
            return sr_fail(SR_EDEVICE, "late: cannot start a thread");
        pthread_join(thread, NULL);
    }
    sr_status st = q->status;
    q->status = SR_OK;
    return st == SR_OK ? SR_OK : sr_fail(st, "%s", q->message);
}

/* ---- copies of arguments --------------------------------------------------------------------- */

/* A tensor as it was at the call; the storage may be another's by the time the call runs. */
typedef struct kept {
    sr_tensor tensor;
    sr_storage storage;
} kept;

static void keep(kept *k, const sr_tensor *t) {
    if (t == NULL) return;
    k->tensor = *t;
    k->storage = *t->storage;
    k->storage.device = queue_of(t->storage->device)->inner;
    k->tensor.storage = &k->storage;
}

static sr_tensor *tensor_of(kept *k) {
    return k->tensor.storage != NULL ? &k->tensor : NULL;
}

static sr_device *device_among(const sr_tensor *const *list) {
    while (*list == NULL) list++;
    return (*list)->storage->device;
}

/* A layout may be gone when the call runs: its arrays are those in device memory. */
typedef struct kept_layout {
    sr_layout layout;
    bool given;
} kept_layout;

static sr_status keep_layout(kept_layout *c, const sr_layout *layout, sr_device *device) {
    sr_layout_on *on;
    if (layout == NULL) return SR_OK;
    SR_TRY(sr_layout_find_on(&on, layout, device));
    c->layout = *layout;
    c->given = true;
    c->layout.start = (int32_t *)(uintptr_t)on->start;
    c->layout.len = (int32_t *)(uintptr_t)on->len;
    c->layout.uid = (uint32_t *)(uintptr_t)on->uid;
    c->layout.epoch = (uint32_t *)(uintptr_t)on->epoch;
    c->layout.owner = (int32_t *)(uintptr_t)on->owner;
    c->layout.position = (int32_t *)(uintptr_t)on->position;
    c->layout.longest_first = (int32_t *)(uintptr_t)on->longest_first;
    return SR_OK;
}

/* ---- one queued function a slot -------------------------------------------------------------- */

/* What is done with each argument of a slot, by its kind (core/tensor/slots.h). */
#define FIELD_OUT(name) kept name;
#define FIELD_IN(name) kept name;
#define FIELD_LAYOUT(name) kept_layout name;
#define FIELD_VALUE(type, name) type name;

#define TENSOR_OUT(name) name,
#define TENSOR_IN(name) name,
#define TENSOR_LAYOUT(name)
#define TENSOR_VALUE(type, name)

#define KEEP_OUT(name) keep(&it->name, name);
#define KEEP_IN(name) keep(&it->name, name);
#define KEEP_LAYOUT(name)                                                                          \
    if (st == SR_OK) st = keep_layout(&it->name, name, device);
#define KEEP_VALUE(type, name) it->name = name;

#define PASS_OUT(name) tensor_of(&it->name)
#define PASS_IN(name) tensor_of(&it->name)
#define PASS_LAYOUT(name) (it->name.given ? &it->name.layout : NULL)
#define PASS_VALUE(type, name) it->name

#define SR_SLOT(slot, ...)                                                                         \
    typedef struct queued_##slot##_call {                                                          \
        call head;                                                                                 \
        SR_EACH(FIELD_, __VA_ARGS__)                                                               \
    } queued_##slot##_call;                                                                        \
    static sr_status run_queued_##slot(call *c) {                                                  \
        queued_##slot##_call *it = (queued_##slot##_call *)c;                                      \
        return cpu->slot(SR_EACH_COMMA(PASS_, __VA_ARGS__));                                       \
    }                                                                                              \
    static sr_status queued_##slot(SR_PARAMETERS(__VA_ARGS__)) {                                   \
        queued_##slot##_call *it;                                                                  \
        const sr_tensor *const tensors[] = {SR_EACH(TENSOR_, __VA_ARGS__) NULL};                   \
        sr_device *device = device_among(tensors);                                                 \
        sr_status st = sr_new(&it, 1);                                                             \
        if (st != SR_OK) return st;                                                                \
        SR_EACH(KEEP_, __VA_ARGS__)                                                                \
        if (st == SR_OK)                                                                           \
            enqueue(queue_of(device), &it->head, run_queued_##slot);                               \
        else                                                                                       \
            sr_free(it);                                                                           \
        return st;                                                                                 \
    }
#include "core/tensor/slots.h"

/* ---- what copies more than tensors ----------------------------------------------------------- */

typedef struct squares_call {
    call head;
    kept squares, grad;
    int64_t first, last;
    sr_chunk chunks[];
} squares_call;

static sr_status run_grad_squares(call *c) {
    squares_call *w = (squares_call *)c;
    return cpu->grad_squares(&w->squares.tensor, &w->grad.tensor, w->chunks, w->first, w->last);
}

static sr_status late_grad_squares(sr_tensor *squares, const sr_tensor *grad,
                                   const sr_chunk *chunks, int64_t first, int64_t last) {
    squares_call *w;
    SR_TRY(sr_alloc((void **)&w, sizeof *w + (size_t)last * sizeof *chunks, 1));
    keep(&w->squares, squares);
    keep(&w->grad, grad);
    w->first = first;
    w->last = last;
    memcpy(w->chunks, chunks, (size_t)last * sizeof *chunks);
    enqueue(queue_of(grad->storage->device), &w->head, run_grad_squares);
    return SR_OK;
}

typedef struct step_call {
    call head;
    sr_step step;
    kept value, grad, m, v, bf16, norms, result;
    sr_segment *segments; /* after the chunks */
    sr_chunk chunks[];
} step_call;

static const sr_step *step_of(step_call *w) {
    w->step.value = tensor_of(&w->value);
    w->step.grad = tensor_of(&w->grad);
    w->step.m = tensor_of(&w->m);
    w->step.v = tensor_of(&w->v);
    w->step.bf16_copy = tensor_of(&w->bf16);
    w->step.norms = tensor_of(&w->norms);
    w->step.result = tensor_of(&w->result);
    w->step.segments = w->segments;
    w->step.chunks = w->chunks;
    return &w->step;
}

static sr_status run_step(call *c) {
    return cpu->step(step_of((step_call *)c));
}

static sr_status run_moments(call *c) {
    return cpu->moments(step_of((step_call *)c));
}

static sr_status enqueue_step(const sr_step *step, sr_status (*run)(call *)) {
    step_call *w;
    size_t chunks = (size_t)step->chunk_count * sizeof *step->chunks;
    size_t segments = (size_t)step->count * sizeof *step->segments;
    SR_TRY(sr_alloc((void **)&w, sizeof *w + chunks + segments, 1));
    w->step = *step;
    w->step.weights = NULL; /* this device has no layouts of weights */
    w->step.weight_count = 0;
    keep(&w->value, step->value);
    keep(&w->grad, step->grad);
    keep(&w->m, step->m);
    keep(&w->v, step->v);
    keep(&w->bf16, step->bf16_copy);
    keep(&w->norms, step->norms);
    keep(&w->result, step->result);
    memcpy(w->chunks, step->chunks, chunks);
    w->segments = (sr_segment *)(w->chunks + step->chunk_count);
    memcpy(w->segments, step->segments, segments);
    enqueue(queue_of(step->value->storage->device), &w->head, run);
    return SR_OK;
}

static sr_status run_directions(call *c) {
    return cpu->directions(step_of((step_call *)c));
}

static sr_status late_directions(const sr_step *step) {
    return enqueue_step(step, run_directions);
}

static sr_status late_step(const sr_step *step) {
    return enqueue_step(step, run_step);
}

static sr_status late_moments(const sr_step *step) {
    return enqueue_step(step, run_moments);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static sr_status late_open(sr_device *device) {
    queue *q;
    SR_TRY(sr_new(&q, 1));
    sr_status st = sr_device_open(&q->inner, cpu, 0, device->threads);
    if (st != SR_OK) {
        sr_free(q);
        return st;
    }
    device->state = q;
    return SR_OK;
}

static void late_close(sr_device *device) {
    queue *q = queue_of(device);
    if (q == NULL) return;
    (void)late_wait(device);
    while (q->first != NULL) { /* no thread could be started */
        call *c = q->first;
        q->first = c->next;
        sr_free(c);
    }
    sr_device_close(q->inner);
    sr_free(q);
    device->state = NULL;
}

static sr_status late_alloc(sr_device *device, void **data, size_t bytes) {
    return cpu->alloc(queue_of(device)->inner, data, bytes);
}

typedef struct free_call {
    call head;
    sr_device *inner;
    void *data;
    size_t bytes;
} free_call;

static sr_status run_free(call *c) {
    free_call *w = (free_call *)c;
    cpu->free(w->inner, w->data, w->bytes);
    return SR_OK;
}

static void late_free(sr_device *device, void *data, size_t bytes) {
    free_call *w;
    if (sr_new(&w, 1) != SR_OK) {
        (void)late_wait(device);
        cpu->free(queue_of(device)->inner, data, bytes);
        return;
    }
    w->inner = queue_of(device)->inner;
    w->data = data;
    w->bytes = bytes;
    enqueue(queue_of(device), &w->head, run_free);
}

typedef struct upload_call {
    call head;
    void *to;
    size_t bytes;
    char from[];
} upload_call;

static sr_status run_upload(call *c) {
    upload_call *w = (upload_call *)c;
    memcpy(w->to, w->from, w->bytes);
    return SR_OK;
}

static sr_status late_upload(sr_device *device, void *to, const void *host, size_t bytes) {
    upload_call *w;
    SR_TRY(sr_alloc((void **)&w, sizeof *w + bytes, 1));
    w->to = to;
    w->bytes = bytes;
    memcpy(w->from, host, bytes);
    enqueue(queue_of(device), &w->head, run_upload);
    return SR_OK;
}

static sr_status late_download(sr_device *device, void *host, const void *from, size_t bytes) {
    SR_TRY(late_wait(device));
    return cpu->download(queue_of(device)->inner, host, from, bytes);
}

/* ---- the plug-in ----------------------------------------------------------------------------- */

/* Not NULL: for engines that order their work after that of the queue (tests/support/nccl.c). */
static void *late_queue(sr_device *device) {
    return queue_of(device);
}

static sr_backend late = {
    SR_BACKEND_ABI,      .name = "late",      .open = late_open,     .close = late_close,
    .alloc = late_alloc, .free = late_free,   .upload = late_upload, .download = late_download,
    .wait = late_wait,   .queue = late_queue,
};

static void fill_slots(void) {
#define SR_SLOT(slot, ...)                                                                         \
    if (cpu->slot != NULL) late.slot = queued_##slot;
#include "core/tensor/slots.h"
    late.grad_squares = late_grad_squares;
    late.step = late_step;
    late.moments = late_moments;
    late.directions = late_directions;
}

sr_status sr_plugin_init(const sr_host *host, int abi) {
    (void)abi;
    cpu = host->find_backend("cpu");
    if (cpu == NULL) return sr_fail(SR_EDEVICE, "the cpu device is missing");
    late.real = cpu->real;
    fill_slots();
    return host->add_backend(&late);
}
