#include "core/tensor/plugin.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"

typedef sr_status (*init_function)(const sr_host *host, int abi);

static const sr_backend *backends[SR_MAX_BACKENDS] = {&sr_backend_ref, &sr_backend_cpu};
static int count = 2;
static void *libraries[SR_MAX_BACKENDS]; /* handles of loaded plug-ins */
static int loaded;

int sr_backend_count(void) {
    return count;
}

const sr_backend *sr_backend_at(int index) {
    return backends[index];
}

int sr_backend_index(const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(backends[i]->name, name) == 0) return i;
    return -1;
}

/* ---- what a plug-in may call ----------------------------------------------------------------- */

static sr_status add_backend(const sr_backend *b) {
    if (b->abi != SR_ABI || b->bytes != sizeof *b)
        return sr_fail(SR_EDEVICE,
                       "it was built for interface %d (%zu bytes), this program has %d (%zu "
                       "bytes); rebuild it against the headers of this program",
                       b->abi, b->bytes, SR_ABI, sizeof *b);
    if (b->name == NULL || b->alloc == NULL || b->free == NULL || b->upload == NULL ||
        b->download == NULL || b->fill == NULL || b->copy == NULL)
        return sr_fail(SR_EDEVICE,
                       "its table has no name, alloc, free, upload, download, fill or copy");
    char backend[16];
    int number;
    if (!sr_device_parse(backend, &number, b->name) || strcmp(backend, b->name) != 0)
        return sr_fail(SR_EDEVICE, "'%s' is not a device name: 1 to 11 characters without ':'",
                       b->name);
    if ((b->weight_build == NULL) != (b->weight_free == NULL))
        return sr_fail(
            SR_EDEVICE,
            "its table has only one of weight_build and weight_free; set both or neither");
    if ((b->count == NULL) != (b->describe == NULL))
        return sr_fail(SR_EDEVICE,
                       "its table has only one of count and describe; set both or neither");
    if (sr_backend_index(b->name) >= 0)
        return sr_fail(SR_EDEVICE, "duplicate device '%s'", b->name);
    if (count == SR_MAX_BACKENDS)
        return sr_fail(SR_EDEVICE, "too many backends; the maximum is %d", count);
    backends[count++] = b;
    return SR_OK;
}

static const sr_backend *find_backend(const char *name) {
    int i = sr_backend_index(name);
    return i >= 0 ? backends[i] : NULL;
}

static const sr_host host = {
    .abi = SR_ABI,
    .add_backend = add_backend,
    .find_backend = find_backend,
    .add_comm = sr_comm_add,
    .add_function = sr_function_add,
};

/* ---- loading --------------------------------------------------------------------------------- */

/* Calls the library's init; takes its registrations back when it fails. */
static sr_status initialise(void *library, const char *path) {
    init_function init = NULL;
    *(void **)&init = dlsym(library, "sr_plugin_init");
    if (init == NULL)
        return sr_fail(SR_EDEVICE, "plugin: %s exports no sr_plugin_init; is it a seqrun plug-in?",
                       path);
    int before = count, comms = sr_comm_count(), functions = sr_function_count();
    sr_fail(SR_OK, "it reported no reason");
    sr_status st = init(&host, SR_ABI);
    if (st == SR_OK) return SR_OK;
    count = before;
    sr_comm_truncate(comms);
    sr_function_truncate(functions);
    char reason[768];
    snprintf(reason, sizeof reason, "%s", sr_message());
    return sr_fail(st, "plugin: %s cannot be used: %s", path, reason);
}

static bool is_loaded(const void *library) {
    for (int i = 0; i < loaded; i++)
        if (libraries[i] == library) return true;
    return false;
}

static sr_status load_file(const char *path) {
    if (access(path, F_OK) != 0) return sr_fail(SR_ENOENT, "plugin: %s: no such file", path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return sr_fail(SR_EDEVICE, "plugin: cannot load %s", dlerror());
    if (is_loaded(library)) {
        dlclose(library); /* only the count of this call */
        return SR_OK;
    }
    sr_status st =
        loaded < SR_MAX_BACKENDS
            ? initialise(library, path)
            : sr_fail(SR_EDEVICE, "plugin: too many plug-ins; the maximum is %d", loaded);
    if (st != SR_OK) {
        dlclose(library);
        return st;
    }
    libraries[loaded++] = library;
    return SR_OK;
}

sr_status sr_plugin_load(const char *path) {
    if (strchr(path, '/') != NULL) return load_file(path); /* else dlopen searches elsewhere */
    size_t size = strlen(path) + 3;
    char *here = NULL;
    SR_TRY(sr_alloc((void **)&here, size, 1));
    snprintf(here, size, "./%s", path);
    sr_status st = load_file(here);
    sr_free(here);
    return st;
}

/* ---- plug-ins of the program ----------------------------------------------------------------- */

/* The path of seqrun_NAME.so in `folder`, relative to the directory of the program. */
static sr_status path_in(char path[PATH_MAX], const char *folder, const char *name) {
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n < 0 ? 0 : n] = '\0';
    int length = snprintf(path, PATH_MAX, "%s/%sseqrun_%s.so", dirname(program), folder, name);
    return length < PATH_MAX ? SR_OK
                             : sr_fail(SR_EDEVICE, "plugin: the path of the program is too long");
}

sr_status sr_plugin_find(const char *name) {
    static const char *const folders[] = {"", "../lib/seqrun/"};
    char path[PATH_MAX];
    sr_status st = SR_ENOENT;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && st == SR_ENOENT; i++) {
        SR_TRY(path_in(path, folders[i], name));
        st = sr_plugin_load(path);
    }
    return st;
}

sr_status sr_backend_find(int *index, const char *name) {
    char backend[16];
    int number;
    *index = sr_backend_index(name);
    if (*index >= 0) return SR_OK;
    bool plain = sr_device_parse(backend, &number, name) && strpbrk(name, ":/.") == NULL;
    sr_status st = plain ? sr_plugin_find(name) : SR_ENOENT;
    if (st == SR_ENOENT) return sr_fail(st, "no device '%s'", name);
    SR_TRY(st);
    *index = sr_backend_index(name);
    return *index >= 0
               ? SR_OK
               : sr_fail(SR_EDEVICE, "plugin: seqrun_%s.so adds no device '%s'", name, name);
}
