/* gpu.h - what the host code of kernels/cuda uses of a device: launches, scratch, faults.
 *
 * Both hosts implement it: gpu_cuda.cu for a GPU, kernels/simt/gpu_simt.cc for the CPU.  A device
 * is a queue; nothing here waits for it.
 */
#pragma once

#include "core/tensor/backend.h"
#include "core/tensor/pool.h"
#include "kernels/cuda/prim.cuh"
#ifdef SR_SIMT
#include "kernels/simt/arena.h"
#endif

enum { GPU_SCRATCH_SLOTS = 16, GPU_KEPT_TABLES = 4 };

struct gpu {
    sr_device *device;
    int processors; /* multiprocessors: for the size of grids whose results do not depend on it */
    size_t shared_bytes; /* that a block may have */
    queue_fault *word;   /* as kernels see it */
    uint32_t calls;      /* calls of faults() since the last wait */
    struct {
        void *data;
        size_t bytes;
    } scratch[GPU_SCRATCH_SLOTS];
    struct {
        void *data, *copy; /* on the device, and what it holds */
        size_t room, bytes;
    } kept[GPU_KEPT_TABLES];
    void *host; /* private to the implementation */
};

static inline gpu *gpu_of(const sr_tensor *t) {
    return (gpu *)t->storage->device->state;
}

/* ---- launches -------------------------------------------------------------------------------- */

struct dim {
    unsigned x, y, z;
    dim(size_t x, size_t y = 1, size_t z = 1) : x((unsigned)x), y((unsigned)y), z((unsigned)z) {
    }
};

static inline size_t ceil_div(size_t a, size_t b) {
    return (a + b - 1) / b;
}

template <class T> struct gpu_same { typedef T type; };

#ifdef SR_SIMT
sr_status gpu_launch(gpu *g, const char *op, const void *kernel, dim grid, int threads,
                     size_t shared_bytes, void (*call)(void *), void *arguments);
#else
sr_status gpu_launch(gpu *g, const char *op, const void *kernel, dim grid, int threads,
                     size_t shared_bytes, void **arguments);
#endif

/* Queues kernel(args...) on a grid of blocks of `threads` (a multiple of 32); an empty grid
 * does nothing.  `op` names it in messages. */
template <class... P>
static inline sr_status launch(gpu *g, const char *op, void (*kernel)(P...), dim grid, int threads,
                               size_t shared_bytes, typename gpu_same<P>::type... args) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return SR_OK;
#ifdef SR_SIMT
    auto call = [=]() { kernel(args...); };
    return gpu_launch(
        g, op, (const void *)kernel, grid, threads, shared_bytes,
        [](void *c) { (*(decltype(call) *)c)(); }, &call);
#else
    void *list[] = {(void *)&args..., nullptr};
    return gpu_launch(g, op, (const void *)kernel, grid, threads, shared_bytes, list);
#endif
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Bytes from the first element of a view to the end of its last. */
static inline size_t gpu_extent(const sr_tensor *t) {
    size_t last = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 0) return 0;
        last += (size_t)(t->shape[i] - 1) * (size_t)t->stride[i];
    }
    return (last + 1) * sr_dtype_size(t->dtype);
}

/* A pointer to `count` elements of device memory. */
template <class T> global<T> gpu_pointer(T *data, size_t count) {
#ifdef SR_SIMT
    T *inside = (T *)simt::arena_inside(data);
    return global<T>(inside, inside, inside + count);
#else
    (void)count;
    return data;
#endif
}

/* The address, for gemm.h. */
template <class T> T *raw(global<T> p) {
#ifdef SR_SIMT
    return (T *)simt::arena_outside(p.p);
#else
    return p;
#endif
}

/* `count` elements of it from `from` on, and no others. */
template <class T> global<T> part(global<T> p, size_t from, size_t count) {
    return gpu_pointer(raw<T>(p + from), count);
}

