/* manifest.h - the files of a checkpoint, with checksums.
 *
 * MANIFEST is the last file of a checkpoint to be written.  It is text:
 *
 *     seqrun checkpoint 1
 *     step 12345
 *     file 106688 <XXH3-128 of the file> model.safetensors
 *     block <XXH3-64 of the first MiB>
 *     block ...                             one for each MiB, the last may be shorter
 *     end <XXH3-128 of everything above>
 *
 * Sums are lower-case hexadecimal.  The lines have one form only, so any changed byte is
 * detected: in a file by its sums (by block), in MANIFEST itself by the last line.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

enum { SR_MANIFEST_BLOCK = 1 << 20, SR_MANIFEST_MAX_FILES = 4096 };
#define SR_MANIFEST_NAME "MANIFEST"

typedef struct sr_manifest_file {
    char *name; /* one or two components of [A-Za-z0-9._-], none starting with a dot */
    uint64_t bytes;
    uint64_t sum[2]; /* XXH3-128: high, low */
    uint64_t *blocks;
    int64_t block_count;
} sr_manifest_file;

typedef struct sr_manifest {
    int64_t step;
    sr_manifest_file *files; /* in the order of writing */
    int64_t count;
} sr_manifest;

void sr_manifest_free(sr_manifest *manifest); /* may be NULL */

/* SR_EINVAL unless `name` is allowed in a manifest: it must not leave the directory. */
sr_status sr_manifest_check_name(const char *name);

/* The text of a manifest, freed by sr_free(). */
sr_status sr_manifest_print(char **text, size_t *size, const sr_manifest *manifest);

/* Parses a text strictly; SR_EDATA names `path` and the line. */
sr_status sr_manifest_parse(sr_manifest **out, const char *text, size_t size, const char *path);

/* Reads DIRECTORY/MANIFEST; SR_EDATA if it is missing or corrupt. */
sr_status sr_manifest_read(sr_manifest **out, const char *folder);

/* Reads every file of the manifest; SR_EDATA names the first one that is missing, has another size
 * or another sum, and the offset of the first wrong block. */
sr_status sr_manifest_verify(const sr_manifest *manifest, const char *folder);

SR_END_C
