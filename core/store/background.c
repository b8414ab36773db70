#include "core/store/background.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/store/checkpoint.h"
#include "core/store/saving.h"

enum { PIECE = 1 << 18 };

/* A file: `size` bytes from `at` of the copy. */
typedef struct copied {
    char *name;
    size_t at, size;
} copied;

struct sr_background {
    char *run;
    int64_t step, every;
    int keep;
    copied *files;
    int64_t count;
    char *bytes; /* the copy of all files, one after the other */
    size_t room, used;
    pthread_t thread;
    bool running; /* the thread has not been joined */
    atomic_bool done;
    sr_status status;
    char message[1024]; /* of a failure, or the warning */
    bool warned;
};

/* ---- the copy -------------------------------------------------------------------------------- */

static sr_status check_memory(uint64_t bytes) {
    int64_t available = sr_memory_available();
    if (available == 0 || bytes <= (uint64_t)available) return SR_OK;
    return sr_fail(SR_ENOMEM,
                   "checkpoint: a copy of %" PRIu64 " MiB does not fit in the %" PRId64
                   " MiB of memory that are available",
                   bytes >> 20, available >> 20);
}

sr_status sr_background_new(sr_background **out, const char *run) {
    sr_background *b;
    *out = NULL;
    SR_TRY(sr_new(&b, 1));
    atomic_init(&b->done, true);
    sr_status st = sr_strdup(&b->run, run);
    if (st == SR_OK)
        *out = b;
    else
        sr_background_free(b);
    return st;
}

static void forget_files(sr_background *b) {
    for (int64_t i = 0; i < b->count; i++) sr_free(b->files[i].name);
    b->count = 0;
    b->used = 0;
}

static void release_copy(sr_background *b) {
    sr_free_aligned(b->bytes);
    b->bytes = NULL;
    b->room = 0;
}

sr_status sr_background_begin(sr_background *b, int64_t step, uint64_t bytes) {
    if (b->running) return sr_fail(SR_EINTERNAL, "checkpoint: begun while another is written");
    if (step < 0 || step > SR_MAX_STEP)
        return sr_fail(SR_EINVAL, "checkpoint: step %" PRId64 " is out of range 0..%" PRId64, step,
                       (int64_t)SR_MAX_STEP);
    forget_files(b);
    b->step = step;
    b->status = SR_OK;
    b->warned = false;
    if (bytes <= b->room) return SR_OK;
    release_copy(b);
    SR_TRY(check_memory(bytes));
    SR_TRY(sr_alloc_pages((void **)&b->bytes, bytes, bytes));
    b->room = bytes;
    return SR_OK;
}

/* Appends to the last file; has the signature of an sr_st_sink. */
static sr_status copy(void *context, const void *bytes, size_t size) {
    sr_background *b = context;
    if (size > b->room - b->used)
        return sr_fail(SR_EINTERNAL, "checkpoint: files have more bytes than announced");
    if (size > 0) memcpy(b->bytes + b->used, bytes, size);
    b->used += size;
    b->files[b->count - 1].size += size;
    return SR_OK;
}

static sr_status add_file(sr_background *b, const char *name) {
    if (b->running) return sr_fail(SR_EINTERNAL, "checkpoint: '%s' comes after the start", name);
    SR_TRY(sr_grow(&b->files, b->count + 1));
    b->files[b->count] = (copied){.at = b->used};
    SR_TRY(sr_strdup(&b->files[b->count].name, name));
    b->count++;
    return SR_OK;
}

sr_status sr_background_file(sr_background *b, const char *name, const void *bytes, size_t size) {
    SR_TRY(add_file(b, name));
    return copy(b, bytes, size);
}

sr_status sr_background_safetensors(sr_background *b, const char *name, const sr_st_plan *plan) {
    SR_TRY(add_file(b, name));
    return sr_st_plan_write(plan, copy, b);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Writes a file in pieces: each is still in a cache when its sums are computed. */
static sr_status write_file(sr_saving *saving, const char *name, const char *bytes, size_t size) {
    SR_TRY(sr_saving_open(saving, name, size));
    for (size_t at = 0; at < size; at += PIECE) {
        size_t left = size - at;
        SR_TRY(sr_saving_write(saving, bytes + at, left < PIECE ? left : PIECE));
    }
    return sr_saving_close(saving);
}

static sr_status save(const sr_background *b) {
    sr_saving *saving;
    SR_TRY(sr_saving_begin(&saving, b->run, b->step, b->used));
    sr_status st = SR_OK;
    for (int64_t i = 0; st == SR_OK && i < b->count; i++) {
        const copied *file = &b->files[i];
        st = write_file(saving, file->name, b->bytes + file->at, file->size);
    }
    if (st == SR_OK) st = sr_saving_commit(saving);
    sr_saving_end(saving);
    return st;
}

static void *work(void *context) {
    sr_background *b = context;
    b->status = save(b);
    b->warned =
        b->status == SR_OK && sr_checkpoint_retain(b->run, b->step, b->keep, b->every) != SR_OK;
    if (b->status != SR_OK || b->warned)
        snprintf(b->message, sizeof b->message, "%s", sr_message());
    atomic_store(&b->done, true);
    return NULL;
}

sr_status sr_background_start(sr_background *b, int keep, int64_t every) {
    if (b->running) return sr_fail(SR_EINTERNAL, "checkpoint: started twice");
    b->keep = keep;
    b->every = every;
    atomic_store(&b->done, false);
    sigset_t all, before;
    sigfillset(&all); /* the main thread handles signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&b->thread, NULL, work, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    b->running = error == 0;
    if (error == 0) return SR_OK;
    atomic_store(&b->done, true);
    return sr_fail(SR_ENOMEM, "checkpoint: cannot start a thread: %s", strerror(error));
}

bool sr_background_done(const sr_background *b) {
    return atomic_load(&b->done);
}

static void join(sr_background *b) {
    if (b->running) pthread_join(b->thread, NULL);
    b->running = false;
}

sr_status sr_background_wait(sr_background *b, const char **warning) {
    join(b);
    if (check_memory(b->room) != SR_OK) release_copy(b);
    *warning = b->warned ? b->message : NULL;
    return b->status == SR_OK ? SR_OK : sr_fail(b->status, "%s", b->message);
}

void sr_background_free(sr_background *b) {
    if (b == NULL) return;
    join(b);
    forget_files(b);
    release_copy(b);
    sr_free(b->files);
    sr_free(b->run);
    sr_free(b);
}
