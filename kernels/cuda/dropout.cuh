/* dropout.cuh - the dropout of rows into f32, for embed.cu. */
#ifndef SR_CUDA_DROPOUT_CUH
#define SR_CUDA_DROPOUT_CUH

#include "kernels/cuda/drop.cuh"

/* y (T, H) = dropout(x), of f32 or bf16; slack becomes zero. */
sr_status dropped_rows(global<float> y, const char *op, const sr_tensor *x, const drop_rows &drop);

#endif
