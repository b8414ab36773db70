#include "core/train/ready.h"

#include "core/base/mem.h"

sr_status sr_ready_init(sr_ready *r, const sr_params *params) {
    r->params = params;
    SR_TRY(sr_new(&r->most, params->count));
    SR_TRY(sr_new(&r->count, params->count));
    return sr_new(&r->ahead, params->count);
}

void sr_ready_free(sr_ready *r) {
    sr_free(r->most);
    sr_free(r->count);
    sr_free(r->ahead);
}

void sr_ready_begin(sr_ready *r) {
    for (int64_t i = 0; i < r->params->count; i++) {
        if (r->count[i] > r->most[i]) r->most[i] = r->count[i];
        r->count[i] = r->ahead[i] = 0;
    }
}

/* The last parameter that begins at this element or before it. */
static int64_t param_at(const sr_params *p, int64_t element) {
    int64_t bf16 = 0, high = p->count;
    while (high - bf16 > 1) {
        int64_t middle = (bf16 + high) / 2;
        if (p->list[middle].offset <= element)
            bf16 = middle;
        else
            high = middle;
    }
    return bf16;
}

sr_range sr_ready_params(const sr_ready *r, const sr_tensor *grad) {
    int64_t n = grad != NULL ? sr_tensor_elements(grad) : 0;
    if (n == 0 || grad->storage != r->params->grad->storage) return (sr_range){0, 0};
    return (sr_range){param_at(r->params, grad->offset),
                      param_at(r->params, grad->offset + n - 1) + 1};
}

void sr_ready_expect(sr_ready *r, sr_range params) {
    for (int64_t i = params.first; i < params.last; i++) r->ahead[i]++;
}

void sr_ready_add(sr_ready *r, sr_range params) {
    for (int64_t i = params.first; i < params.last; i++) {
        r->count[i]++;
        if (r->ahead[i] > 0) r->ahead[i]--;
    }
}

bool sr_ready_has(const sr_ready *r, sr_range params) {
    for (int64_t i = params.first; i < params.last; i++)
        if (r->ahead[i] > 0 || r->count[i] < r->most[i]) return false;
    return true;
}
