/* source.h - text from files, directories and standard input, as one stream of lines.
 *
 * A directory means the regular files in it, recursively, sorted by name (bytes), except hidden
 * ones; a path that does not exist and has * ? or [ means the files and directories that match it,
 * sorted alike; "-" is standard input.  Files that begin like one of gzip or zstd are decompressed,
 * regardless of their name.  Of JSONL the lines are those of the texts of its records
 * (documents.h).  One file is open at a time, and memory is bounded: a line longer than
 * `line_limit` is returned in parts, split at white space if possible.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/text/documents.h"

SR_BEGIN_C

enum { SR_SOURCE_LINE = 1 << 20, SR_SOURCE_FILES = 1 << 20, SR_SOURCE_DEPTH = 32 };

typedef struct sr_source sr_source;

typedef struct sr_source_opts {
    size_t line_limit;  /* bytes per part, at least 16; 0: SR_SOURCE_LINE */
    bool any_bytes;     /* accept binary data */
    sr_records records; /* how JSONL is read; without a field: as any text */
} sr_source_opts;

/* Lists the files of `paths` without opening them, but fails if one is missing.
 *
 * Errors: SR_ENOENT, SR_EIO (a directory cannot be read), SR_EDATA (more than SR_SOURCE_FILES
 * files, directories nested deeper than SR_SOURCE_DEPTH, a directory without files, a pattern that
 * nothing matches), SR_ENOMEM. */
sr_status sr_source_open(sr_source **out, const char *const *paths, size_t count,
                         const sr_source_opts *opts);
void sr_source_close(sr_source *s); /* may be NULL */

/* A line, or a part of one.  The bytes are valid until the next call on the source. */
typedef struct sr_line {
    const uint8_t *bytes; /* without the line feed; a carriage return before it is kept */
    size_t size;
    bool ends;        /* the line is complete: line feed, end of file or of the record */
    bool file_starts; /* the first line of its file, or of a record of JSONL */
    bool in_record;   /* the line is of a record, whose end ends the document */
} sr_line;

/* The next line; line->bytes is NULL after the last line of the last file.  An empty file has no
 * lines, and the end of file after a line feed does not start another one.
 *
 * Errors: SR_EDATA  (unless any_bytes) a zero byte, or a 64 KiB block with more than a tenth of
 *                   invalid UTF-8: file and offset; damaged or truncated compressed data; a record
 *                   that cannot be used: file and line
 *         SR_EIO    reading failed
 *         SR_ENOMEM
 */
sr_status sr_source_line(sr_source *s, sr_line *line);

/* The files in the order in which they are read; i from 0. */
size_t sr_source_files(const sr_source *s);
const char *sr_source_file(const sr_source *s, size_t i);

/* The file of the last line; "" before the first. */
const char *sr_source_path(const sr_source *s);

/* True if a line is available without waiting for a pipe or a terminal. */
bool sr_source_ready(sr_source *s);

typedef struct sr_source_counts {
    uint64_t files;      /* opened so far */
    uint64_t bytes;      /* of decompressed text, returned so far */
    uint64_t bytes_read; /* read from storage, for progress */
    uint64_t lines;
    uint64_t records, left_out; /* of JSONL: read, and of these not wanted */
    uint64_t invalid;           /* invalid UTF-8 sequences (not counted with any_bytes) */
    uint64_t long_cut;          /* number of splits in long lines */
} sr_source_counts;

sr_source_counts sr_source_count(const sr_source *s);

/* The total size of all files on storage; 0 if standard input is among them. */
uint64_t sr_source_total(const sr_source *s);

SR_END_C
