/* rows.h - rows of cells from delimited text: CSV, TSV, columns of words, or plain lines.
 *
 *   quoted   CSV (RFC 4180): a cell in quotes may contain delimiters, line feeds and doubled quotes
 *   literal  TSV: every byte between two delimiters belongs to the cell, quotes too
 *   words    separated by tabs if the line has one, else by any number of spaces
 *   lines    one cell, the line
 *
 * A byte order mark at the start of a file and a carriage return before a line feed are dropped. An
 * empty line is a row without cells.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

enum { SR_ROW_CELLS = 1024, SR_ROW_LIMIT = 1 << 20 };

typedef enum sr_rows_format {
    SR_ROWS_QUOTED,
    SR_ROWS_LITERAL,
    SR_ROWS_WORDS,
    SR_ROWS_LINES
} sr_rows_format;

typedef struct sr_rows_opts {
    sr_rows_format format;
    char delimiter; /* of quoted and literal; 0: a comma, a tab */
    size_t limit;   /* bytes of a row, at least 16; 0: SR_ROW_LIMIT */
} sr_rows_opts;

typedef struct sr_cell {
    const uint8_t *bytes;
    size_t size;
} sr_cell;

/* A row, valid until the next call. */
typedef struct sr_row {
    const sr_cell *cells;
    size_t count;
    const char *file; /* NULL after the last row of the last file */
    uint64_t line;    /* of the file, from 1: where the row starts */
    bool file_starts; /* the first row of its file */
    const char
        *wrong; /* NULL, or why the row cannot be used: a zero byte, invalid UTF-8, a quote */
    size_t wrong_cell; /* from 1 */
} sr_row;

typedef struct sr_rows sr_rows;

/* Opens files, directories, .gz or "-", as sr_source_open() does, whose errors it has. */
sr_status sr_rows_open(sr_rows **out, const char *const *paths, size_t count,
                       const sr_rows_opts *opts);
void sr_rows_close(sr_rows *r); /* may be NULL */

/* The next row.
 *
 * Errors: SR_EDATA  a row is longer than the limit or has more than SR_ROW_CELLS cells, a quote is
 *                   never closed, a .gz is damaged; with file and line
 *         SR_EIO, SR_ENOMEM
 * Memory: two rows of the limit. */
sr_status sr_rows_next(sr_rows *r, sr_row *row);

SR_END_C
