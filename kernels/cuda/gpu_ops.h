/* gpu_ops.h - the functions that fill the table of a GPU: gpu_SLOT for each slot of sr_backend. */
#ifndef SR_CUDA_GPU_OPS_H
#define SR_CUDA_GPU_OPS_H

#include "core/tensor/backend.h"

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

#endif
