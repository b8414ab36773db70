#include "core/base/system.h"

#include <cpuid.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/io.h"
#include "core/base/mem.h"

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double sr_time_monotonic(void) {
    return seconds(CLOCK_MONOTONIC);
}

double sr_time_wall(void) {
    return seconds(CLOCK_REALTIME);
}

/* The brand string: 48 bytes in three leaves, padded with blanks. */
static void brand(char out[64]) {
    unsigned words[12], most = __get_cpuid_max(0x80000000, NULL);
    snprintf(out, 64, "unknown");
    if (most < 0x80000004) return;
    for (unsigned i = 0; i < 3; i++) {
        unsigned *w = words + 4 * i;
        __get_cpuid(0x80000002 + i, &w[0], &w[1], &w[2], &w[3]);
    }
    char text[49];
    memcpy(text, words, 48);
    text[48] = '\0';
    const char *begin = text + strspn(text, " ");
    size_t length = strlen(begin);
    while (length > 0 && begin[length - 1] == ' ') length--;
    if (length > 0) snprintf(out, 64, "%.*s", (int)length, begin);
}

/* AMX must be permitted by the kernel too; this only queries the states it supports. */
static bool amx_offered(void) {
    enum { ARCH_GET_XCOMP_SUPP = 0x1021, XTILEDATA = 18 };
    uint64_t states = 0;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    bool tile = d >> 24 & 1, bf16 = d >> 22 & 1;
    return tile && bf16 && syscall(SYS_arch_prctl, ARCH_GET_XCOMP_SUPP, &states) == 0 &&
           (states >> XTILEDATA & 1);
}

void sr_cpu_facts(sr_cpu *out) {
    brand(out->model);
    __builtin_cpu_init();
    out->avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    out->avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    out->avx512_bf16 = __builtin_cpu_supports("avx512bf16") != 0;
    out->amx_bf16 = amx_offered();
}

/* The number after `key` in a small text file, -1 when it has none. */
static int64_t number_after(const char *path, const char *key) {
    void *text;
    size_t size;
    if (sr_file_read(&text, &size, path, 1 << 20) != SR_OK) return -1;
    const char *at = strstr(text, key);
    char *end = NULL;
    int64_t value = at != NULL ? strtoll(at + strlen(key), &end, 10) : -1;
    if (at != NULL && end == at + strlen(key)) value = -1;
    sr_free(text);
    return value;
}

void sr_memory_facts(sr_memory *out) {
    struct rusage usage;
    int64_t kib = number_after("/proc/self/status", "VmRSS:");
    out->resident = kib > 0 ? kib * 1024 : 0;
    out->peak = getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
    if (out->peak < out->resident) out->peak = out->resident;
}

int64_t sr_memory_total(void) {
    int64_t kib = number_after("/proc/meminfo", "MemTotal:");
    int64_t total = kib > 0 ? kib * 1024 : 0;
    const char *limits[] = {"/sys/fs/cgroup/memory.max",
                            "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (int i = 0; i < 2; i++) {
        int64_t limit = number_after(limits[i], "");
        if (limit > 0 && (total == 0 || limit < total)) total = limit;
    }
    return total;
}

int64_t sr_memory_available(void) {
    int64_t kib = number_after("/proc/meminfo", "MemAvailable:"), total = sr_memory_total();
    sr_memory own;
    sr_memory_facts(&own);
    if (kib <= 0 || total == 0) return 0;
    int64_t left = total > own.resident ? total - own.resident : 1;
    return kib * 1024 < left ? kib * 1024 : left;
}

sr_status sr_disk_free(int64_t *out, const char *path) {
    struct statvfs fs;
    *out = 0;
    if (statvfs(path, &fs) != 0)
        return sr_fail(errno == ENOENT ? SR_ENOENT : SR_EIO, "%s: cannot get the free space: %s",
                       path, strerror(errno));
    *out = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    return SR_OK;
}

static void to_hex(char hex[33], XXH128_hash_t h) {
    snprintf(hex, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
}

void sr_hash_bytes(char hex[33], const void *bytes, uint64_t size) {
    to_hex(hex, XXH3_128bits(bytes, size));
}

uint64_t sr_hash_key(const void *bytes, uint64_t size, uint64_t seed) {
    return XXH3_64bits_withSeed(bytes, size, seed);
}

static sr_status hash_fd(XXH3_state_t *state, int fd, uint64_t size, const char *path) {
    char block[65536];
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < sizeof block ? (size_t)(size - at) : sizeof block;
        SR_TRY(sr_file_pread(fd, block, n, at, path));
        XXH3_128bits_update(state, block, n);
        at += n;
    }
    return SR_OK;
}

sr_status sr_hash_file(char hex[33], const char *path) {
    int fd;
    size_t size;
    XXH3_state_t *state;
    hex[0] = '\0';
    SR_TRY(sr_alloc_aligned((void **)&state, sizeof *state));
    XXH3_128bits_reset(state);
    sr_status st = sr_file_open(&fd, &size, path, SIZE_MAX);
    if (st == SR_OK) {
        st = hash_fd(state, fd, size, path);
        sr_io_now.close(fd);
    }
    if (st == SR_OK) to_hex(hex, XXH3_128bits_digest(state));
    sr_free_aligned(state);
    return st;
}
