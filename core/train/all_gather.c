#include "core/train/all_gather.h"

static sr_status broadcast(sr_comm *comm, sr_tensor *store, int64_t first, int64_t n, int root) {
    sr_tensor *part; /* an engine may hold it until wait() */
    SR_TRY(sr_tensor_view(&part, store, 1, &n, (int64_t[]){1}, store->offset + first));
    sr_status st = sr_comm_broadcast(comm, part, root);
    sr_tensor_release(part);
    return st;
}

sr_status sr_all_gather(sr_comm *comm, sr_tensor *store, const sr_range *parts, int64_t width) {
    for (int r = 0; r < comm->ranks && comm->ranks > 1; r++) {
        int64_t n = (parts[r].last - parts[r].first) * width;
        if (n > 0) SR_TRY(broadcast(comm, store, parts[r].first * width, n, r));
    }
    return SR_OK;
}
