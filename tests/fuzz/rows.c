/* rows.c - any bytes as delimited text, read in odd pieces.
 *
 * The first byte chooses format and limit, the second the size of reads.  The cells of a row are no
 * larger than its limit, lines count upwards, and cells written as CSV read back as they were. */
#include "core/text/rows.h"

#include "tests/fuzz/fuzz.h"

static sr_rows *open_rows(const sr_rows_opts *opts) {
    sr_rows *r;
    FUZZ_CHECK(sr_rows_open(&r, (const char *[]){"/dev/null"}, 1, opts) == SR_OK);
    return r;
}

/* The row as CSV, every cell in quotes. */
static size_t write_quoted(uint8_t *out, const sr_row *row) {
    uint8_t *to = out;
    for (size_t i = 0; i < row->count; i++) {
        if (i > 0) *to++ = ',';
        *to++ = '"';
        for (size_t k = 0; k < row->cells[i].size; k++) {
            if (row->cells[i].bytes[k] == '"') *to++ = '"';
            *to++ = row->cells[i].bytes[k];
        }
        *to++ = '"';
    }
    return (size_t)(to - out);
}

static void check_round_trip(const sr_row *row, size_t size) {
    size_t room = 2 * size + 3 * row->count + 16;
    uint8_t *text = malloc(room);
    const uint8_t *before = fuzz_input;
    size_t left = fuzz_left;
    fuzz_input = text, fuzz_left = write_quoted(text, row);
    sr_rows *r = open_rows(&(sr_rows_opts){.format = SR_ROWS_QUOTED, .limit = room});
    sr_row again;
    FUZZ_CHECK(sr_rows_next(r, &again) == SR_OK && again.count == row->count);
    for (size_t i = 0; i < row->count; i++)
        FUZZ_CHECK(again.cells[i].size == row->cells[i].size &&
                   memcmp(again.cells[i].bytes, row->cells[i].bytes, row->cells[i].size) == 0);
    sr_rows_close(r);
    free(text);
    fuzz_input = before, fuzz_left = left;
}

static size_t check_row(const sr_row *row, size_t limit) {
    size_t size = 0;
    FUZZ_CHECK(row->count <= SR_ROW_CELLS);
    for (size_t i = 0; i < row->count; i++) size += row->cells[i].size;
    FUZZ_CHECK(size <= limit + 2);
    FUZZ_CHECK(row->wrong == NULL || (row->wrong_cell > 0 && row->wrong_cell <= row->count));
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 2) return 0;
    sr_rows_opts opts = {.format = (sr_rows_format)(bytes[0] & 3),
                         .delimiter = bytes[0] & 4 ? ';' : 0,
                         .limit = bytes[0] & 8 ? 4096 : 16 + (size_t)(bytes[0] >> 4)};
    fuzz_most = 1 + (size_t)bytes[1];
    fuzz_input = bytes + 2, fuzz_left = size - 2;
    sr_io saved = sr_io_now;
    sr_io_now.read = fuzz_feed;
    sr_rows *r = open_rows(&opts);
    sr_row row;
    sr_status st;
    uint64_t line = 0;
    while ((st = sr_rows_next(r, &row)) == SR_OK && row.file != NULL) {
        FUZZ_CHECK(row.line > line);
        line = row.line;
        size_t cells = check_row(&row, opts.limit);
        if (row.count > 0 && row.wrong == NULL) check_round_trip(&row, cells);
    }
    if (st != SR_OK) FUZZ_REFUSED(st);
    sr_rows_close(r);
    sr_io_now = saved;
    return 0;
}
