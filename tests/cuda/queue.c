#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cudaStream_t streams;
static unsigned long long state;

int queue_is_late(void) {
    static int late = -1;
    const char *seed = getenv("SEQRUN_FAKE_ORDER");
    if (late < 0) {
        late = seed != NULL;
        if (late) state = strtoull(seed, NULL, 10) * 2 + 1;
    }
    return late;
}

static unsigned draw(unsigned below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % below);
}

cudaStream_t queue_new(void) {
    cudaStream_t s = calloc(1, sizeof *s);
    s->finish = queue_finish;
    s->next = streams;
    streams = s;
    return s;
}

void queue_free(cudaStream_t stream) {
    queue_finish(stream);
    cudaStream_t *at = &streams;
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    free(stream);
}

static void run(const work *w) {
    switch (w->kind) {
    case WORK_COPY:
        memcpy(w->to, w->from, w->bytes);
        break;
    case WORK_FILL:
        for (size_t row = 0; row < w->rows; row++)
            memset((char *)w->to + row * w->pitch, w->value, w->bytes);
        break;
    case WORK_KERNEL:
    case WORK_WAIT:
        break;
    case WORK_RECORD:
        w->event->done = w->ticket;
        break;
    }
}

/* Does the next work of a stream, if it has any that can be done. */
static int advance(cudaStream_t stream) {
    work *w = stream->first;
    if (w == NULL || (w->kind == WORK_WAIT && w->event->done < w->ticket)) return 0;
    run(w);
    stream->first = w->next;
    if (w->next == NULL) stream->last = NULL;
    free(w);
    return 1;
}

/* Does work of a drawn stream; 0 if none can go on. */
static int advance_any(void) {
    unsigned count = 0, skip;
    for (cudaStream_t s = streams; s != NULL; s = s->next) count++;
    if (count == 0) return 0;
    skip = draw(count);
    cudaStream_t s = streams;
    while (skip-- > 0) s = s->next;
    for (unsigned i = 0; i < count; i++) {
        if (advance(s)) return 1;
        s = s->next != NULL ? s->next : streams;
    }
    return 0;
}

static void go_on(const char *what) {
    if (advance_any()) return;
    fprintf(stderr, "the fake runtime waits forever for %s\n", what);
    abort();
}

void queue_put(cudaStream_t stream, work w) {
    if (!queue_is_late() || stream == NULL) {
        run(&w);
        return;
    }
    for (unsigned n = draw(8) > 0 ? 0 : draw(8); n > 0; n--) advance_any(); /* mostly nothing */
    work *own = malloc(sizeof *own);
    *own = w;
    own->next = NULL;
    if (stream->last != NULL)
        stream->last->next = own;
    else
        stream->first = own;
    stream->last = own;
}

void queue_finish(cudaStream_t stream) {
    while (stream != NULL && stream->first != NULL) go_on("a stream");
}

void queue_finish_event(cudaEvent_t event) {
    while (event->done < event->recorded) go_on("an event");
}

void queue_finish_all(void) {
    for (cudaStream_t s = streams; s != NULL; s = s->next) queue_finish(s);
}
