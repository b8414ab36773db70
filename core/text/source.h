/* source.h - text from files, directories, standard input and .gz, as one stream of lines.
 *
 * A directory stands for the plain files below it, sorted by name (bytes), without those whose
 * name begins with a dot; "-" is standard input; what begins with the gzip magic is unpacked,
 * whatever its name.  Memory is bounded: a line longer than `line_limit` comes in parts, cut at
 * white space where there is some.
 */
#ifndef SR_TEXT_SOURCE_H
#define SR_TEXT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_SOURCE_LINE = 1 << 20, SR_SOURCE_FILES = 1 << 20, SR_SOURCE_DEPTH = 32 };

typedef struct sr_source sr_source;

typedef struct sr_source_opts {
    size_t line_limit; /* bytes of a part, at least 16; 0: SR_SOURCE_LINE */
    bool any_bytes;    /* accept what does not look like text */
} sr_source_opts;

/* Finds the files of `paths` and opens none yet, but fails when one is missing.
 *
 * Errors: SR_ENOENT, SR_EIO (a directory cannot be read), SR_EDATA (more than SR_SOURCE_FILES
 * files, directories nested deeper than SR_SOURCE_DEPTH, a directory without files), SR_ENOMEM. */
sr_status sr_source_open(sr_source **out, const char *const *paths, size_t count,
                         const sr_source_opts *opts);
void sr_source_close(sr_source *s); /* NULL is allowed */

/* A line, or a part of one.  The bytes are good until the next call on the source. */
typedef struct sr_line {
    const uint8_t *bytes; /* without the line feed; a carriage return before it stays */
    size_t size;
    bool ends;        /* the line ends here: a line feed, or the end of the file */
    bool file_starts; /* the first of its file */
} sr_line;

/* The next line; line->bytes is NULL after the last line of the last file.  A file that is empty
 * gives none, and an end of file after a line feed does not start another line.
 *
 * Errors: SR_EDATA  (unless any_bytes) a zero byte, or a block of 64 KiB of which a tenth is not
 *                   UTF-8: file and offset; a damaged or truncated .gz
 *         SR_EIO    reading failed
 *         SR_ENOMEM
 */
sr_status sr_source_line(sr_source *s, sr_line *line);

/* True when a line can be had without waiting for the other end of a pipe or a terminal. */
bool sr_source_ready(sr_source *s);

typedef struct sr_source_counts {
    uint64_t files;      /* opened so far */
    uint64_t bytes;      /* of text, unpacked, given out so far */
    uint64_t bytes_read; /* from storage: for progress */
    uint64_t lines;
    uint64_t invalid;  /* UTF-8 sequences that are none (not counted when any_bytes) */
    uint64_t long_cut; /* places where a long line was cut */
} sr_source_counts;

sr_source_counts sr_source_count(const sr_source *s);

/* The sizes of all files together as they lie on storage; 0 when standard input is among them. */
uint64_t sr_source_total(const sr_source *s);

#ifdef __cplusplus
}
#endif
#endif
