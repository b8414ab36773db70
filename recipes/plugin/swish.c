/* swish.c - an op of your own: y = x sigmoid(beta x), and its gradient, as a plug-in for the cpu.
 *
 * Build it against the installed headers, then run swish.lua beside it:
 *
 *     gcc -O2 -shared -fPIC -I/usr/local/include/seqrun -o swish.so swish.c -lm
 *     seqrun swish.lua plugin=./swish.so
 *
 * The plug-in links nothing of seqrun: the program that loads it has the functions it calls.
 */
#include <math.h>

#include "core/tensor/plugin.h"

/* Everything that a function relies on is checked: it may be called with any tensors. */
static sr_status check(const char *op, const sr_tensor *const *list, int count) {
    for (int i = 0; i < count; i++)
        if (list[i]->dtype != SR_F32 || !sr_tensor_is_contiguous(list[i]) ||
            sr_tensor_elements(list[i]) != sr_tensor_elements(list[0]))
            return sr_fail(SR_EINVAL, "%s: expected contiguous f32 tensors of one size", op);
    return SR_OK;
}

/* y = x sigmoid(beta x) */
static sr_status swish(sr_tensor *const *y, const sr_tensor *const *x, const double *numbers) {
    const sr_tensor *const all[] = {y[0], x[0]};
    SR_TRY(check("swish", all, 2));
    const float *in = SR_DATA(float, x[0]), beta = (float)numbers[0];
    float *out = SR_DATA(float, y[0]);
    for (int64_t i = 0; i < sr_tensor_elements(y[0]); i++)
        out[i] = in[i] / (1.0f + expf(-beta * in[i]));
    return SR_OK;
}

/* dx = dy (s + beta x s (1 - s)), s = sigmoid(beta x) */
static sr_status swish_backward(sr_tensor *const *dx, const sr_tensor *const *given,
                                const double *numbers) {
    const sr_tensor *const all[] = {dx[0], given[0], given[1]};
    SR_TRY(check("swish_backward", all, 3));
    const float *dy = SR_DATA(float, given[0]), *x = SR_DATA(float, given[1]);
    float *out = SR_DATA(float, dx[0]), beta = (float)numbers[0];
    for (int64_t i = 0; i < sr_tensor_elements(dx[0]); i++) {
        float s = 1.0f / (1.0f + expf(-beta * x[i]));
        out[i] = dy[i] * (s + beta * x[i] * s * (1.0f - s));
    }
    return SR_OK;
}

static const sr_function forward = {SR_FUNCTION_ABI, .name = "swish", .backend = "cpu",
                                    .outputs = 1,    .inputs = 1,     .numbers = 1,
                                    .run = swish};
static const sr_function backward = {
    SR_FUNCTION_ABI, .name = "swish_backward", .backend = "cpu", .outputs = 1, .inputs = 2,
    .numbers = 1,    .run = swish_backward};

sr_status sr_plugin_init(const sr_host *host, int abi) {
    (void)abi;
    SR_TRY(host->add_function(&forward));
    return host->add_function(&backward);
}
