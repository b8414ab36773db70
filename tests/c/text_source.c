/* text_source.c - sources and sentences: files, directories, .gz, binary data, lines of a gigabyte.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/io.h"
#include "core/tokenizer/encode.h"
#include "core/text/sentence.h"
#include "tests/support/scratch.h"

#define PUT(name, text) put_file(at(name), text, sizeof(text) - 1)

/* A shell command; $D is the directory. */
static void run(const char *command) {
    CHECK(system(command) == 0);
}

/* All lines of a source as "line|line|", parts of a line ended by "~" instead. */
static char got[4096];

static sr_status read_lines(const char *path, const sr_source_opts *opts) {
    sr_source *s;
    const char *paths[] = {path};
    SR_TRY(sr_source_open(&s, paths, 1, opts));
    sr_line line;
    size_t used = 0;
    sr_status st;
    while ((st = sr_source_line(s, &line)) == SR_OK && line.bytes != NULL)
        used +=
            (size_t)snprintf(got + used, sizeof got - used, "%s%.*s%s", line.file_starts ? "^" : "",
                             (int)line.size, line.bytes, line.ends ? "|" : "~");
    if (used == 0) got[0] = '\0';
    sr_source_close(s);
    return st;
}

#define CHECK_LINES(path, opts, wanted)                                                            \
    do {                                                                                           \
        CHECK_OK(read_lines(path, opts));                                                          \
        CHECK(strcmp(got, wanted) == 0 || (printf("got %s\n", got), false));                       \
    } while (0)

static void lines(void) {
    PUT("a", "one\ntwo\r\n\nfour");
    PUT("empty", "");
    CHECK_LINES(at("a"), NULL, "^one|two\r||four|");
    CHECK_LINES(at("empty"), NULL, "");
    PUT("long", "aaaa bbbb cccc dddd eeee\nfffffffffffffffffffffffff\nx");
    sr_source_opts narrow = {.line_limit = 16};
    CHECK_LINES(at("long"), &narrow, "^aaaa bbbb cccc ~dddd eeee|ffffffffffffffff~fffffffff|x|");
    PUT("wide", "\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD");
    CHECK_LINES(at("wide"), &narrow, /* cut between characters */
                "^\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD~\xE4\xB8\xAD|");
    CHECK_FAILS(read_lines(at("none"), NULL), SR_ENOENT, "none");
    sr_source_opts silly = {.line_limit = 3};
    CHECK_FAILS(read_lines(at("a"), &silly), SR_EINVAL, "line limit of 3");
}

static void directories(void) {
    mkdir(at("d"), 0777), mkdir(at("d/b"), 0777), mkdir(at("d/none"), 0777);
    PUT("d/z", "last\n");
    PUT("d/b/2", "second\n");
    PUT("d/a.txt", "first\n");
    PUT("d/.hidden", "never\n");
    CHECK(symlink("..", at("d/loop")) == 0);
    CHECK_LINES(at("d"), NULL, "^first|^second|^last|");
    CHECK_FAILS(read_lines(at("d/none"), NULL), SR_EDATA, "no files in this directory");
    char deep[256] = "deep";
    mkdir(at("%s", deep), 0777);
    for (int i = 0; i < SR_SOURCE_DEPTH; i++) strcat(deep, "/x"), mkdir(at("%s", deep), 0777);
    CHECK_FAILS(read_lines(at("deep"), NULL), SR_EDATA, "nested deeper");
}

/* A file that ends after any of its bytes but the first few. */
static void cut_anywhere(const char *whole, const char *part, int least) {
    struct stat st;
    CHECK(stat(whole, &st) == 0);
    for (int cut = least; cut < st.st_size; cut++) {
        FILE *in = fopen(whole, "rb"), *out = fopen(part, "wb");
        for (int i = 0; i < cut; i++) fputc(fgetc(in), out);
        fclose(in), fclose(out);
        CHECK_FAILS(read_lines(part, NULL), SR_EDATA, "truncated");
    }
}

