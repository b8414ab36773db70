#include "core/tensor/blank.h"

#include "core/tensor/backend.h"

void sr_blanks_begin(sr_blanks *blanks) {
    for (int64_t i = 0; i < blanks->count; i++) blanks->range[i].blank = true;
    blanks->left = blanks->count;
}

/* The first range that ends after an element. */
static int64_t find(const sr_blanks *b, int64_t element) {
    int64_t low = 0, high = b->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (b->range[middle].last > element)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool sr_blanks_take(const sr_tensor *t) {
    sr_blanks *b = t->storage->blanks;
    if (b == NULL || b->left == 0 || !sr_tensor_is_contiguous(t)) return false;
    int64_t i = find(b, t->offset);
    if (i == b->count || !b->range[i].blank || b->range[i].first != t->offset ||
        b->range[i].last != t->offset + sr_tensor_elements(t))
        return false;
    b->range[i].blank = false;
    b->left--;
    return true;
}

static sr_status fill(const sr_tensor *t, const sr_blank *range) {
    sr_tensor part = *t;
    part.ndim = 1;
    part.offset = range->first;
    part.shape[0] = range->last - range->first;
    part.stride[0] = 1;
    return t->storage->device->backend->fill(&part, 0.0);
}

sr_status sr_blanks_settle(const sr_tensor *t) {
    sr_blanks *b = t->storage->blanks;
    int64_t end = t->offset + 1;
    if (b->left == 0 || sr_tensor_elements(t) == 0) return SR_OK;
    for (int d = 0; d < t->ndim; d++) end += (t->shape[d] - 1) * t->stride[d];
    for (int64_t i = find(b, t->offset); i < b->count && b->range[i].first < end; i++) {
        if (!b->range[i].blank) continue;
        SR_TRY(fill(t, &b->range[i]));
        b->range[i].blank = false;
        b->left--;
    }
    return SR_OK;
}
