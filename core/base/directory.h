/* directory.h - makes, lists, syncs and removes directories, and builds paths into them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/base/status.h"

SR_BEGIN_C

/* fsync of a directory, so that names in it survive a power cut. */
sr_status sr_file_sync_dir(const char *path);

/* mkdir -p, mode 0777 less the umask. */
sr_status sr_file_make_dirs(const char *path);

/* Makes a directory of a new name in TMPDIR, or /tmp, for this user alone; its path is freed by
 * sr_free(). */
sr_status sr_file_make_temporary(char **out);

/* "DIRECTORY/NAME", freed by sr_free(). */
sr_status sr_file_join(char **out, const char *folder, const char *name);

/* stat(), where *there is false if nothing has this name; fails with SR_EIO or SR_ENOMEM if the
 * system does not know: an unreadable name is not a missing one. */
sr_status sr_file_stat(bool *there, struct stat *st, const char *path);

bool sr_file_is_dir(const char *path);

/* The names in a directory, sorted by bytes, without "." and ".."; freed by sr_file_list_free(). */
sr_status sr_file_list(char ***names, size_t *count, const char *path);
void sr_file_list_free(char **names, size_t count); /* NULL, 0 are allowed */

/* The bytes of a file, or of all files in a directory; 0 of what is not there. */
sr_status sr_file_tree_size(uint64_t *bytes, const char *path);

/* Removes a file, or a directory with its contents.  A symbolic link is removed, never followed;
 * a path that does not exist is SR_OK.  Stops at the first failure. */
sr_status sr_file_remove_tree(const char *path);

SR_END_C
