#include "core/tensor/storage.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/tensor/pool.h"
#include "core/tensor/scope.h"

sr_status sr_spare_take(void **out, void **list, size_t bytes) {
    void *block = *list;
    if (block == NULL) return sr_alloc(out, 1, bytes);
    memcpy(list, block, sizeof *list);
    memset(block, 0, bytes);
    *out = block;
    return SR_OK;
}

void sr_spare_give(void **list, void *block) {
    memcpy(block, list, sizeof *list);
    *list = block;
}

void sr_spare_free_all(void **list) {
    while (*list != NULL) {
        void *block = *list;
        memcpy(list, block, sizeof *list);
        sr_free(block);
    }
}

static void link_into(sr_scope *scope, sr_storage *storage) {
    storage->scope = scope;
    storage->scope_prev = NULL;
    storage->scope_next = scope->first;
    if (scope->first != NULL) scope->first->scope_prev = storage;
    scope->first = storage;
}

static void unlink_from_scope(sr_storage *storage) {
    if (storage->scope_prev != NULL)
        storage->scope_prev->scope_next = storage->scope_next;
    else
        storage->scope->first = storage->scope_next;
    if (storage->scope_next != NULL) storage->scope_next->scope_prev = storage->scope_prev;
    storage->scope = NULL;
    storage->scope_next = storage->scope_prev = NULL;
}

void sr_storage_move(sr_storage *storage, sr_scope *scope) {
    if (storage->scope == NULL || storage->scope == scope) return;
    unlink_from_scope(storage);
    link_into(scope, storage);
}

sr_status sr_storage_new(sr_storage **out, sr_scope *scope, size_t bytes) {
    *out = NULL;
    sr_device *device = scope->device;
    sr_storage *s = NULL;
    SR_TRY(sr_spare_take((void **)&s, &device->spares->storages, sizeof *s));
    sr_status st = sr_device_take(device, &s->data, bytes);
    if (st != SR_OK) {
        sr_spare_give(&device->spares->storages, s);
        return st;
    }
    s->device = sr_device_retain(device);
    s->bytes = bytes;
    s->refs = 1;
    link_into(scope, s);
    *(scope == device->outside ? &device->bytes_made : &device->bytes_scoped) += bytes;
    *out = s;
    return SR_OK;
}

sr_storage *sr_storage_retain(sr_storage *storage) {
    storage->refs++;
    return storage;
}

void sr_storage_expire(sr_storage *storage) {
    if (storage->data == NULL) return;
    unlink_from_scope(storage);
    sr_device_give(storage->device, storage->data, storage->bytes);
    storage->data = NULL;
}

void sr_storage_release(sr_storage *storage) {
    if (storage == NULL || --storage->refs > 0) return;
    sr_storage_expire(storage);
    sr_device *device = storage->device;
    sr_spare_give(&device->spares->storages, storage);
    sr_device_release(device);
}
