/* checkpoint_files.c - all damage to a checkpoint is detected; locks, retention, planted files.
 */
#include <fcntl.h>

#include "core/base/log.h"
#include "core/store/manifest.h"
#include "tests/c/saves.h"

/* ---- damage ---------------------------------------------------------------------------------- */

/* Any flipped bit, any other length and a missing file are all detected. */
static void damage_file(const char *folder, const char *name) {
    char path[600];
    void *whole;
    size_t size, missed = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_OK(sr_file_read(&whole, &size, path, 1 << 20));
    char *bytes = malloc(size + 1);
    memcpy(bytes, whole, size);
    bytes[size] = 0;
    int fd = open(path, O_RDWR);
    for (size_t bit = 0; bit < size * 8; bit++) {
        char changed = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        CHECK(pwrite(fd, &changed, 1, (off_t)(bit / 8)) == 1);
        missed += sr_checkpoint_verify(NULL, folder) != SR_EDATA;
        CHECK(pwrite(fd, &bytes[bit / 8], 1, (off_t)(bit / 8)) == 1);
    }
    close(fd);
    for (size_t n = 0; n <= size + 1; n++) {
        if (n == size) continue;
        put_file(path, bytes, n);
        missed += sr_checkpoint_verify(NULL, folder) != SR_EDATA;
    }
    unlink(path);
    missed += sr_checkpoint_verify(NULL, folder) != SR_EDATA;
    put_file(path, bytes, size);
    CHECK(missed == 0);
    CHECK_OK(sr_checkpoint_verify(NULL, folder));
    free(bytes);
    sr_free(whole);
}

static int warnings;
static void count_warning(void *context, sr_log_level level, const char *line) {
    (void)context, (void)level, (void)line;
    warnings++;
}

static void test_damage(void) {
    char *run = at("crash/runs/a"), *path;
    int64_t step;
    empty("crash");
    OWN(sr_run_dir, *dir, sr_run_dir_open(&dir, run));
    CHECK(save(run, 10) == SR_OK && save(run, 20) == SR_OK);
    for (int i = 0; i < FILES; i++) damage_file(at("crash/runs/a/step-000000020"), files[i].name);
    damage_file(at("crash/runs/a/step-000000020"), SR_MANIFEST_NAME);

    /* a damaged newest one is skipped with a warning */
    put_file(at("crash/runs/a/step-000000020/vocab.txt"), "x", 1);
    warnings = 0;
    sr_log_set(count_warning, NULL, SR_LOG_WARN);
    CHECK_OK(sr_checkpoint_latest(&path, &step, run));
    CHECK(step == 10 && warnings == 1);
    sr_free(path);

    /* so is a file in its place */
    put_file(at("crash/runs/a/step-000000025"), "", 0);
    CHECK_OK(sr_checkpoint_latest(&path, &step, run));
    CHECK(step == 10 && warnings == 3);
    sr_free(path);
    CHECK_OK(sr_file_remove_tree(at("crash/runs/a/step-000000025")));
    put_file(at("crash/runs/a/step-000000010/MANIFEST"), "", 0);
    CHECK_FAILS(sr_checkpoint_latest(&path, &step, run), SR_EDATA, "none of its 2 checkpoints");
    CHECK_FAILS(sr_checkpoint_latest(&path, &step, at("crash/runs")), SR_ENOENT, "no checkpoint");

    /* a checkpoint under the name of another step is rejected */
    CHECK_OK(save(run, 30));
    CHECK_OK(sr_file_rename(at("crash/runs/a/step-000000030"), at("crash/runs/a/step-000000031")));
    CHECK_FAILS(sr_checkpoint_latest(&path, &step, run), SR_EDATA, "none of its 3");

    /* after a resume at an older step, later checkpoints are set aside */
    CHECK_OK(sr_checkpoint_set_aside(run, 10));
    int64_t *steps;
    size_t count;
    CHECK_OK(sr_checkpoint_list(&steps, &count, run));
    CHECK(count == 1 && steps[0] == 10);
    sr_free(steps);
    sr_log_set(NULL, NULL, SR_LOG_WARN);
}

