#include "core/base/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[1024];

sr_status sr_fail(sr_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return status;
}

const char *sr_message(void) {
    return message;
}

static const struct {
    const char *name;
    int exit_code;
} table[SR_STATUS_COUNT] = {
    [SR_OK] = {"ok", 0},
    [SR_EINVAL] = {"invalid", 2},
    [SR_ECONFIG] = {"config", 2},
    [SR_EDATA] = {"data", 3},
    [SR_ENOENT] = {"missing", 3},
    [SR_EDEVICE] = {"device", 4},
    [SR_ENOMEM] = {"memory", 4},
    [SR_EIO] = {"storage", 5},
    [SR_ELOCK] = {"lock", 5},
    [SR_ENUMERIC] = {"numeric", 1},
    [SR_EPEER] = {"peer", 8},
    [SR_ESTOP] = {"stopped", 75},
    [SR_EINTERNAL] = {"internal", 70},
};

const char *sr_status_name(sr_status status) {
    return (unsigned)status < SR_STATUS_COUNT ? table[status].name : "internal";
}

int sr_exit_code(sr_status status) {
    return (unsigned)status < SR_STATUS_COUNT ? table[status].exit_code : 70;
}
