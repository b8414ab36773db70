#include "kernels/cuda/lt_cuda.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define LT_LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

static void *open_in(const char *folder, const char *below) {
    char path[PATH_MAX];
    if (folder == nullptr) return nullptr;
    int n = snprintf(path, sizeof path, "%s%s" LT_LIBRARY, folder, below);
    return n < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
}

/* Where the linker looks, then where CUDA is usually installed. */
static void *open_library() {
    void *library = dlopen(LT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = open_in(getenv("CUDA_HOME"), "/lib64/");
    if (library == nullptr) library = open_in("/usr/local/cuda", "/lib64/");
    if (library == nullptr) library = open_in("/usr/local/cuda-" TEXT(CUBLAS_VER_MAJOR), "/lib64/");
    return library;
}

static sr_status find_functions(lt_functions *lt, void *library) {
#define LT_FIND(name)                                                                              \
    *(void **)&lt->name = dlsym(library, "cublasLt" #name);                                        \
    if (lt->name == nullptr)                                                                       \
        return sr_fail(SR_EDEVICE,                                                                 \
                       "cuda: " LT_LIBRARY " has no cublasLt" #name                                \
                       "; install cuBLAS %d.%d or later",                                          \
                       CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR);
    LT_FUNCTIONS(LT_FIND)
#undef LT_FIND
    int major = (int)(lt->GetVersion() / 10000);
    if (major != CUBLAS_VER_MAJOR)
        return sr_fail(SR_EDEVICE, "cuda: " LT_LIBRARY " is version %d; install cuBLAS %d", major,
                       CUBLAS_VER_MAJOR);
    return SR_OK;
}

sr_status lt_load(const lt_functions **out) {
    static lt_functions lt;
    static bool loaded;
    *out = &lt;
    if (loaded) return SR_OK;
    void *library = open_library();
    if (library == nullptr)
        return sr_fail(SR_EDEVICE,
                       "cuda: " LT_LIBRARY " was not found (%s); install cuBLAS %d, or "
                       "add its folder to LD_LIBRARY_PATH",
                       dlerror(), CUBLAS_VER_MAJOR);
    sr_status st = find_functions(&lt, library);
    if (st != SR_OK) {
        dlclose(library);
        return st;
    }
    loaded = true;
    return SR_OK;
}