/* The elements of a tensor, as an input or an output; NULL for NULL. */
template <class T> global<const T> in(const sr_tensor *t) {
    if (t == nullptr) return nullptr;
    return gpu_pointer((const T *)sr_tensor_data(t), gpu_extent(t) / sizeof(T));
}
template <class T> global<T> out(sr_tensor *t) {
    if (t == nullptr) return nullptr;
    return gpu_pointer((T *)sr_tensor_data(t), gpu_extent(t) / sizeof(T));
}

/* ---- scratch and small tables ---------------------------------------------------------------- */

/* Device memory that is good for the launches of one call of a slot of sr_backend: a later call may
 * get the same.  A call uses each number once. */
sr_status gpu_scratch(void **data, gpu *g, int number, size_t bytes);
void gpu_scratch_free(gpu *g);

template <class T> sr_status scratch(global<T> *p, gpu *g, int number, size_t count) {
    void *data;
    SR_TRY(gpu_scratch(&data, g, number, count * sizeof(T)));
    *p = gpu_pointer((T *)data, count);
    return SR_OK;
}

/* A copy of a host table in scratch `number`, queued; `host` may be reused at once. */
template <class T>
sr_status table(global<const T> *p, gpu *g, int number, const T *host, size_t count) {
    void *data;
    SR_TRY(gpu_scratch(&data, g, number, count * sizeof(T)));
    *p = gpu_pointer((const T *)data, count);
    if (count == 0) return SR_OK;
    return g->device->backend->upload(g->device, data, host, count * sizeof(T));
}

/* The same for a table that stays on the device and is uploaded only when its contents differ from
 * those at the last call with this number.  The numbers belong to optim.cu. */
sr_status gpu_keep(void **data, gpu *g, int number, const void *host, size_t bytes);

template <class T>
sr_status kept_table(global<const T> *p, gpu *g, int number, const T *host, size_t count) {
    void *data;
    SR_TRY(gpu_keep(&data, g, number, host, count * sizeof(T)));
    *p = gpu_pointer((const T *)data, count);
    return SR_OK;
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* For the kernels of a call that check data; requested once per call. */
static inline fault_at faults(gpu *g) {
    return {g->word, ++g->calls};
}

/* For waits: the failure that a returned fault word names; SR_OK if none. */
sr_status gpu_fault_status(const queue_fault *word);
static inline queue_fault gpu_no_fault(void) {
    return {0, 0, ~(uint64_t)0, 0, 0};
}

/* ---- the memory functions of sr_backend, of each host ---------------------------------------- */

sr_status gpu_open(sr_device *device);
void gpu_close(sr_device *device);
sr_status gpu_alloc(sr_device *device, void **data, size_t bytes);
void gpu_free(sr_device *device, void *data, size_t bytes);
sr_status gpu_upload(sr_device *device, void *to, const void *host, size_t bytes);
sr_status gpu_download(sr_device *device, void *host, const void *from, size_t bytes);
void *gpu_queue(sr_device *device);
sr_status gpu_wait(sr_device *device);

/* ---- the slots of sr_backend ----------------------------------------------------------------- */

/* The functions that fill the table: gpu_SLOT for each slot. */
template <class F> struct gpu_slot;
template <class F> struct gpu_slot<F *> { typedef F type; };
template <class F> struct gpu_slot<F * sr_backend::*> { typedef F type; };

/* Declares gpu_NAME with the type of the slot; a slot without a definition stays empty. */
#define GPU_SLOT(name) __attribute__((weak)) gpu_slot<decltype(sr_backend::name)>::type gpu_##name;

/* Slots besides ops that one host may lack, for lists: EACH(name). */
#define GPU_OTHERS(EACH)                                                                           \
    EACH(count)                                                                                    \
    EACH(describe)                                                                                 \
    EACH(option)                                                                                   \
    EACH(zero_ranges)                                                                              \
    EACH(weight_build)                                                                             \
    EACH(weight_free)

GPU_OTHERS(GPU_SLOT)
#define SR_SLOT(name, ...) GPU_SLOT(name)
#include "core/tensor/slots.h"
