#include "core/train/spread.h"

sr_status sr_spread(sr_comm *comm, sr_tensor *store, const sr_range *pieces, int64_t width) {
    for (int r = 0; r < comm->ranks && comm->ranks > 1; r++) {
        sr_tensor piece = *store;
        piece.offset += pieces[r].first * width;
        piece.shape[0] = (pieces[r].last - pieces[r].first) * width;
        if (piece.shape[0] > 0) SR_TRY(comm->engine->broadcast(comm, &piece, r));
    }
    return SR_OK;
}
