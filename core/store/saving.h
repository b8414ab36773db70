/* saving.h - a checkpoint is written so that a power cut leaves the old one or the new one.
 *
 *   1. room for all of it is checked; a folder .tmp-STEP-RANDOM is made inside the run folder
 *   2. each file: create (O_EXCL), claim its room, write with sums on the fly, fsync, close
 *   3. MANIFEST last, likewise; fsync of the folders
 *   4. rename to step-000012345, fsync of the run folder: only now it counts as saved
 *
 * Any failure removes the temporary folder and leaves what stood before.  A file whose fsync failed
 * is never fsynced again: the system may have forgotten what it could not write.
 */
#ifndef SR_STORE_SAVING_H
#define SR_STORE_SAVING_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_saving sr_saving;

/* Begins the checkpoint of `step` in the folder `run`; `bytes` is what all its files will take.
 *
 * Errors: SR_EINVAL  a negative step
 *         SR_EIO     not enough room, or the folder cannot be made
 */
sr_status sr_saving_begin(sr_saving **out, const char *run, int64_t step, uint64_t bytes);

/* Starts the file `name` ("config.json", "trainer/state.json") of exactly `bytes` bytes. */
sr_status sr_saving_open(sr_saving *saving, const char *name, uint64_t bytes);

/* The next bytes of the open file; has the shape of an sr_st_sink. */
sr_status sr_saving_write(void *saving, const void *bytes, size_t size);

/* Ends the open file; SR_EINTERNAL when it did not get the bytes it was announced with. */
sr_status sr_saving_close(sr_saving *saving);

/* Open, write, close. */
sr_status sr_saving_file(sr_saving *saving, const char *name, const void *bytes, size_t size);

/* Steps 3 and 4.  SR_OK: the checkpoint survives a power cut from now on. */
sr_status sr_saving_commit(sr_saving *saving);

/* Frees the saving; without a commit the temporary folder goes.  NULL is allowed. */
void sr_saving_end(sr_saving *saving);

#ifdef __cplusplus
}
#endif
#endif
