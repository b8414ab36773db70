/* scope.h - scopes own the storages created while they are open.
 *
 * A storage belongs to the scope that was innermost on its device when it was created.  Closing the
 * scope returns the memory of all its storages to the device's pool at once, even if there are
 * still tensors; these are expired.  Storages created while no scope is open belong to
 * device->outside, which is not closed before the device, and live as long as they are referenced.
 */
#pragma once

#include "core/base/status.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

struct sr_scope {
    sr_device *device; /* NULL when closed */
    sr_scope *parent;
    sr_storage *first; /* its storages, newest first */
};

/* Opens a scope inside the innermost one.  SR_ENOMEM. */
sr_status sr_scope_open(sr_scope **out, sr_device *device);

/* Expires all storages of the scope, after closing inner scopes.  May be called twice. */
void sr_scope_close(sr_scope *scope);

/* Frees the struct, which may be NULL.  A scope that was never closed first passes its storages to
 * its parent, so that nothing expires because of a forgotten handle. */
void sr_scope_free(sr_scope *scope);

/* Moves a live storage to another scope of its device; in device->outside it never expires. */
void sr_storage_move(sr_storage *storage, sr_scope *scope);

SR_END_C
