/* queue.h - the streams of the CUDA runtime without a GPU.
 *
 * Work is done at once, unless SEQRUN_FAKE_ORDER=SEED is set: then it is done late, some of it at
 * each call, by a stream that is drawn among those that can go on, and all of a stream only when
 * the host waits for it.  A copy reads its source when it is done.  So code that misses an event,
 * or that writes host memory which a copy still needs, gets other bytes.
 */
#pragma once

#include <cuda_runtime_api.h>

typedef enum work_kind { WORK_COPY, WORK_FILL, WORK_KERNEL, WORK_RECORD, WORK_WAIT } work_kind;

typedef struct work {
    work_kind kind;
    void *to;
    const void *from;
    size_t bytes, pitch, rows; /* of a copy; of a row, between rows, and how many, to be filled */
    int value;
    cudaEvent_t event;
    long ticket; /* which recording of the event */
    struct work *next;
} work;

struct CUevent_st {
    long recorded, done; /* the last recording that was queued, that was done */
};

struct CUstream_st {
    void (*finish)(cudaStream_t); /* first, for lt.c, which knows nothing else of a stream */
    work *first, *last;
    cudaStream_t next;
};

int queue_is_late(void);
cudaStream_t queue_new(void);
void queue_free(cudaStream_t stream);
/* Does the work now, or some other work and this one later. */
void queue_put(cudaStream_t stream, work w);
/* Return when the work is done: of a stream, up to the last recording of an event, all. */
void queue_finish(cudaStream_t stream);
void queue_finish_event(cudaEvent_t event);
void queue_finish_all(void);