/* Forged manifests. */
static void test_hostile_manifests(void) {
    static const char huge[] = "seqrun checkpoint 1\nstep 1\nfile 18446744073709551615 "
                               "00000000000000000000000000000000 a\nblock 0000000000000000\n";
    static const char *const texts[] = {
        "",
        "\n",
        "seqrun checkpoint 1\nstep 1\n",
        "seqrun checkpoint one\nstep 1\nend 00000000000000000000000000000000\n",
        "seqrun checkpoint 1\nstep -1\nend 00000000000000000000000000000000\n",
        "seqrun checkpoint 1\nstep 99999999999999999999\nend 0\n",
        huge,
        "seqrun checkpoint 1\nstep 1\nfile 1 00000000000000000000000000000000 ../a\n",
        "seqrun checkpoint 1\nstep 1\nfile 1 00000000000000000000000000000000 /etc/passwd\n",
        "seqrun checkpoint 1\nstep 1\nfile 01 00000000000000000000000000000000 a\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sr_manifest *m;
        CHECK_FAILS(sr_manifest_parse(&m, texts[i], strlen(texts[i]), "M"), SR_EDATA, "M: line");
        CHECK(m == NULL);
    }
    sr_manifest *later;
    CHECK_FAILS(sr_manifest_parse(&later, "seqrun checkpoint 2\nstep 1\n", 27, "M"), SR_EDATA,
                "format version 2 is not 1");
    static const char *const names[] = {"..",  "a/..", ".hidden", "/a",       "a//b", "a/b/c",
                                        "a b", "",     "a\n",     "MANIFEST", "a/.b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_FAILS(sr_manifest_check_name(names[i]), SR_EINVAL, "is not a valid file name");
    char first[] = "a", second[] = "b";
    sr_manifest_file two[] = {{.name = first}, {.name = second}};
    sr_manifest given = {.files = two, .count = 2}, *read;
    for (int same = 0; same < 2; same++) { /* with a valid checksum */
        char *text;
        size_t size;
        if (same) two[1].name = first;
        CHECK_OK(sr_manifest_print(&text, &size, &given));
        CHECK(sr_manifest_parse(&read, text, size, "M") == (same ? SR_EDATA : SR_OK));
        sr_manifest_free(read);
        sr_free(text);
    }
}

/* ---- lock, retention, planted files ---------------------------------------------------------- */

static void test_lock(void) {
    sr_run_dir *dir, *second;
    char *run = at("crash/runs/a"), who[64];
    empty("crash");
    CHECK_OK(sr_run_dir_open(&dir, run));
    snprintf(who, sizeof who, "process %d on ", (int)getpid());
    CHECK_FAILS(sr_run_dir_open(&second, run), SR_ELOCK, who);
    CHECK(second == NULL && sr_exit_code(SR_ELOCK) == 5);
    bool held = false;
    CHECK_OK(sr_run_dir_held(&held, run));
    CHECK(held);
    sr_run_dir_close(dir);
    CHECK_OK(sr_run_dir_held(&held, run));
    CHECK(!held);
    CHECK_OK(sr_run_dir_held(&held, "no/such/run"));
    CHECK(!held);
    CHECK_OK(sr_run_dir_open(&second, run));
    sr_run_dir_close(second);
}

static void test_retention(void) {
    char *run = at("crash/runs/a");
    int64_t *steps;
    size_t count;
    empty("crash");
    OWN(sr_run_dir, *dir, sr_run_dir_open(&dir, run));
    for (int64_t step = 1; step <= 7; step++) {
        CHECK_OK(save(run, step));
        CHECK_OK(sr_checkpoint_retain(run, step, 2, 3));
    }
    CHECK_OK(sr_checkpoint_list(&steps, &count, run));
    CHECK(count == 3 && steps[0] == 3 && steps[1] == 6 && steps[2] == 7);
    sr_free(steps);
    CHECK_OK(sr_checkpoint_retain(run, 6, 2, 0)); /* later ones are not touched */
    CHECK_OK(sr_checkpoint_list(&steps, &count, run));
    CHECK(count == 3);
    sr_free(steps);
    CHECK_FAILS(sr_checkpoint_retain(run, 7, 1, 0), SR_EINVAL, "at least 2");
    mkdir(at("crash/runs/a/step-7"), 0700); /* not the name of a checkpoint */
    mkdir(at("crash/runs/a/step-0000000070"), 0700);
    CHECK_OK(sr_checkpoint_list(&steps, &count, run));
    CHECK(count == 3);
    sr_free(steps);
}

static void test_planted(void) {
    OWNED(sr_run_dir) *dir;
    char *run = at("crash/runs/a");
    empty("crash");
    mkdir(at("crash/runs"), 0700);
    mkdir(run, 0700);
    put_file(at("crash/victim"), "mine", 4);
    CHECK(symlink("../../victim", at("crash/runs/a/lock")) == 0);
    CHECK_FAILS(sr_run_dir_open(&dir, run), SR_EIO, "lock");
    unlink(at("crash/runs/a/lock"));
    mkdir(at("crash/elsewhere"), 0700);
    put_file(at("crash/elsewhere/file"), "mine", 4);
    CHECK(symlink("../../elsewhere", at("crash/runs/a/.trash-x")) == 0);
    put_file(at("crash/runs/a/.x.tmp-01234567"), "left by a dead run", 18);
    put_file(at("crash/runs/a/.x.tmp-notahexx"), "mine", 4);
    CHECK_OK(sr_run_dir_open(&dir, run)); /* the link is removed, its target is not */
    CHECK(!file_exists(at("crash/runs/a/.x.tmp-01234567")));
    CHECK(file_exists(at("crash/runs/a/.x.tmp-notahexx")));
    CHECK(file_exists(at("crash/elsewhere/file")) && file_exists(at("crash/victim")));
    CHECK(!file_exists(at("crash/runs/a/.trash-x")));
    OWNED(sr_saving) *saving;
    CHECK_FAILS(sr_saving_begin(&saving, run, 1, UINT64_MAX / 4), SR_EIO, "are needed");
    CHECK_OK(sr_saving_begin(&saving, run, 1, 100));
    CHECK_FAILS(sr_saving_file(saving, "../x", "x", 1), SR_EINVAL, "is not a valid file name");
    CHECK_FAILS(sr_saving_open(saving, "a", 3) == SR_OK ? sr_saving_write(saving, "abcd", 4)
                                                        : SR_OK,
                SR_EINTERNAL, "more bytes");
    CHECK_FAILS(sr_saving_close(saving), SR_EINTERNAL, "fewer bytes");
}

int main(void) {
    if (!scratch_begin()) return 1;
    int64_t live = sr_mem_live();
    test_damage();
    test_hostile_manifests();
    test_lock();
    test_retention();
    test_planted();
    CHECK(sr_mem_live() == live);
    scratch_end();
    return CHECK_DONE();
}
