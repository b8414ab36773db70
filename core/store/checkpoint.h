/* checkpoint.h - the directory of a run: its lock, its checkpoints, and which of them is the
 * newest.
 *
 * A run's directory has step-000012345 subdirectories, each a checkpoint (saving.h), and `lock`.
 * No file points at the newest one: the subdirectories are tried from newest to oldest, and each is
 * verified before it counts.  An invalid one is skipped with a warning.
 *
 * Names that begin with .tmp- and .trash- are drafts and deletions left by a killed run; they are
 * removed when the next run takes the lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

#define SR_DRAFT_PREFIX ".tmp-"
#define SR_TRASH_PREFIX ".trash-"
#define SR_MAX_STEP INT64_C(999999999999)

/* A run's directory, locked. */
typedef struct sr_run_dir {
    char *path;
    int lock;
} sr_run_dir;

/* Creates the directory if it is missing (durably), takes its lock, checks that it is writable, and
 * removes what killed runs left.  The kernel drops the lock when the process ends, however it ends.
 *
 * Errors: SR_ELOCK  another run holds the lock: the message names its process, host and start
 *         SR_EIO    the directory cannot be created or written
 */
sr_status sr_run_dir_open(sr_run_dir **out, const char *path);
void sr_run_dir_close(sr_run_dir *dir); /* may be NULL */

/* Checks that the lock file is still the one that is held; takes it anew if it was only removed.
 *
 * Errors: SR_ELOCK  another run has taken the directory since
 *         SR_EIO
 */
sr_status sr_run_dir_check(sr_run_dir *dir);

/* Whether a live process holds the lock of the run at `path`; false where there is no lock file. */
sr_status sr_run_dir_held(bool *held, const char *path);

/* "RUN/step-000012345", freed by sr_free(). */
sr_status sr_checkpoint_path(char **out, const char *run, int64_t step);

/* The steps of RUN's checkpoints, ascending, verified or not; freed by sr_free(). */
sr_status sr_checkpoint_list(int64_t **steps, size_t *count, const char *run);

/* Reads all of a checkpoint and compares it with its manifest; *step (may be NULL) is the
 * manifest's.  SR_EDATA reports what is wrong and where. */
sr_status sr_checkpoint_verify(int64_t *step, const char *path);

/* The newest checkpoint that verifies: *path (freed by sr_free()) and *step.  Newer ones that are
 * damaged are named by warnings; one that cannot be read is an error.
 *
 * Errors: SR_ENOENT  the directory is missing, or contains no checkpoint
 *         SR_EDATA   it contains some, but none verifies
 *         SR_EIO, SR_ENOMEM  one could not be read
 */
sr_status sr_checkpoint_latest(char **path, int64_t *step, const char *run);

/* Removes checkpoints older than `newest`, which has just been saved: all but the newest `keep` (at
 * least 2) of those up to `newest`, and those whose step is a multiple of `every` (0: none).  Each
 * is renamed first, so that no half-deleted one has a step's name. */
sr_status sr_checkpoint_retain(const char *run, int64_t newest, int keep, int64_t every);

/* Renames the checkpoint of `step` to a trash name and removes it. */
sr_status sr_checkpoint_trash(const char *run, int64_t step);

/* After a resume at `step`: checkpoints of later steps belong to a history that is abandoned.  They
 * are renamed to set-aside-step-..., never deleted, with a warning each. */
sr_status sr_checkpoint_set_aside(const char *run, int64_t step);

SR_END_C
