/* graph_cuda.h - the launches of an update as one CUDA graph: one launch instead of hundreds, which
 * pays where kernels are shorter than their launches.
 *
 * Between begin and launch the stream records instead of running.  The graph of the update before
 * is updated with the new arguments, which is cheaper than making a new one; where its shape
 * differs (another number of micro-batches, say) a new one is made.  So layouts may change.
 *
 * The first update of a device runs as it comes: it loads the kernels and chooses the algorithms of
 * products, which is better done with no capture open.
 */
#ifndef SR_CUDA_GRAPH_CUDA_H
#define SR_CUDA_GRAPH_CUDA_H

#include "kernels/cuda/gpu_cuda.h"

struct graph;

void graph_free(graph *g); /* may be NULL */

/* Memory that a recorded graph may use is freed once it was launched: false if none is recorded. */
bool graph_defer_free(cuda_host *h, void *data);

#endif
