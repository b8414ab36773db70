/* gpu_simt.cc - gpu.h on a CPU: a launch runs its blocks at once, in a pseudo-random order.
 *
 * SEQRUN_SIMT_CHECK=0 leaves out the checks for races (recipes then run faster); bounds are always
 * checked.  SEQRUN_SIMT_REPORT=1 counts accesses: report.h.  SEQRUN_SIMT_SEED=N draws other orders
 * of blocks and threads, and other times at which asynchronous copies arrive.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/thread.h"
#include "kernels/cuda/gpu.h"
#include "kernels/simt/arena.h"
#include "kernels/simt/report.h"

using namespace simt;

enum { MAX_WORKERS = 64, SLICES = 64 };

struct simt_host {
    machine *machines[MAX_WORKERS];
    queue_fault word;
    unsigned watch;
    uint64_t seed;
    uint64_t launches;
    sr_status status; /* of the first launch that failed since the last wait */
    char message[640];
};

static simt_host *host_of(const gpu *g) {
    return (simt_host *)g->host;
}

/* ---- launches -------------------------------------------------------------------------------- */

struct running {
    simt_host *host;
    dim grid;
    uint64_t blocks, slice, step; /* block i of the order is i * step + start */
    uint64_t start;
    int threads;
    uint32_t shared_bytes, stamps;
    void (*call)(void *);
    void *arguments;
};

