/* text_run.h - a text on its way through a tokenizer, and where each of its bytes comes from.
 *
 * A run is UTF-8.  With `aligned`, byte i comes from code points [from[i], to[i]) of the original
 * text, as the alignments of Hugging Face's NormalizedString have it; without, ids only are wanted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

/* Zero-initialised: empty. */
typedef struct sr_run {
    uint8_t *bytes;
    uint32_t *from, *to; /* only with aligned */
    size_t size, room;
    bool aligned;
} sr_run;

enum { SR_RUN_AFTER = 32 }; /* bytes after the last one that may be read */

/* Room for `more` further bytes. */
sr_status sr_run_reserve(sr_run *r, size_t more);
void sr_run_free(sr_run *r);

/* Empties a run. */
static inline void sr_run_clear(sr_run *r, bool aligned) {
    if (aligned != r->aligned) r->room = 0; /* reserve again, with the other arrays */
    r->size = 0;
    r->aligned = aligned;
}

/* Appends bytes [first, last) of another run. */
sr_status sr_run_copy(sr_run *r, const sr_run *other, size_t first, size_t last);

/* Appends a text, all of whose bytes come from [from, to). */
sr_status sr_run_add(sr_run *r, const void *bytes, size_t size, uint32_t from, uint32_t to);

/* A change of one character: it replaces the next one (0), it is inserted (1), or it replaces the
 * next one and removes n more (-n). */
typedef struct sr_change {
    int32_t cp, change;
} sr_change;

typedef struct sr_changes {
    sr_change *list;
    size_t count, room;
} sr_changes;

sr_status sr_changes_add(sr_changes *c, int32_t cp, int32_t change);

/* Appends to `out` what the changes make of `in`, after `removed` of its characters.  A replaced
 * character keeps its place, an inserted one has that of the one before it. */
sr_status sr_run_change(sr_run *out, const sr_run *in, const sr_changes *c, size_t removed);

SR_END_C
