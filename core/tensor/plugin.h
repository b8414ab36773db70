/* plugin.h - what a library loaded at run time may add: devices, functions on tensors, and
 * communication engines.
 *
 * A plug-in is a shared library that exports one function, sr_plugin_init(), and registers what it
 * adds through the host table it is given:
 *
 *     sr_status sr_plugin_init(const sr_host *host, int abi) {
 *         (void)abi;
 *         return host->add_backend(&my_backend);
 *     }
 *
 * It is built against the installed headers, links nothing of seqrun (core functions come from the
 * program that loads it) and stays loaded until the program ends.
 *
 * The registry belongs to the process, as loaded libraries do.  For the main thread only.
 */
#pragma once

#include "core/base/status.h"
#include "core/tensor/backend.h"
#include "core/tensor/comm.h"
#include "core/tensor/function.h"

SR_BEGIN_C

enum { SR_MAX_BACKENDS = 8 };

/* What a plug-in may call while it is initialised.  `abi` stays first in every version. */
typedef struct sr_host {
    int abi; /* SR_ABI of the program */
    /* Registers a backend whose table lives as long as the process.  Its device can be opened once
     * the plug-in's init has returned SR_OK.
     *
     * Errors: SR_EDEVICE  built for another interface, one of alloc, free, upload, download, fill
     *                     and copy is missing, or the name is taken */
    sr_status (*add_backend)(const sr_backend *backend);
    /* A registered backend, for those that build on another; NULL when there is none. */
    const sr_backend *(*find_backend)(const char *name);
    /* Registers a communication engine, likewise (comm.h).
     *
     * Errors: SR_EDEVICE  built for another interface, a function is missing, or the name is taken
     */
    sr_status (*add_comm)(const sr_comm_engine *engine);
    /* Registers a function on tensors, likewise (function.h). */
    sr_status (*add_function)(const sr_function *function);
} sr_host;

/* The function that a plug-in exports; `abi` is host->abi.  A failure (sr_fail() gives the reason)
 * undoes all registrations of this call. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
sr_status
sr_plugin_init(const sr_host *host, int abi);

/* Loads a library and lets it register; a path without '/' is a file of the working directory.
 * Loading a library again does nothing.  When it fails, nothing is registered.
 *
 * Errors: SR_ENOENT   no such file
 *         SR_EDEVICE  not a library, no sr_plugin_init, another ABI, a name that is taken, or what
 *                     the plug-in reports
 */
sr_status sr_plugin_load(const char *path);

/* Registered backends in order: ref, cpu, then plug-ins as they were loaded. */
int sr_backend_count(void);
const sr_backend *sr_backend_at(int index);
int sr_backend_index(const char *name); /* -1: none of this name */

/* Loads seqrun_NAME.so, which is beside the program or in ../lib/seqrun.
 *
 * Errors: SR_ENOENT   there is no such library
 *         others      as sr_plugin_load()
 */
sr_status sr_plugin_find(const char *name);

/* The index of a backend.  One that is not registered is loaded from seqrun_NAME.so beside the
 * program or in ../lib/seqrun.
 *
 * Errors: SR_ENOENT   there is no such library
 *         others      as sr_plugin_load()
 */
sr_status sr_backend_find(int *index, const char *name);

SR_END_C
