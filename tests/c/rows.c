/* rows.c - delimited text: quotes, literal quotes, words, long lines, bad bytes, failing memory. */
#include "core/text/rows.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/base/io.h"
#include "tests/support/fail.h"

static const char *given;
static size_t given_left, step;

/* Every read gets `step` bytes of `given`. */
static ssize_t feed(int fd, void *bytes, size_t size) {
    (void)fd;
    size_t n = given_left < size ? given_left : size;
    if (n > step) n = step;
    memcpy(bytes, given, n);
    given += n, given_left -= n;
    return (ssize_t)n;
}

/* Rows as "line:cell|cell;", with "!column" after those that are wrong. */
static sr_status show(char *out, size_t room, const sr_rows_opts *opts) {
    sr_rows *r;
    sr_row row;
    size_t used = 0;
    SR_TRY(sr_rows_open(&r, (const char *[]){"/dev/null"}, 1, opts));
    sr_status st;
    out[0] = '\0';
    while ((st = sr_rows_next(r, &row)) == SR_OK && row.file != NULL) {
        used += (size_t)snprintf(out + used, room - used, "%d:", (int)row.line);
        for (size_t i = 0; i < row.count; i++)
            used += (size_t)snprintf(out + used, room - used, "%s%.*s", i > 0 ? "|" : "",
                                     (int)row.cells[i].size, row.cells[i].bytes);
        if (row.wrong != NULL)
            used += (size_t)snprintf(out + used, room - used, "!%d", (int)row.wrong_cell);
        used += (size_t)snprintf(out + used, room - used, ";");
    }
    sr_rows_close(r);
    return st;
}

static sr_status parse(char *out, size_t room, const char *text, size_t size, sr_rows_opts opts,
                       size_t read) {
    sr_io saved = sr_io_now;
    sr_io_now.read = feed;
    given = text, given_left = size, step = read;
    sr_status st = show(out, room, &opts);
    sr_io_now = saved;
    return st;
}

#define OPTS(...) ((sr_rows_opts){__VA_ARGS__})

/* The same rows whether the file is read at once or byte by byte. */
#define CHECK_ROWS(text, opts, wanted)                                                             \
    do {                                                                                           \
        char got_[1024];                                                                           \
        for (size_t read_ = 1; read_ < 1000; read_ += 500) {                                       \
            CHECK_OK(parse(got_, sizeof got_, text, sizeof(text) - 1, opts, read_));               \
            CHECK(strcmp(got_, wanted) == 0 || (printf("got %s\n", got_), false));                 \
        }                                                                                          \
    } while (0)

#define CHECK_REFUSED(text, opts, words)                                                           \
    do {                                                                                           \
        char got_[1024];                                                                           \
        CHECK_FAILS(parse(got_, sizeof got_, text, sizeof(text) - 1, opts, 7), SR_EDATA, words);   \
    } while (0)

static void quoted(void) {
    sr_rows_opts csv = OPTS(.format = SR_ROWS_QUOTED);
    CHECK_ROWS("", csv, "");
    CHECK_ROWS("a", csv, "1:a;");
    CHECK_ROWS("a,b\r\nc,\r\n,\n", csv, "1:a|b;2:c|;3:|;");
    CHECK_ROWS("\"a,b\",\"c \"\"d\"\"\"\n\"\",x", csv, "1:a,b|c \"d\";2:|x;");
    CHECK_ROWS("\"one\ntwo\r\n\nfour\",b\nc,d\n", csv, "1:one\ntwo\r\n\nfour|b;5:c|d;");
    CHECK_ROWS("a \"b\",c\"\n", csv, "1:a \"b\"|c\";");
    CHECK_ROWS("x,\"a\"b,c\n\"a\" ,c\nx\n", csv, "1:x|ab|c!2;2:a |c!1;3:x;");
    CHECK_ROWS("\xEF\xBB\xBF\"a\";b\n\n;\n", OPTS(.format = SR_ROWS_QUOTED, .delimiter = ';'),
               "1:a|b;2:;3:|;");
    CHECK_REFUSED("a,b\nc,\"d\n\"\"e,\n", csv, "/dev/null:2: the quote that opens here is never");
}

