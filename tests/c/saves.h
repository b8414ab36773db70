/* saves.h - a small checkpoint whose bytes are a function of its step: helpers to save, find and
 * compare it. */
#pragma once

#include <sys/stat.h>

#include "core/store/checkpoint.h"
#include "core/store/saving.h"
#include "tests/support/scratch.h"

OWNER(sr_run_dir, sr_run_dir_close)
OWNER(sr_saving, sr_saving_end)

/* ---- a small checkpoint ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t size;
} files[] = {
    {"config.json", 120},       {"model.safetensors", 2600},
    {"vocab.txt", 300},         {"trainer/optim.safetensors", 1900},
    {"trainer/state.json", 77},
};
enum { FILES = sizeof files / sizeof *files };

static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Fills a file with bytes that depend on the step and the number of the file. */
static inline void contents(char *bytes, int64_t step, int file) {
    uint64_t random = (uint64_t)step * 1000 + (uint64_t)file + 7;
    for (size_t i = 0; i < files[file].size; i++) bytes[i] = (char)next_random(&random);
}

static inline sr_status fill(sr_saving *saving, int64_t step) {
    char bytes[4096];
    for (int i = 0; i < FILES; i++) {
        contents(bytes, step, i);
        size_t half = files[i].size / 2;
        SR_TRY(sr_saving_open(saving, files[i].name, files[i].size));
        SR_TRY(sr_saving_write(saving, bytes, half));
        SR_TRY(sr_saving_write(saving, bytes + half, files[i].size - half));
        SR_TRY(sr_saving_close(saving));
    }
    return sr_saving_commit(saving);
}

static inline sr_status save(const char *run, int64_t step) {
    TRY_OWN(sr_saving, *saving, sr_saving_begin(&saving, run, step, 6000));
    return fill(saving, step);
}

/* True if a checkpoint is valid and has the saved content. */
static inline bool holds(const char *path, int64_t step) {
    int64_t found = -1;
    if (sr_checkpoint_verify(&found, path) != SR_OK || found != step) return false;
    for (int i = 0; i < FILES; i++) {
        char wanted[4096], name[600];
        void *bytes;
        size_t size;
        contents(wanted, step, i);
        snprintf(name, sizeof name, "%s/%s", path, files[i].name);
        if (sr_file_read(&bytes, &size, name, 1 << 20) != SR_OK) return false;
        bool same = size == files[i].size && memcmp(bytes, wanted, size) == 0;
        sr_free(bytes);
        if (!same) return false;
    }
    return true;
}

/* The invariant after a power cut: the newest valid checkpoint is of the promised step or later,
 * and every step directory is intact. */
static inline bool survives(const char *run, int64_t promised) {
    char *path = NULL;
    int64_t step = 0, *steps;
    size_t count;
    sr_status st = sr_checkpoint_latest(&path, &step, run);
    bool good = st == SR_OK ? step >= promised && holds(path, step) : st == SR_ENOENT && !promised;
    sr_free(path);
    if (!good || st != SR_OK) return good;
    if (sr_checkpoint_list(&steps, &count, run) != SR_OK) return false;
    for (size_t i = 0; i < count; i++)
        good = good && holds(at("crash/runs/a/step-%09d", (int)steps[i]), steps[i]);
    sr_free(steps);
    return good;
}

/* The next run cleans up, loses nothing, and can save. */
static inline bool recovers(const char *run, int64_t promised) {
    sr_run_dir *dir;
    if (sr_run_dir_open(&dir, run) != SR_OK) return false;
    bool good = survives(run, promised);
    char **names = NULL;
    size_t count = 0;
    good = good && sr_file_list(&names, &count, run) == SR_OK;
    for (size_t i = 0; good && i < count; i++) good = names[i][0] != '.';
    sr_file_list_free(names, count);
    good = good && save(run, 50) == SR_OK && survives(run, 50);
    sr_run_dir_close(dir);
    return good;
}

static inline void empty(const char *name) {
    sr_file_remove_tree(at("%s", name));
    mkdir(at("%s", name), 0700);
}
