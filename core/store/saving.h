/* saving.h - writing a checkpoint so that a power cut leaves either the old one or the new one.
 *
 *   1. check the free space; create a directory .tmp-STEP-RANDOM in the run's directory
 *   2. each file: create (O_EXCL), reserve its space, write while computing sums, fsync, close
 *   3. MANIFEST last, in the same way; fsync of the directories
 *   4. rename to step-000012345, fsync of the run's directory: only now it counts as saved
 *
 * Several processes may write the files of one checkpoint: one begins it, the others join its
 * directory and report what they wrote; the first adopts the reports and commits.
 *
 * Any failure removes the temporary directory and leaves the previous state.  A file whose fsync
 * failed is never fsynced again: the kernel may have dropped the data it could not write.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_saving sr_saving;

/* Begins the checkpoint of `step` in the directory `run`; `bytes` is the total size of its files.
 *
 * Errors: SR_EINVAL  a negative step
 *         SR_EIO     not enough space, or the directory cannot be created
 */
sr_status sr_saving_begin(sr_saving **out, const char *run, int64_t step, uint64_t bytes);

/* Starts the file `name` ("config.json", "trainer/state.json") of exactly `bytes` bytes. */
sr_status sr_saving_open(sr_saving *saving, const char *name, uint64_t bytes);

/* The next bytes of the open file; has the signature of an sr_st_sink. */
sr_status sr_saving_write(void *saving, const void *bytes, size_t size);

/* Ends the open file; SR_EINTERNAL if it did not receive the announced number of bytes. */
sr_status sr_saving_close(sr_saving *saving);

/* Open, write, close. */
sr_status sr_saving_file(sr_saving *saving, const char *name, const void *bytes, size_t size);

/* Steps 3 and 4.  SR_OK: the checkpoint now survives a power cut. */
sr_status sr_saving_commit(sr_saving *saving);

/* ---- several processes ----------------------------------------------------------------------- */

/* The temporary directory, which others join; valid until the commit. */
const char *sr_saving_draft(const sr_saving *saving);

/* Takes part in the checkpoint of `step` that another process has begun in `draft`: files only, no
 * commit; the directory is the other's to remove. */
sr_status sr_saving_join(sr_saving **out, const char *draft, int64_t step);

/* The files written so far, as a manifest (manifest.h), freed by sr_free(); their directories are
 * synced. */
sr_status sr_saving_report(char **text, size_t *size, sr_saving *saving);

/* Adds the files of a report to the checkpoint.
 *
 * Errors: SR_EDATA   the report is corrupt, or of another step
 *         SR_EINVAL  a file has been written twice
 */
sr_status sr_saving_adopt(sr_saving *saving, const char *report, size_t size);

/* Frees the saving; without a commit the temporary directory is removed.  NULL is allowed. */
void sr_saving_end(sr_saving *saving);

SR_END_C
