/* table.cu - the backend `cuda`, or `simt` where the same sources run on a CPU, as a plug-in. */
#include "core/tensor/plugin.h"
#include "kernels/cuda/gpu.h"

#ifdef SR_SIMT
#define NAME "simt"
#else
#define NAME "cuda"
#endif

static sr_backend backend;

static void fill_table(void) {
    backend.abi = SR_ABI;
    backend.bytes = sizeof backend;
    backend.name = NAME;
    backend.real = SR_F32;
    backend.logit_multiple = 8;
    backend.adds = true;
    backend.open = gpu_open;
    backend.close = gpu_close;
    backend.alloc = gpu_alloc;
    backend.free = gpu_free;
    backend.upload = gpu_upload;
    backend.download = gpu_download;
    backend.wait = gpu_wait;
    backend.queue = gpu_queue;
#define SET(name) backend.name = gpu_##name;
    GPU_OTHERS(SET)
#define SR_SLOT(name, ...) SET(name)
#include "core/tensor/slots.h"
}

sr_status sr_plugin_init(const sr_host *host, int) {
    fill_table();
    return host->add_backend(&backend);
}
