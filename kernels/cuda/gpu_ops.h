/* gpu_ops.h - the functions that fill the table of a GPU: gpu_SLOT for each slot of sr_backend. */
#ifndef SR_CUDA_GPU_OPS_H
#define SR_CUDA_GPU_OPS_H

#include "core/tensor/backend.h"

template <class F> struct gpu_slot;
template <class F> struct gpu_slot<F *> { typedef F type; };
template <class F> struct gpu_slot<F * sr_backend::*> { typedef F type; };

/* Declares gpu_NAME with the type of the slot; a slot without a definition stays empty. */
#define GPU_SLOT(name) __attribute__((weak)) gpu_slot<decltype(sr_backend::name)>::type gpu_##name;

/* Every slot that one host may lack, for lists: EACH(name). */
#define GPU_SLOTS(EACH)                                                                            \
    EACH(count)                                                                                    \
    EACH(describe)                                                                                 \
    EACH(capture)                                                                                  \
    EACH(option)                                                                                   \
    EACH(choices)                                                                                  \
    EACH(fill)                                                                                     \
    EACH(copy)                                                                                     \
    EACH(unary)                                                                                    \
    EACH(unary_backward)                                                                           \
    EACH(binary)                                                                                   \
    EACH(where)                                                                                    \
    EACH(axpby)                                                                                    \
    EACH(reduce)                                                                                   \
    EACH(matmul)                                                                                   \
    EACH(softmax)                                                                                  \
    EACH(softmax_backward)                                                                         \
    EACH(gather_rows)                                                                              \
    EACH(scatter_rows)                                                                             \
    EACH(put_rows)                                                                                 \
    EACH(random)                                                                                   \
    EACH(linear)                                                                                   \
    EACH(linear_backward)                                                                          \
    EACH(attention)                                                                                \
    EACH(attention_backward)                                                                       \
    EACH(residual_norm)                                                                            \
    EACH(residual_norm_backward)                                                                   \
    EACH(embed)                                                                                    \
    EACH(embed_backward)                                                                           \
    EACH(dropout)                                                                                  \
    EACH(mlm_loss)                                                                                 \
    EACH(mlm_loss_backward)                                                                        \
    EACH(cross_entropy)                                                                            \
    EACH(weight_build)                                                                             \
    EACH(weight_free)                                                                              \
    EACH(grad_squares)                                                                             \
    EACH(grad_norm)                                                                                \
    EACH(lamb_moments)                                                                             \
    EACH(step)

GPU_SLOTS(GPU_SLOT)

#endif
