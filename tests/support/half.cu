/* half.cu - the attention kernels in f16, which no tensor has: compiled for tests/gates.sh only. */
#include "kernels/cuda/attention_backward.cuh"
#include "kernels/cuda/attention_forward.cuh"

const void *half_kernels[] = {
    (const void *)attention::forward<f16, 64, 2, true, false>,
    (const void *)attention::backward<f16, 64, true, false>,
};