static void gzipped(void) {
    run("printf 'one\\ntwo' | gzip > $D/g.gz; cp $D/g.gz $D/odd");
    CHECK_LINES(at("odd"), NULL, "^one|two|");
    run("cat $D/g.gz $D/g.gz > $D/two.gz; head -c 99 /dev/zero >> $D/two.gz");
    CHECK_LINES(at("two.gz"), NULL, "^one|twoone|two|");
    cut_anywhere(at("g.gz"), at("cut.gz"), 3);
    run("cp $D/g.gz $D/tail.gz; echo rubbish >> $D/tail.gz");
    CHECK_FAILS(read_lines(at("tail.gz"), NULL), SR_EDATA, "unexpected data");
    run("cp $D/g.gz $D/bad.gz; printf XX | dd of=$D/bad.gz bs=1 seek=14 conv=notrunc status=none");
    CHECK_FAILS(read_lines(at("bad.gz"), NULL), SR_EDATA, "damaged");
}

/* Zstandard as gzip: several frames, frames that are skipped, cuts at every byte. */
static void zstandard(void) {
    run("printf 'one\\ntwo' | zstd -q --check > $D/z.zst; cp $D/z.zst $D/any");
    CHECK_LINES(at("any"), NULL, "^one|two|");
    run("printf '\\120\\052\\115\\030\\003\\000\\000\\000abc' > $D/skip; cat $D/skip $D/z.zst "
        "$D/skip $D/z.zst > $D/two.zst");
    CHECK_LINES(at("two.zst"), NULL, "^one|twoone|two|");
    cut_anywhere(at("z.zst"), at("cut.zst"), 4);
    run("cp $D/z.zst $D/tail.zst; echo rubbish >> $D/tail.zst");
    CHECK_FAILS(read_lines(at("tail.zst"), NULL), SR_EDATA, "unexpected data");
    run("cp $D/z.zst $D/bad.zst; printf XX | dd of=$D/bad.zst bs=1 seek=9 conv=notrunc "
        "status=none");
    CHECK_FAILS(read_lines(at("bad.zst"), NULL), SR_EDATA, "damaged");
}

static void rubbish(void) {
    static char block[200000];
    PUT("zero", "fine so far\nand then \0 comes a zero\n");
    CHECK_FAILS(read_lines(at("zero"), NULL), SR_EDATA, "zero byte at offset 21");
    CHECK_OK(read_lines(at("zero"), &(sr_source_opts){.any_bytes = true}));
    memset(block, 'a', sizeof block);
    for (size_t i = 79; i < sizeof block; i += 80) block[i] = '\n';
    memset(block + 150000, 0xE9, 9000);
    put_file(at("latin"), block, sizeof block);
    sr_source *s;
    const char *paths[] = {at("latin")};
    CHECK_OK(sr_source_open(&s, paths, 1, NULL));
    sr_line line;
    sr_status st;
    while ((st = sr_source_line(s, &line)) == SR_OK && line.bytes != NULL) continue;
    CHECK(st == SR_EDATA && strstr(sr_message(), "first at byte 150000") != NULL);
    sr_source_close(s);
    PUT("few", "caf\xE9 na\xEFve\n");
    CHECK_OK(sr_source_open(&s, (const char *[]){at("few")}, 1, NULL));
    CHECK_OK(sr_source_line(s, &line));
    CHECK_OK(sr_source_line(s, &line));
    CHECK(sr_source_count(s).invalid == 2 && sr_source_count(s).bytes == 11);
    sr_source_close(s);
}

/* ---- storage that fails ---- */

static int reads_left;

static ssize_t failing_read(int fd, void *bytes, size_t size) {
    if (reads_left-- > 0) return read(fd, bytes, size < 100 ? size : 100);
    errno = EIO;
    return -1;
}

static void failing_storage(void) {
    sr_io saved = sr_io_now;
    sr_io_now.read = failing_read;
    for (int n = 0; n < 3; n++) {
        reads_left = n;
        CHECK_FAILS(read_lines(at("latin"), NULL), SR_EIO, "latin: cannot read");
    }
    sr_io_now = saved;
}