/* A multiplier that visits each of n blocks once. */
static uint64_t stride_over(uint64_t n, uint64_t key) {
    if (n < 3) return 1;
    for (uint64_t step = key % n;; step = (step + 1) % n) {
        uint64_t a = n, b = step;
        while (b != 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return step;
    }
}

static void set_up(machine *m, const running *r) {
    m->threads = r->threads;
    m->blocks[0] = (int)r->grid.x;
    m->blocks[1] = (int)r->grid.y;
    m->blocks[2] = (int)r->grid.z;
    m->watch = r->host->watch;
    m->shared_bytes = r->shared_bytes;
    m->launch = r->stamps;
    m->call = r->call;
    m->arguments = r->arguments;
}

static sr_status run_slice(void *context, int64_t slice, int worker) {
    const running *r = (const running *)context;
    machine **m = &r->host->machines[worker];
    if (*m == nullptr) SR_TRY(machine_new(m));
    set_up(*m, r);
    uint64_t end = (uint64_t)(slice + 1) * r->slice;
    for (uint64_t i = (uint64_t)slice * r->slice; i < end && i < r->blocks; i++) {
        uint64_t b = (uint64_t)((unsigned __int128)i * r->step % r->blocks + r->start) % r->blocks;
        (*m)->block[0] = (int)(b % r->grid.x);
        (*m)->block[1] = (int)(b / r->grid.x % r->grid.y);
        (*m)->block[2] = (int)(b / r->grid.x / r->grid.y);
        (*m)->stamp = r->stamps + (uint32_t)b;
        if (!run_block(*m, b * 2654435761u + r->start))
            return sr_fail(SR_EDEVICE, "%s", (*m)->message);
    }
    return SR_OK;
}

/* Keeps the first failure for the next wait, like a GPU. */
static void remember(simt_host *h, const char *op, sr_status st) {
    if (h->status != SR_OK) return;
    h->status = st;
    snprintf(h->message, sizeof h->message, "simt: %s: %s", op, sr_message());
}

/* The launch bounds of a kernel must hold for its launches. */
static sr_status check_bounds(const char *op, bounds b, int threads) {
    if (b.threads == 0 || threads <= b.threads) return SR_OK;
    return sr_fail(SR_EINTERNAL, "%s: a block of %d threads; the kernel was compiled for up to %d",
                   op, threads, b.threads);
}

sr_status gpu_launch(gpu *g, const char *op, const void *kernel, dim grid, int threads,
                     size_t shared_bytes, void (*call)(void *), void *arguments) {
    simt_host *h = host_of(g);
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    SR_TRY(check_bounds(op, bounds_of(kernel), threads));
    if (threads < WARP || threads > MAX_THREADS || threads % WARP != 0)
        return sr_fail(SR_EINTERNAL, "%s: a block of %d threads; use a multiple of 32 up to 1,024",
                       op, threads);
    if (shared_bytes > MAX_SHARED)
        return sr_fail(SR_EINTERNAL, "%s: %zu bytes of shared memory; a block has at most %d", op,
                       shared_bytes, (int)MAX_SHARED);
    if (grid.y > 65535 || grid.z > 65535 || grid.x > 0x7FFFFFFFu || blocks > 0x7FFFFFFFu)
        return sr_fail(SR_EINTERNAL, "%s: a grid of (%u, %u, %u) blocks is too large", op, grid.x,
                       grid.y, grid.z);
    uint64_t key = (++h->launches + (h->seed << 32)) * 0x9E3779B97F4A7C15u;
    running r = {h,
                 grid,
                 blocks,
                 (blocks + SLICES - 1) / SLICES,
                 stride_over(blocks, key >> 20),
                 (key >> 32) % blocks,
                 threads,
                 (uint32_t)shared_bytes,
                 arena_stamps((uint32_t)blocks),
                 call,
                 arguments};
    sr_threads *crew = g->device->threads;
    if (sr_threads_count(crew) > MAX_WORKERS) crew = nullptr;
    int64_t slices = (int64_t)((blocks + r.slice - 1) / r.slice);
    sr_status st = sr_threads_run(crew, run_slice, &r, slices);
    for (int i = 0; (h->watch & WATCH_COUNTS) && i < MAX_WORKERS; i++)
        if (h->machines[i] != nullptr) report_launch(h->machines[i], op);
    if (st == SR_ENOMEM) return st;
    if (st != SR_OK) remember(h, op, st);
    return SR_OK;
}

/* ---- device ---------------------------------------------------------------------------------- */

static bool is_off(const char *variable) {
    const char *value = getenv(variable);
    return value != nullptr && value[0] == '0';
}

sr_status gpu_open(sr_device *device) {
    SR_TRY(arena_open());
    gpu *g = nullptr;
    simt_host *h = nullptr;
    sr_status st = sr_new(&g, 1);
    if (st == SR_OK) st = sr_new(&h, 1);
    if (st != SR_OK) {
        sr_free(g);
        return st;
    }
    h->word = gpu_no_fault();
    h->watch = is_off("SEQRUN_SIMT_CHECK") ? 0u : (unsigned)WATCH_RACES;
    if (getenv("SEQRUN_SIMT_REPORT") != nullptr) h->watch |= WATCH_COUNTS;
    if (getenv("SEQRUN_SIMT_SEED") != nullptr)
        h->seed = strtoull(getenv("SEQRUN_SIMT_SEED"), nullptr, 10);
    g->device = device;
    g->processors = 4;
    g->shared_bytes = 227 << 10; /* of an H100 */
    g->word = &h->word;
    g->host = h;
    device->state = g;
    return SR_OK;
}

static void print_report(void) {
    const char *where = getenv("SEQRUN_SIMT_REPORT");
    if (where == nullptr || strcmp(where, "1") == 0) {
        report_print(stderr, false);
        return;
    }
    FILE *file = fopen(where, "w");
    if (file == nullptr) return;
    report_print(file, true);
    fclose(file);
}

void gpu_close(sr_device *device) {
    gpu *g = (gpu *)device->state;
    if (g == nullptr) return;
    gpu_scratch_free(g);
    simt_host *h = host_of(g);
    if (h->watch & WATCH_COUNTS) print_report();
    for (int i = 0; i < MAX_WORKERS; i++) machine_free(h->machines[i]);
    sr_free(h);
    sr_free(g);
    device->state = nullptr;
}

sr_status gpu_alloc(sr_device *, void **data, size_t bytes) {
    return arena_take(data, bytes);
}

void gpu_free(sr_device *, void *data, size_t bytes) {
    arena_give(data, bytes);
}

sr_status gpu_upload(sr_device *, void *to, const void *host, size_t bytes) {
    if (bytes > 0) memcpy(arena_inside(to), host, bytes);
    return SR_OK;
}

void *gpu_queue(sr_device *) {
    return nullptr;
}

sr_status gpu_wait(sr_device *device) {
    gpu *g = (gpu *)device->state;
    simt_host *h = host_of(g);
    sr_status launched = h->status, found = gpu_fault_status(&h->word);
    h->status = SR_OK;
    h->word = gpu_no_fault();
    g->calls = 0;
    return launched != SR_OK ? sr_fail(launched, "%s", h->message) : found;
}

sr_status gpu_download(sr_device *device, void *host, const void *from, size_t bytes) {
    sr_status st = gpu_wait(device);
    if (bytes > 0) memcpy(host, arena_inside(from), bytes);
    return st;
}
