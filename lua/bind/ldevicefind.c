#include "lua/bind/ldevicefind.h"

#include <stdio.h>
#include <string.h>

#include "core/tensor/plugin.h"
#include "lua/bind/ltensor.h"
#include "plugins.h"

/* The number of devices of a backend; if it is 0, also the reason. */
static sr_status count_devices(int *devices, const sr_backend *backend) {
    *devices = 1;
    if (backend->count == NULL) return SR_OK;
    sr_status st = backend->count(devices);
    if (st != SR_OK) *devices = 0;
    return st;
}

/* Whether this build makes the plug-in of a backend. */
static bool is_built(const char *backend) {
    char word[20];
    snprintf(word, sizeof word, " %.16s ", backend);
    return strstr(SR_PLUGINS, word) != NULL;
}

/* The devices of the program and of plug-ins, loaded or not, but `without`. */
static const char *push_names(lua_State *L, const char *without) {
    static const char *const plugins[] = {"cuda", "simt"};
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (int k = 0; k < sr_backend_count(); k++) {
        if (k > 0) luaL_addstring(&b, ", ");
        luaL_addstring(&b, sr_backend_at(k)->name);
    }
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++) {
        const char *name = plugins[i];
        if (!is_built(name) || sr_backend_index(name) >= 0 || strcmp(name, without) == 0) continue;
        luaL_addstring(&b, ", ");
        luaL_addstring(&b, name);
    }
    luaL_pushresult(&b);
    return lua_tostring(L, -1);
}

/* Why there is no library for a device that sr_backend_find() did not find. */
static sr_status explain_missing(lua_State *L, const char *name, const char *backend) {
    const char *others = push_names(L, backend);
    if (is_built(backend))
        return sr_fail(SR_EDEVICE,
                       "device '%s' is not available: seqrun_%s.so was built, but is neither "
                       "beside the program nor in ../lib/seqrun; run make (or make install) again, "
                       "or choose one of: %s",
                       name, backend, others);
    if (strcmp(backend, "cuda") == 0)
        return sr_fail(SR_EDEVICE,
                       "device '%s' is not available: this program was built without CUDA (%s); "
                       "build it again with CUDA 13, or choose one of: %s",
                       name, SR_WITHOUT_CUDA, others);
    return sr_fail(SR_EDEVICE, "device '%s' is not available; choose one of: %s", name, others);
}

sr_status lsr_device_find(lua_State *L, int *index, int *number, const char *name) {
    char backend[16];
    int devices;
    if (!sr_device_parse(backend, number, name)) return explain_missing(L, name, name);
    sr_status st = sr_backend_find(index, backend);
    if (st == SR_ENOENT) return explain_missing(L, name, backend);
    SR_TRY(st);
    SR_TRY(count_devices(&devices, sr_backend_at(*index)));
    if (*number < devices) return SR_OK;
    return sr_fail(SR_EDEVICE,
                   "device '%s' is not available: this machine has %d %s device%s, numbered from 0",
                   name, devices, backend, devices == 1 ? "" : "s");
}

bool lsr_has_device(const char *name) {
    char backend[16];
    int index, number;
    return sr_device_parse(backend, &number, name) && sr_backend_find(&index, backend) != SR_ENOENT;
}

int lsr_device_names(lua_State *L) {
    lua_newtable(L);
    for (int i = 0, n = 0; i < sr_backend_count(); i++) {
        int devices;
        const char *name = sr_backend_at(i)->name;
        (void)count_devices(&devices, sr_backend_at(i));
        for (int k = 0; k < devices; k++) {
            if (k == 0)
                lua_pushstring(L, name);
            else
                lua_pushfstring(L, "%s:%d", name, k);
            lua_rawseti(L, -2, ++n);
        }
    }
    return 1;
}

int lsr_device_describe(lua_State *L) {
    int i, number;
    sr_device_facts facts = {0};
    sr_status st = lsr_device_find(L, &i, &number, luaL_checkstring(L, 1));
    const sr_backend *backend = st == SR_OK ? sr_backend_at(i) : NULL;
    if (st == SR_OK && backend->describe != NULL) st = backend->describe(&facts, number);
    if (st != SR_OK) return lsr_failure(L, st);
    lua_createtable(L, 0, 8);
    if (backend->describe == NULL) return 1;
    lsr_set_string(L, "model", facts.model);
    lsr_set_string(L, "arch", facts.arch);
    lsr_set_string(L, "driver", facts.driver);
    lsr_set_string(L, "runtime", facts.runtime);
    lsr_set_integer(L, "memory", facts.memory);
    lsr_set_integer(L, "free", facts.free);
    lsr_set_integer(L, "reserved", facts.reserved);
    if (facts.problem[0] != '\0') lsr_set_string(L, "problem", facts.problem);
    return 1;
}
