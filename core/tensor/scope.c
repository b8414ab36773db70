#include "core/tensor/scope.h"

#include "core/base/mem.h"
#include "core/tensor/storage.h"

sr_status sr_scope_open(sr_scope **out, sr_device *device) {
    SR_TRY(sr_new(out, 1));
    (*out)->device = device;
    (*out)->parent = device->scope;
    device->scope = *out;
    return SR_OK;
}

void sr_scope_close(sr_scope *scope) {
    sr_device *device = scope->device;
    if (device == NULL) return;
    while (device->scope != scope) sr_scope_close(device->scope);
    while (scope->first != NULL) sr_storage_expire(scope->first);
    device->scope = scope->parent;
    scope->device = NULL;
}

/* Removes the scope from the chain of open ones; moves its storages to its parent. */
static void dissolve(sr_scope *scope) {
    sr_scope **link = &scope->device->scope;
    while (*link != scope) link = &(*link)->parent;
    *link = scope->parent;
    while (scope->first != NULL) sr_storage_move(scope->first, scope->parent);
    scope->device = NULL;
}

void sr_scope_free(sr_scope *scope) {
    if (scope == NULL) return;
    if (scope->device != NULL) dissolve(scope);
    sr_free(scope);
}
