/* scope.h - who gives the bytes back.
 *
 * A storage belongs to the scope that was innermost on its device when it was made.  Closing the
 * scope returns the bytes of all its storages to the device's pool at once, whoever still holds a
 * tensor; such tensors are expired.  Storages made while no scope is open belong to
 * device->outside, which is never closed before the device, and live by their references alone.
 */
#ifndef SR_TENSOR_SCOPE_H
#define SR_TENSOR_SCOPE_H

#include "core/base/status.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sr_scope {
    sr_device *device; /* NULL once closed */
    sr_scope *parent;
    sr_storage *first; /* the storages it owns, newest first */
};

/* Opens a scope inside the innermost one.  SR_ENOMEM. */
sr_status sr_scope_open(sr_scope **out, sr_device *device);

/* Expires all that the scope owns, after closing the scopes opened inside it.  Twice is allowed. */
void sr_scope_close(sr_scope *scope);

/* Frees the struct.  A scope that was never closed hands its storages to its parent first, so that
 * nothing expires because of a forgotten handle.  NULL is allowed. */
void sr_scope_free(sr_scope *scope);

/* Moves a live storage to another scope of its device; device->outside keeps it from expiring. */
void sr_storage_move(sr_storage *storage, sr_scope *scope);

#ifdef __cplusplus
}
#endif
#endif
