/* lt_cuda.h - cuBLASLt, loaded at the first product: 600 MB that a run on the CPU never touches. */
#ifndef SR_CUDA_LT_CUDA_H
#define SR_CUDA_LT_CUDA_H

#include <cublasLt.h>

#include "core/base/status.h"

/* The functions in use, by their names without the prefix cublasLt. */
#define LT_FUNCTIONS(X)                                                                            \
    X(GetVersion)                                                                                  \
    X(GetStatusString)                                                                             \
    X(Create)                                                                                      \
    X(Destroy)                                                                                     \
    X(Matmul)                                                                                      \
    X(MatmulDescInit_internal)                                                                     \
    X(MatmulDescSetAttribute)                                                                      \
    X(MatrixLayoutInit_internal)                                                                   \
    X(MatrixLayoutSetAttribute)                                                                    \
    X(MatmulPreferenceInit_internal)                                                               \
    X(MatmulPreferenceSetAttribute)                                                                \
    X(MatmulAlgoGetHeuristic)                                                                      \
    X(MatmulAlgoCheck)                                                                             \
    X(MatmulAlgoConfigSetAttribute)

#define LT_POINTER(name) decltype(&cublasLt##name) name;
struct lt_functions {
    LT_FUNCTIONS(LT_POINTER)
};
#undef LT_POINTER

/* *out = the functions of libcublasLt, loaded on the first call.  The library stays loaded.
 *
 * Errors: SR_EDEVICE  it was not found, lacks a function, or has another major version */
sr_status lt_load(const lt_functions **out);

#endif
