/* ldevicefind.h - devices by name: a list of them, and why one is not available. */
#pragma once

#include <lua.h>

#include "core/base/status.h"

/* Backend and number of a device, open or not.  SR_EDEVICE says why it is not available. */
sr_status lsr_device_find(lua_State *L, int *index, int *number, const char *name);

/* devices() -> the devices of all loaded backends */
int lsr_device_names(lua_State *L);

/* describe(name) -> { model, arch, driver, runtime, memory, free, reserved, problem }
 * | nil, message, code; an empty table where the backend reports nothing */
int lsr_device_describe(lua_State *L);