static void literal(void) {
    sr_rows_opts tsv = OPTS(.format = SR_ROWS_LITERAL);
    CHECK_ROWS("\"a\tb\"\tc\n\"\n\r\n", tsv, "1:\"a|b\"|c;2:\";3:;");
    CHECK_ROWS("  EU   NNP\n\nrejects\tVB Z\t\n   \n", OPTS(.format = SR_ROWS_WORDS),
               "1:EU|NNP;2:;3:rejects|VB Z|;4:;");
    CHECK_ROWS("{\"a\": \"b\tc\"}\r\n\"", OPTS(.format = SR_ROWS_LINES),
               "1:{\"a\": \"b\tc\"};2:\";");
}

static void bad_bytes(void) {
    CHECK_ROWS("a\tb\nL\xE9\tb\nx\t\xC3\t\xA9\n", OPTS(.format = SR_ROWS_LITERAL),
               "1:a|b;2:L\xE9|b!1;3:x|\xC3|\xA9!2;");
    CHECK_ROWS("a\0,b\n", OPTS(.format = SR_ROWS_QUOTED), "1:a|b!1;");
}

static void limits(void) {
    sr_rows_opts small = OPTS(.format = SR_ROWS_QUOTED, .limit = 16);
    CHECK_ROWS("0123456789abcdef\n", small, "1:0123456789abcdef;");
    CHECK_REFUSED("a\n0123456789abcdefghi\n", small, ":2: the row is longer than 16 bytes");
    CHECK_REFUSED("a\n\"0123456789\nabcdefghijk\n", small, ":2: the row is longer than 16 bytes");
    char many[2 * SR_ROW_CELLS + 2], got[8192];
    memset(many, ',', sizeof many);
    CHECK_OK(parse(got, sizeof got, many, SR_ROW_CELLS - 1, OPTS(.format = SR_ROWS_QUOTED), 4096));
    CHECK_FAILS(parse(got, sizeof got, many, SR_ROW_CELLS, OPTS(.format = SR_ROWS_QUOTED), 4096),
                SR_EDATA, ":1: more than 1024 columns");
}

/* A line of a gigabyte is refused with a few megabytes of memory. */
static void giant_line(void) {
    int fd = memfd_create("giant", MFD_CLOEXEC);
    char path[64];
    struct rusage before, use;
    getrusage(RUSAGE_SELF, &before);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(fd >= 0 && ftruncate(fd, 1 << 30) == 0);
    sr_rows *r;
    sr_row row;
    for (int f = SR_ROWS_QUOTED; f <= SR_ROWS_LINES; f++) {
        sr_rows_opts opts = {.format = (sr_rows_format)f};
        CHECK_OK(sr_rows_open(&r, (const char *[]){path}, 1, &opts));
        CHECK_FAILS(sr_rows_next(r, &row), SR_EDATA, ":1: the row is longer than 1048576 bytes");
        sr_rows_close(r);
    }
    getrusage(RUSAGE_SELF, &use);
    CHECK(use.ru_maxrss - before.ru_maxrss < 64 << 10); /* KiB */
    close(fd);
}

static void failing_memory(void) {
    const char text[] = "a,b,c\n\"d\ne\",f,g\nh,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w\n";
    char got[1024], wanted[1024];
    CHECK_OK(
        parse(wanted, sizeof wanted, text, sizeof text - 1, OPTS(.format = SR_ROWS_QUOTED), 5));
    CHECK_STARVED(false,
                  parse(got, sizeof got, text, sizeof text - 1, OPTS(.format = SR_ROWS_QUOTED), 5));
    CHECK(strcmp(got, wanted) == 0);
}

int main(void) {
    quoted();
    literal();
    bad_bytes();
    limits();
    giant_line();
    failing_memory();
    return CHECK_DONE();
}
