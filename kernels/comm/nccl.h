/* nccl.h - the part of NCCL's interface that nccl.c uses, declared so that it builds without NCCL;
 * the library is loaded at run time.
 *
 * For versions 2.10 (the first with bfloat16) to 2.x: these functions and numbers have not changed
 * since.
 */
#pragma once

#include <stddef.h>

#include "core/base/extern.h"

SR_BEGIN_C

enum { NCCL_OLDEST = 21000, NCCL_NEXT_MAJOR = 30000, NCCL_ID_BYTES = 128 };
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum { NCCL_UINT8 = 1, NCCL_INT32 = 2, NCCL_FLOAT32 = 7, NCCL_FLOAT64 = 8, NCCL_BFLOAT16 = 9 };
enum { NCCL_SUM = 0 };

typedef struct nccl_id {
    char bytes[NCCL_ID_BYTES];
} nccl_id;

typedef struct nccl_comm nccl_comm;

/* The functions by name, without "nccl"; `stream` is a cudaStream_t. */
#define NCCL_FUNCTIONS(FUNCTION)                                                                   \
    FUNCTION(GetVersion, (int *version))                                                           \
    FUNCTION(GetUniqueId, (nccl_id * id))                                                          \
    FUNCTION(CommInitRank, (nccl_comm * *comm, int ranks, nccl_id id, int rank))                   \
    FUNCTION(CommDestroy, (nccl_comm * comm))                                                      \
    FUNCTION(CommAbort, (nccl_comm * comm))                                                        \
    FUNCTION(CommGetAsyncError, (nccl_comm * comm, int *error))                                    \
    FUNCTION(GroupStart, (void))                                                                   \
    FUNCTION(GroupEnd, (void))                                                                     \
    FUNCTION(Broadcast, (const void *from, void *to, size_t count, int type, int root,             \
                         nccl_comm *comm, void *stream))                                           \
    FUNCTION(AllReduce, (const void *from, void *to, size_t count, int type, int op,               \
                         nccl_comm *comm, void *stream))                                           \
    FUNCTION(Reduce, (const void *from, void *to, size_t count, int type, int op, int root,        \
                      nccl_comm *comm, void *stream))                                              \
    FUNCTION(ReduceScatter, (const void *from, void *to, size_t count, int type, int op,           \
                             nccl_comm *comm, void *stream))                                       \
    FUNCTION(AllGather,                                                                            \
             (const void *from, void *to, size_t count, int type, nccl_comm *comm, void *stream))  \
    FUNCTION(Send,                                                                                 \
             (const void *from, size_t count, int type, int to, nccl_comm *comm, void *stream))    \
    FUNCTION(Recv, (void *to, size_t count, int type, int from, nccl_comm *comm, void *stream))

typedef struct nccl_library {
    void *handle;
    int version; /* 22800: 2.28.0 */
    const char *(*GetErrorString)(int result);
#define NCCL_POINTER(name, arguments) int(*name) arguments;
    NCCL_FUNCTIONS(NCCL_POINTER)
#undef NCCL_POINTER
    /* The functions of the CUDA driver; NULL without it. */
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_query)(void *stream);
    int (*stream_wait)(void *stream, void *event, unsigned flags);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
} nccl_library;

SR_END_C
