/* function.h - functions on tensors that plug-ins add: the computation of an op outside the table.
 *
 * A plug-in registers a function by name for one backend, and another of the same name for each
 * further backend; Lua calls it as sr.ops.call(name, outputs, inputs, numbers) and makes an op with
 * a gradient of it by sr.ops.custom.  recipes/plugin shows one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

enum { SR_MAX_FUNCTIONS = 64, SR_FUNCTION_TENSORS = 16 };

/* Lives as long as the process. */
typedef struct sr_function {
    int abi;      /* SR_ABI, */
    size_t bytes; /* and sizeof(sr_function), when the plug-in was compiled */
    const char *name, *backend;
    int outputs, inputs, numbers; /* how many it takes; at least one output */
    /* Writes y.  Tensors are live and on one device of the backend; the function checks their
     * shapes, dtypes and strides (sr_fail(SR_EINVAL, ...)).  The rules of backend.h, "When
     * work is done", hold. */
    sr_status (*run)(sr_tensor *const *y, const sr_tensor *const *x, const double *numbers);
} sr_function;

/* The initial fields: sr_function f = {SR_FUNCTION_ABI, .name = ... }. */
#define SR_FUNCTION_ABI .abi = SR_ABI, .bytes = sizeof(sr_function)

/* SR_EDEVICE: built for another interface, a field is missing, or the name is taken. */
sr_status sr_function_add(const sr_function *function);
int sr_function_count(void);
void sr_function_truncate(int count); /* takes the last registrations back */

/* Calls a function for the backend of y[0].
 *
 * Errors: SR_EINVAL   no such function, or other numbers of tensors than it takes, or tensors of
 *                     several devices
 *         SR_EDEVICE  it exists, but not for this backend */
sr_status sr_function_call(const char *name, sr_tensor **y, int outputs, sr_tensor **x, int inputs,
                           const double *numbers, int count);

SR_END_C
