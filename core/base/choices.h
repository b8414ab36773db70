/* choices.h - what was measured to be best, remembered between runs: texts of fixed size by key.
 *
 * Timings vary, so a measured choice may differ the next time; where the choice changes bits,
 * a resumed run needs the earlier one.  Choices are therefore kept in a file of the user's cache
 * directory.  The first choice stored for a key holds for every process that has not made its
 * own.
 *
 * The file has a line for each choice: key, a tab, the value in hexadecimal.  Other lines, such as
 * one that was cut short, are ignored.
 *
 * A run must not depend on that file alone: its checkpoint keeps the choices as a text, which its
 * ranks also exchange.  Choices from a text are pinned: this process uses them whatever the file
 * says, and does not write them to it.
 *
 *     seqrun choices 1 NAME BYTES        what the choices are for, and the bytes of a value
 *     KEY<tab>HEXADECIMAL                as in the file, each key once
 *     end COUNT
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_choices sr_choices;

enum { SR_CHOICE_BYTES = 256, SR_CHOICE_KEY = 200, SR_CHOICES_IN_TEXT = 10000 };

/* Reads the choices of a file, which need not exist; NULL keeps them in memory only.  `name`,
 * without spaces, says what they are for, such as a library and a GPU: texts of another name do not
 * fit.  Values have `bytes` bytes, at most SR_CHOICE_BYTES.  SR_ENOMEM; a file that cannot be read
 * counts as empty.
 */
sr_status sr_choices_open(sr_choices **out, const char *name, const char *path, size_t bytes);
void sr_choices_close(sr_choices *choices); /* may be NULL */

/* The value chosen for a key, NULL if there is none; valid until the next sr_choices_add(). */
const void *sr_choices_find(const sr_choices *choices, const char *key);

/* Chooses a value for a key that has none; the key contains no tabs or line breaks.  If another
 * process has stored one in the meantime, that one holds: sr_choices_find() returns it.
 *
 * Errors: SR_ENOMEM
 *         SR_EIO     the file could not be written; the choice holds for this process */
sr_status sr_choices_add(sr_choices *choices, const char *key, const void *value);

/* A fallback for this process: the same, but not stored in the file. */
sr_status sr_choices_hold(sr_choices *choices, const char *key, const void *value);

/* The number of keys that have a choice, numbered in the order in which they were chosen. */
size_t sr_choices_count(const sr_choices *choices);

/* The choices from number `from` on, as a text; freed by sr_free(). */
sr_status sr_choices_text(char **out, const sr_choices *choices, size_t from);

/* Pins the choices of a text.
 *
 * Errors: SR_EDEVICE  they are for something else; nothing is pinned
 *         SR_EDATA    not such a text; nothing is pinned
 *         SR_ENOMEM */
sr_status sr_choices_pin(sr_choices *choices, const char *text, size_t size);

/* Changes with each sr_choices_pin(): a caller that cached a value must look it up again. */
uint64_t sr_choices_pins(const sr_choices *choices);

/* The path of a file in the user's cache directory, $XDG_CACHE_HOME/seqrun or ~/.cache/seqrun,
 * which is created; freed by sr_free().  *out is NULL when there is none. */
sr_status sr_cache_path(char **out, const char *name);

SR_END_C
