/* background.h - checkpoints that a thread writes while training continues.
 *
 * The files are copied into memory first, so that what is written is the state at that moment; the
 * caller waits for the copy only.  The thread then saves as saving.h says, with the same
 * guarantees, and removes old checkpoints.  One checkpoint is written at a time: a new one is begun
 * when the caller has waited for the one before.
 *
 * The memory of the copy is kept for the next checkpoint, unless there would be no room for another
 * one like it: the first touch of fresh memory takes longer than the copy.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/store/safetensors.h"

SR_BEGIN_C

typedef struct sr_background sr_background;

/* For the checkpoints of the directory `run`; *out is freed by sr_background_free(). */
sr_status sr_background_new(sr_background **out, const char *run);

/* Begins the checkpoint of `step`: takes memory for files of `bytes` bytes in total.
 *
 * Errors: SR_EINVAL    a negative step
 *         SR_ENOMEM    the copy does not fit in the memory that is available
 *         SR_EINTERNAL another is being written
 */
sr_status sr_background_begin(sr_background *b, int64_t step, uint64_t bytes);

/* Copies a file of this checkpoint.  SR_EINTERNAL if there is more than was announced. */
sr_status sr_background_file(sr_background *b, const char *name, const void *bytes, size_t size);
sr_status sr_background_safetensors(sr_background *b, const char *name, const sr_st_plan *plan);

/* Starts the thread, which keeps old checkpoints as sr_checkpoint_retain() does. */
sr_status sr_background_start(sr_background *b, int keep, int64_t every);

/* Whether the thread has ended, or was never started. */
bool sr_background_done(const sr_background *b);

/* Waits for the thread.  SR_OK: the checkpoint survives a power cut; *warning is then NULL, or says
 * why an old one could not be removed (valid until the next begins). */
sr_status sr_background_wait(sr_background *b, const char **warning);

/* Waits for the thread, and frees all; NULL is allowed. */
void sr_background_free(sr_background *b);

SR_END_C
