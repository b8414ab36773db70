#include "core/tensor/function.h"

#include <string.h>

#include "core/tensor/backend.h"

static const sr_function *functions[SR_MAX_FUNCTIONS];
static int count;

/* The function of a name, for a backend or, with NULL, for any. */
static const sr_function *find(const char *name, const char *backend) {
    for (int i = 0; i < count; i++)
        if (strcmp(functions[i]->name, name) == 0 &&
            (backend == NULL || strcmp(functions[i]->backend, backend) == 0))
            return functions[i];
    return NULL;
}

sr_status sr_function_add(const sr_function *f) {
    if (f->abi != SR_ABI || f->bytes != sizeof *f)
        return sr_fail(SR_EDEVICE,
                       "its function was built for interface %d, this program has %d; rebuild it "
                       "against the headers of this program",
                       f->abi, SR_ABI);
    if (f->name == NULL || f->backend == NULL || f->run == NULL || f->outputs < 1 ||
        f->inputs < 0 || f->numbers < 0 || f->outputs > SR_FUNCTION_TENSORS ||
        f->inputs > SR_FUNCTION_TENSORS)
        return sr_fail(SR_EDEVICE,
                       "its function has no name, backend, run or output, or more than "
                       "%d tensors",
                       SR_FUNCTION_TENSORS);
    if (find(f->name, f->backend) != NULL)
        return sr_fail(SR_EDEVICE, "duplicate function '%s' for %s", f->name, f->backend);
    if (count == SR_MAX_FUNCTIONS)
        return sr_fail(SR_EDEVICE, "too many functions; the maximum is %d", count);
    functions[count++] = f;
    return SR_OK;
}

int sr_function_count(void) {
    return count;
}

void sr_function_truncate(int to) {
    count = to;
}

static sr_status check_counts(const sr_function *f, int outputs, int inputs, int numbers) {
    if (f->outputs == outputs && f->inputs == inputs && f->numbers == numbers) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "%s: takes %d outputs, %d inputs and %d numbers, but was given %d, %d and %d",
                   f->name, f->outputs, f->inputs, f->numbers, outputs, inputs, numbers);
}

static sr_status check_tensors(const char *name, const sr_device *device, sr_tensor **list, int n) {
    for (int i = 0; i < n; i++) {
        SR_TRY(sr_tensor_check(name, list[i]));
        if (list[i]->storage->device != device)
            return sr_fail(SR_EINVAL,
                           "%s: tensors on %s and %s; move them to one device with to() first",
                           name, device->name, list[i]->storage->device->name);
    }
    return SR_OK;
}

sr_status sr_function_call(const char *name, sr_tensor **y, int outputs, sr_tensor **x, int inputs,
                           const double *numbers, int numbers_count) {
    const sr_function *any = find(name, NULL);
    if (any == NULL)
        return sr_fail(SR_EINVAL,
                       "call: no plug-in has added a function '%s'; load it with "
                       "sr.plugin()",
                       name);
    SR_TRY(check_counts(any, outputs, inputs, numbers_count));
    SR_TRY(sr_tensor_check(name, y[0]));
    sr_device *device = y[0]->storage->device;
    const sr_function *f = find(name, device->backend->name);
    if (f == NULL) return sr_backend_lacks(device, name);
    SR_TRY(check_counts(f, outputs, inputs, numbers_count));
    SR_TRY(check_tensors(name, device, y, outputs));
    SR_TRY(check_tensors(name, device, x, inputs));
    for (int i = 0; i < outputs; i++) sr_tensor_wrote(y[i]);
    return f->run(y, (const sr_tensor *const *)x, numbers);
}