/* ---- a line of a gigabyte ---- */

#ifdef __SANITIZE_ADDRESS__
enum { GENERATED = 64 << 20 };
#else
enum { GENERATED = 1 << 30 };
#endif

static size_t generated, generate;
static char pattern[1 << 16];

static ssize_t generating_read(int fd, void *bytes, size_t size) {
    (void)fd;
    size_t n = generate - generated;
    if (n > size) n = size;
    if (n > sizeof pattern) n = sizeof pattern;
    memcpy(bytes, pattern, n);
    generated += n;
    return (ssize_t)n;
}

static void fill_pattern(const char *text) {
    size_t size = strlen(text);
    for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = text[i % size];
    generated = 0;
}

static long peak_mb(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss / 1024;
}

static sr_status nowhere(void *context, const void *bytes, size_t size) {
    (void)bytes;
    *(size_t *)context += size;
    return SR_OK;
}

static void gigabyte_line(void) {
    long before = peak_mb();
    sr_io saved = sr_io_now;
    sr_io_now.read = generating_read;
    sr_source *s;
    sr_line line;
    size_t lines = 0, bytes = 0;
    fill_pattern("words without an end ");
    generate = GENERATED;
    CHECK_OK(sr_source_open(&s, (const char *[]){"/dev/null"}, 1, NULL));
    do CHECK_OK(sr_source_line(s, &line));
    while (line.bytes != NULL && (bytes += line.size, lines += line.ends, true));
    CHECK(lines == 1 && bytes == GENERATED && sr_source_count(s).long_cut > 10);
    sr_source_close(s);

    fill_pattern("Onewordwithoutanend");
    generate = GENERATED / 16;
    CHECK_OK(sr_source_open(&s, (const char *[]){"/dev/null"}, 1, NULL));
    sr_sentences *q;
    sr_sentence one;
    size_t sentences = 0;
    CHECK_OK(sr_sentences_new(&q, s, NULL));
    do CHECK_OK(sr_sentences_next(q, &one));
    while (one.event != SR_TEXT_END && (sentences += one.event == SR_TEXT_SENTENCE, true));
    CHECK(sr_sentences_count(q).long_cut + 1 == sentences && sentences == generate / (64 << 10));
    sr_sentences_free(q);
    sr_source_close(s);

    sr_io_now.read = saved.read;
    sr_vocab *v;
    CHECK_OK(sr_vocab_load(&v, "tests/data/tokenizer/vocab.txt"));
    sr_io_now.read = generating_read;
    fill_pattern("unaffordable it ");
    generate = GENERATED / 16;
    sr_tokenizer *t;
    sr_encode_counts counts;
    CHECK_OK(sr_tokenizer_new(&t, v, &(sr_tokenizer_opts){.lowercase = true}));
    CHECK_OK(sr_source_open(&s, (const char *[]){"/dev/null"}, 1, NULL));
    CHECK_OK(sr_encode(s, t, &(sr_encode_opts){.ids = true}, NULL, nowhere, &bytes, &counts));
    sr_tokens k = {0};
    CHECK_OK(sr_tokenize(&k, t, pattern, 16));
    CHECK(counts.lines == 1 && counts.tokens == k.count * (generate / 16));
    sr_tokens_free(&k);
    sr_source_close(s);
    sr_tokenizer_release(t);
    sr_vocab_release(v);
    sr_io_now = saved;
    long grown = peak_mb() - before;
    CHECK(grown < 96 || (printf("%ld MB\n", grown), false));
}

int main(void) {
    CHECK(scratch_begin() && setenv("D", scratch, 1) == 0);
    lines();
    directories();
    gzipped();
    zstandard();
    rubbish();
    failing_storage();
    gigabyte_line();
    scratch_end();
    CHECK(sr_mem_live() == 0);
    return CHECK_DONE();
}
