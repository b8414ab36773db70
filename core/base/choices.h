/* choices.h - what was measured to be best, remembered between runs: texts of fixed size by key.
 *
 * Timing is noise, so whoever chooses by it may choose differently the next time; where the choice
 * changes bits, a resumed run needs the one of before.  Choices are therefore kept in a file of the
 * user's cache directory.  The first choice stored for a key stands, for every process.
 *
 * The file has a line for each choice: key, a tab, the value in hexadecimal.  Other lines, such as
 * one that was cut short, are ignored.
 */
#ifndef SR_BASE_CHOICES_H
#define SR_BASE_CHOICES_H

#include <stddef.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_choices sr_choices;

/* Reads the choices of a file, which need not exist; NULL keeps them in memory only.  Values have
 * `bytes` bytes, at most SR_CHOICE_BYTES.  SR_ENOMEM; a file that cannot be read counts as empty.
 */
enum { SR_CHOICE_BYTES = 256, SR_CHOICE_KEY = 200 };
sr_status sr_choices_open(sr_choices **out, const char *path, size_t bytes);
void sr_choices_close(sr_choices *choices); /* may be NULL */

/* The value chosen for a key, NULL if there is none; valid until the next sr_choices_add(). */
const void *sr_choices_find(const sr_choices *choices, const char *key);

/* Chooses a value for a key that has none.  Where another process has stored one meanwhile, that
 * one stands: ask sr_choices_find() which it is.  Without tabs and line breaks in the key.
 *
 * Errors: SR_ENOMEM
 *         SR_EIO     the file could not be written; the choice stands for this process */
sr_status sr_choices_add(sr_choices *choices, const char *key, const void *value);

/* The path of a file in the user's cache directory, $XDG_CACHE_HOME/seqrun or ~/.cache/seqrun,
 * which is created; freed by sr_free().  *out is NULL when there is none. */
sr_status sr_cache_path(char **out, const char *name);

#ifdef __cplusplus
}
#endif
#endif
