/* base.c - the parts of core/base that Lua cannot test: failing allocations, failing file
 * operations, threads. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "core/base/draft.h"
#include "core/base/log.h"
#include "core/base/reader.h"
#include "core/base/rng.h"
#include "core/base/thread.h"
#include "tests/support/fail.h"
#include "tests/support/io_faults.h"
#include "tests/support/scratch.h"

/* ---- status --------------------------------------------------------------------------------- */

static void statuses(void) {
    CHECK(sr_fail(SR_EDATA, "%s at %d", "rubbish", 7) == SR_EDATA);
    CHECK(strcmp(sr_message(), "rubbish at 7") == 0);
    char longest[3000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    sr_fail(SR_EDATA, "%s", longest);
    CHECK(strlen(sr_message()) == 1023);
    const int codes[] = {0, 2, 2, 3, 3, 4, 4, 5, 5, 1, 8, 75, 70};
    for (int i = 0; i < SR_STATUS_COUNT; i++) CHECK(sr_exit_code((sr_status)i) == codes[i]);
    CHECK(sr_exit_code((sr_status)99) == 70);
    CHECK(strcmp(sr_status_name((sr_status)-1), "internal") == 0);
}

/* ---- Philox --------------------------------------------------------------------------------- */

static bool philox_gives(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint64_t seed,
                         int rounds, const uint32_t wanted[4]) {
    sr_u32x4 x = sr_philox((sr_u32x4){{c0, c1, c2, c3}}, seed, rounds);
    return memcmp(x.w, wanted, sizeof x.w) == 0;
}

/* Known-answer vectors published with Random123 by the authors of Philox (file kat_vectors). */
static void known_answers(void) {
    const uint32_t f = 0xffffffff;
    const uint64_t pi = 0x299f31d0a4093822;
    CHECK(philox_gives(0, 0, 0, 0, 0, 10,
                       (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    CHECK(philox_gives(f, f, f, f, UINT64_MAX, 10,
                       (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    CHECK(philox_gives(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, pi, 10,
                       (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
    CHECK(philox_gives(0, 0, 0, 0, 0, 7,
                       (uint32_t[]){0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
    CHECK(philox_gives(f, f, f, f, UINT64_MAX, 7,
                       (uint32_t[]){0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
    CHECK(philox_gives(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, pi, 7,
                       (uint32_t[]){0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
}

static void counters(void) {
    sr_u32x4 c = sr_counter(0x12345, 7, 42, SR_PURPOSE_DROP_FEED, 0x1fff, 0x2abc, 9);
    CHECK(c.w[0] == (0x2345u | 7u << 16));
    CHECK(c.w[1] == 42);
    CHECK(c.w[2] == (9u << 24 | 0xfffu << 12 | 0xabcu));
    CHECK(c.w[3] == 9);
    CHECK(sr_keep_256(0.0) == 256 && sr_keep_256(0.1) == 230 && sr_keep_256(0.5) == 128);
    CHECK(sr_keep_256(0.15) == 218); /* 217.6, rounded */
    CHECK(sr_below(0, 10) == 0 && sr_below(UINT32_MAX, 10) == 9);
    CHECK(sr_unit(0) == 0.0f && sr_unit(UINT32_MAX) < 1.0f);
}

/* Every column of a row has its own decision: 16 per call, each byte used once. */
static void dropout_columns(void) {
    bool used[16 * 16] = {false};
    for (uint32_t col = 0; col < 256; col++) {
        sr_u32x4 w;
        for (uint32_t i = 0; i < 4; i++)
            w.w[i] = (4 * i) | (4 * i + 1) << 8 | (4 * i + 2) << 16 | (4 * i + 3) << 24;
        uint32_t at = sr_drop_group(col) * 16 + sr_drop_byte(w, col);
        CHECK(at < 256 && !used[at]);
        if (at < 256) used[at] = true;
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

static void sizes(void) {
    size_t n;
    CHECK_OK(sr_mul_size(&n, SIZE_MAX, 1));
    CHECK(n == SIZE_MAX);
    CHECK_FAILS(sr_mul_size(&n, SIZE_MAX / 2 + 1, 2), SR_ENOMEM, "x 2 does not fit");
    CHECK_OK(sr_add_size(&n, SIZE_MAX - 1, 1));
    CHECK_FAILS(sr_add_size(&n, SIZE_MAX, 1), SR_ENOMEM, "+ 1 does not fit");
    double *p = (double *)&n;
    CHECK_FAILS(sr_new(&p, SIZE_MAX / 4), SR_ENOMEM, "does not fit");
    CHECK(p == NULL);
    CHECK_FAILS(sr_alloc_aligned((void **)&p, SIZE_MAX - 8), SR_ENOMEM, "does not fit");
    CHECK_FAILS(sr_alloc((void **)&p, SIZE_MAX / 4, 1), SR_ENOMEM, "out of memory");
}

static void refused_allocations(void) {
    int64_t before = sr_mem_live();
    char *a = NULL, *b = NULL;
    sr_mem_fail_at(2, false);
    CHECK_OK(sr_new(&a, 10));
    CHECK_FAILS(sr_new(&b, 10), SR_ENOMEM, "10 bytes");
    CHECK(b == NULL);
    CHECK_OK(sr_new(&b, 10));
    CHECK(sr_mem_calls() == 3);
    sr_mem_fail_at(1, true);
    memset(a, 'a', 10);
    char *held = a;
    CHECK_FAILS(sr_grow(&a, 1000), SR_ENOMEM, "1000 bytes");
    CHECK(a == held && a[9] == 'a');
    CHECK(sr_mem_malloc(1) == NULL && sr_mem_realloc(NULL, 1) == NULL);
    sr_mem_fail_at(0, false);
    CHECK_OK(sr_grow(&a, 1000));
    CHECK(a[9] == 'a');
    void *line = NULL;
    CHECK_OK(sr_alloc_aligned(&line, 1));
    CHECK((uintptr_t)line % 64 == 0);
    CHECK_OK(sr_alloc((void **)&held, 0, 8));
    CHECK(held == NULL);
    CHECK(sr_mem_live() == before + 3);
    sr_free(a);
    sr_free(b);
    sr_free_aligned(line);
    sr_free(NULL);
    CHECK(sr_mem_live() == before);
}

/* ---- reader --------------------------------------------------------------------------------- */

static void reader_numbers(void) {
    const unsigned char bytes[] = {1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0x80};
    sr_reader r;
    uint8_t a;
    uint16_t b;
    uint32_t c;
    uint64_t d;
    sr_reader_init(&r, bytes, sizeof bytes, "numbers");
    CHECK_OK(sr_read_u8(&r, &a));
    CHECK_OK(sr_read_u16(&r, &b));
    CHECK_OK(sr_read_u32(&r, &c));
    CHECK_FAILS(sr_read_end(&r), SR_EDATA, "8 unexpected bytes at the end");
    CHECK_OK(sr_read_u64(&r, &d));
    CHECK(a == 1 && b == 2 && c == 3 && d == 0x8000000000000004);
    CHECK_OK(sr_read_end(&r));
    d = 1;
    CHECK_FAILS(sr_read_u64(&r, &d), SR_EDATA, "at byte 15 of 15");
    CHECK(d == 0);
    CHECK(sr_read_end(&r) == SR_EDATA); /* failures are sticky */
}

static void reader_claims(void) {
    const unsigned char bytes[16] = {0};
    const void *p;
    const struct {
        uint64_t count;
        size_t size;
        sr_status wanted;
    } cases[] = {
        {16, 1, SR_OK},
        {17, 1, SR_EDATA},
        {2, 8, SR_OK},
        {3, 8, SR_EDATA},
        {0, 8, SR_OK},
        {UINT64_MAX, 8, SR_EDATA},
        {1ull << 61, 8, SR_EDATA},
        {1ull << 63, 2, SR_EDATA},
        {UINT64_MAX, 1, SR_EDATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_reader r;
        sr_reader_init(&r, bytes, sizeof bytes, "claims");
        CHECK(sr_read_claim(&r, &p, cases[i].count, cases[i].size) == cases[i].wanted);
        CHECK((p == bytes) == (cases[i].wanted == SR_OK));
        CHECK((sr_read_claim(&r, &p, 0, 1) == SR_OK) == (cases[i].wanted == SR_OK));
    }
}

/* ---- files ---------------------------------------------------------------------------------- */

static void reading(void) {
    void *bytes;
    size_t size;
    const char *path = at("read");
    CHECK_FAILS(sr_file_read(&bytes, &size, path, 10), SR_ENOENT, "read: cannot open");
    CHECK(bytes == NULL && size == 0);
    CHECK_OK(sr_file_replace(path, "0123456789", 10));
    CHECK_OK(sr_file_read(&bytes, &size, path, 10));
    CHECK(size == 10 && memcmp(bytes, "0123456789", 11) == 0);
    sr_free(bytes);
    CHECK_FAILS(sr_file_read(&bytes, &size, path, 9), SR_EDATA, "has 10 bytes, the limit is 9");
    CHECK_FAILS(sr_file_read(&bytes, &size, scratch, 9), SR_EDATA, "expected a regular file");
    CHECK_FAILS(sr_file_read(&bytes, &size, "/dev/zero", 9), SR_EDATA, "a pipe or a device");
    CHECK(mkfifo(at("pipe"), 0600) == 0); /* must not wait for a writer */
    CHECK_FAILS(sr_file_read(&bytes, &size, at("pipe"), 9), SR_EDATA, "a pipe or a device");
    /* fstat reports 0 bytes for files in /proc; they are read to the end nevertheless */
    CHECK_OK(sr_file_read(&bytes, &size, "/proc/self/maps", 1 << 24));
    CHECK(size > 100 && strlen(bytes) == size);
    sr_free(bytes);
    CHECK_FAILS(sr_file_read(&bytes, &size, "/proc/self/maps", 50), SR_EDATA, "limit of 50");
}

static void reading_at(void) {
    char bytes[8];
    CHECK_OK(sr_file_replace(at("at"), "0123456789", 10));
    int fd = open(at("at"), O_RDONLY);
    CHECK_OK(sr_file_pread(fd, bytes, 4, 6, "at"));
    CHECK(memcmp(bytes, "6789", 4) == 0);
    CHECK_FAILS(sr_file_pread(fd, bytes, 5, 6, "at"), SR_EDATA,
                "at: truncated: expected 1 more bytes");
    CHECK_FAILS(sr_file_pread(fd, bytes, 8, UINT64_MAX - 3, "at"), SR_EDATA,
                "too large for a file");
    CHECK_OK(sr_file_pread(fd, bytes, 0, 10, "at"));
    close(fd);
}

static void folders(void) {
    char path[300];
    char **names;
    size_t count;
    snprintf(path, sizeof path, "%s/x//y/z/", scratch);
    CHECK_OK(sr_file_make_dirs(path));
    CHECK_OK(sr_file_make_dirs(path));
    CHECK(sr_file_is_dir(path) && file_exists(path));
    CHECK_FAILS(sr_file_make_dirs(""), SR_EINVAL, "empty");
    CHECK_OK(sr_file_replace(at("x/b"), "", 0));
    CHECK_OK(sr_file_replace(at("x/a"), "", 0));
    CHECK(file_exists(at("x/a")) && !sr_file_is_dir(at("x/a")));
    CHECK_FAILS(sr_file_make_dirs(at("x/a/c")), SR_EIO, "create the directory");
    CHECK_OK(sr_file_list(&names, &count, at("x")));
    CHECK(count == 3 && strcmp(names[0], "a") == 0 && strcmp(names[2], "y") == 0);
    sr_file_list_free(names, count);
    CHECK_FAILS(sr_file_list(&names, &count, at("none")), SR_ENOENT, "none: cannot list");
    CHECK(symlink(scratch, at("x/link")) == 0);
    CHECK_OK(sr_file_replace(at("keep"), "k", 1));
    CHECK_OK(sr_file_remove_tree(at("x")));
    CHECK(!file_exists(at("x")));
    CHECK(file_is(at("keep"), "k")); /* the link was not followed */
    CHECK_OK(sr_file_remove_tree(at("x")));
}

/* The n-th call fails; what is read and written goes in parts. */
static void inject(int n, int error, const char *name) {
    io_fail(n, error, name);
    io_faults.in_parts = true;
}

static size_t entries(const char *path) {
    char **names;
    size_t count;
    CHECK_OK(sr_file_list(&names, &count, path));
    sr_file_list_free(names, count);
    return count;
}

/* Fails every file operation of a replacement in turn: either the old or the new file is intact,
 * and the directory has no other files. */
static void failing_replacement(int error) {
    CHECK_OK(sr_file_make_dirs(at("swap")));
    for (int n = 1;; n++) {
        CHECK_OK(sr_file_replace(at("swap/f"), "old contents", 12));
        inject(n, error, NULL);
        sr_status st = sr_file_replace(at("swap/f"), "new contents", 12);
        int64_t made = io_faults.calls;
        io_sound();
        CHECK(entries(at("swap")) == 1);
        bool is_new = file_is(at("swap/f"), "new contents");
        CHECK(is_new || file_is(at("swap/f"), "old contents"));
        if (made < n) { /* no call failed */
            CHECK(st == SR_OK && is_new && made >= 12);
            return;
        }
        if (st == SR_OK) CHECK(made == n); /* a failure to close the directory is harmless */
        if (st != SR_OK) CHECK(strstr(sr_message(), strerror(error)) != NULL);
    }
}

static void failing_storage(void) {
    void *bytes;
    size_t size;
    failing_replacement(EIO);
    failing_replacement(ENOSPC);
    inject(1, ENOSPC, "write");
    CHECK_FAILS(sr_file_replace(at("full"), "x", 1), SR_EIO, "free some space");
    inject(1, EACCES, "open");
    CHECK_FAILS(sr_file_replace(at("no"), "x", 1), SR_EIO, "choose a writable");
    inject(1, EIO, "rename");
    CHECK_FAILS(sr_file_replace(at("no"), "x", 1), SR_EIO, "cannot replace");
    inject(0, 0, NULL);
    CHECK_FAILS(sr_file_replace(at("none/f"), "x", 1), SR_EIO,
                "none/f: cannot create a temporary file next to it: its directory does not exist");
    CHECK_FAILS(sr_file_replace(at("swap"), "x", 1), SR_EIO, "name a file, not a dir");
    CHECK_FAILS(sr_file_replace(at("swap/f/g"), "x", 1), SR_EIO, "part of the path is a file");
    inject(2, EIO, "read");
    CHECK_FAILS(sr_file_read(&bytes, &size, at("swap/f"), 99), SR_EIO, "cannot read");
    CHECK(bytes == NULL);
    inject(0, 0, NULL); /* three bytes at a time */
    CHECK(file_is(at("swap/f"), "new contents"));
    io_sound();
    CHECK(!file_exists(at("full")) && !file_exists(at("no")));
}

/* ---- every allocation of base fails in turn -------------------------------------------------- */

static sr_status use_everything(void) {
    void *bytes;
    size_t size, count;
    char **names;
    SR_TRY(sr_file_make_dirs(at("memory/deep")));
    SR_TRY(sr_file_replace(at("memory/file"), "text", 4));
    SR_TRY(sr_file_list(&names, &count, at("memory")));
    sr_file_list_free(names, count);
    SR_TRY(sr_file_read(&bytes, &size, at("memory/file"), 100));
    sr_free(bytes);
    sr_threads *team;
    SR_TRY(sr_threads_new(&team, 3));
    sr_threads_free(team);
    return sr_file_remove_tree(at("memory"));
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { TASKS = 1000 };
typedef struct {
    double partial[TASKS];
    _Atomic int runs[TASKS];
    _Atomic int bad_worker;
    sr_threads *team;
    int fail_from;
} sums;

static sr_status one_sum(void *context, int64_t i, int worker) {
    sums *s = context;
    if (worker < 0 || worker >= sr_threads_count(s->team)) s->bad_worker++;
    s->runs[i]++;
    double x = 0;
    for (int k = 1; k <= 200; k++) x += 1.0 / (double)(k + i);
    s->partial[i] = x;
    if (s->fail_from >= 0 && i >= s->fail_from && i % 7 == 0)
        return sr_fail(SR_EDATA, "task %d failed", (int)i);
    return SR_OK;
}

static double total(const sums *s) {
    double x = 0;
    for (int i = 0; i < TASKS; i++) x += s->partial[i];
    return x;
}

static void same_bits_on_any_number_of_threads(void) {
    const int threads[] = {1, 2, 3, 8};
    double first = 0;
    static sums s;
    for (int t = 0; t < 4; t++) {
        CHECK_OK(sr_threads_new(&s.team, threads[t]));
        CHECK(sr_threads_count(s.team) == threads[t]);
        s.fail_from = -1;
        memset(s.runs, 0, sizeof s.runs);
        for (int k = 0; k < 50; k++) CHECK_OK(sr_threads_run(s.team, one_sum, &s, TASKS));
        int wrong = 0;
        for (int i = 0; i < TASKS; i++) wrong += s.runs[i] != 50;
        CHECK(wrong == 0 && s.bad_worker == 0);
        if (t == 0) first = total(&s);
        double now = total(&s);
        CHECK(memcmp(&now, &first, sizeof now) == 0);
        /* task 301 = 7 x 43 is the first to fail, in any order of threads */
        s.fail_from = 300;
        for (int k = 0; k < 50; k++)
            CHECK_FAILS(sr_threads_run(s.team, one_sum, &s, TASKS), SR_EDATA, "task 301 failed");
        CHECK_OK(sr_threads_run(s.team, one_sum, &s, 300));
        CHECK_OK(sr_threads_run(s.team, one_sum, &s, 0));
        sr_threads_free(s.team);
    }
    s.team = NULL;
    s.fail_from = 300;
    CHECK_FAILS(sr_threads_run(NULL, one_sum, &s, TASKS), SR_EDATA, "task 301 failed");
}

static sr_status inner(void *context, int64_t i, int worker) {
    (void)i;
    const int *outer_worker = context;
    return worker == *outer_worker ? SR_OK : sr_fail(SR_EINTERNAL, "another worker");
}

static sr_status outer(void *context, int64_t i, int worker) {
    (void)i;
    return sr_threads_run(context, inner, &worker, 100);
}

static void nested_calls_stay_on_their_thread(void) {
    for (int threads = 1; threads <= 4; threads++) {
        sr_threads *team;
        CHECK_OK(sr_threads_new(&team, threads));
        CHECK_OK(sr_threads_run(team, outer, team, 500));
        CHECK_OK(sr_threads_run(team, outer, team, 1));
        sr_threads_free(team);
    }
}

static sr_status check_rounding(void *context, int64_t i, int worker) {
    (void)i, (void)worker;
    volatile float tiny = 1e-38f;
    *(_Atomic int *)context += tiny * 0.1f == 0.0f && worker > 0;
    return SR_OK;
}

/* Workers started under flush-to-zero compute with standard arithmetic nevertheless. */
static void workers_keep_small_numbers(void) {
    _Atomic int flushed = 0;
    sr_threads *team;
    unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040);
    CHECK_OK(sr_threads_new(&team, 4));
    CHECK_OK(sr_threads_run(team, check_rounding, &flushed, 10000));
    __builtin_ia32_ldmxcsr(before);
    CHECK(flushed == 0);
    sr_threads_free(team);
}

/* Returns NULL on success. */
static void *second_caller(void *context) {
    sums *s = context;
    for (int k = 0; k < 100; k++)
        if (sr_threads_run(s->team, one_sum, s, TASKS) != SR_OK) return context;
    return NULL;
}

static void two_callers_share_a_pool(void) {
    static sums a, b;
    pthread_t other;
    void *said;
    CHECK_OK(sr_threads_new(&a.team, 2));
    a.fail_from = b.fail_from = -1;
    b.team = a.team;
    CHECK(pthread_create(&other, NULL, second_caller, &b) == 0);
    CHECK(second_caller(&a) == NULL);
    pthread_join(other, &said);
    CHECK(said == NULL && total(&a) == total(&b));
    sr_threads_free(a.team);
}

static void pool_limits(void) {
    sr_threads *team;
    CHECK_FAILS(sr_threads_new(&team, -1), SR_EINVAL, "-1 is out of range");
    CHECK_FAILS(sr_threads_new(&team, 1 << 20), SR_EINVAL, "threads");
    CHECK_OK(sr_threads_new(&team, 0));
    CHECK(sr_threads_count(team) == sr_thread_default() && sr_thread_default() >= 1);
    sr_threads_free(team);
    CHECK(sr_threads_count(NULL) == 1);
    sr_stop_request();
    CHECK(sr_stop_requested());
    sr_stop_clear();
    CHECK(!sr_stop_requested());
}

/* ---- log ------------------------------------------------------------------------------------ */

static void keep_line(void *context, sr_log_level level, const char *line) {
    snprintf(context, 100, "%d %s", (int)level, line);
}

static void logging(void) {
    char seen[100] = "";
    sr_log(SR_LOG_ERROR, "nobody listens");
    sr_log_set(keep_line, seen, SR_LOG_WARN);
    sr_log(SR_LOG_INFO, "too quiet");
    CHECK(seen[0] == '\0');
    sr_log(SR_LOG_WARN, "passed over %s", "step-3");
    CHECK(strcmp(seen, "2 passed over step-3") == 0);
    sr_log_set(NULL, NULL, SR_LOG_DEBUG);
    sr_log(SR_LOG_ERROR, "nobody again");
    CHECK(strcmp(seen, "2 passed over step-3") == 0);
}

int main(void) {
    if (!scratch_begin()) return 1;
    statuses();
    known_answers();
    counters();
    dropout_columns();
    sizes();
    refused_allocations();
    reader_numbers();
    reader_claims();
    reading();
    reading_at();
    folders();
    failing_storage();
    for (int sticky = 0; sticky < 2; sticky++) CHECK_SPARED(sticky, use_everything());
    same_bits_on_any_number_of_threads();
    nested_calls_stay_on_their_thread();
    workers_keep_small_numbers();
    two_callers_share_a_pool();
    pool_limits();
    logging();
    scratch_end();
    return CHECK_DONE();
}
