/* checkpoint_ranks.c - a checkpoint whose files several processes write is one checkpoint, or none.
 */
#include "tests/c/disk.h"

#include "tests/support/fail.h"
#include "tests/support/io_faults.h"
#include "tests/c/saves.h"

/* What was written by the process that joins: the optimizer's file; the other writes the rest. */
enum { THEIRS = 3 };

static sr_status write_file(sr_saving *s, int64_t step, int i) {
    char bytes[4096];
    contents(bytes, step, i);
    return sr_saving_file(s, files[i].name, bytes, files[i].size);
}

/* The report of a process that joins, freed by the caller. */
static sr_status join_and_write(char **report, size_t *size, const char *draft, int64_t step) {
    TRY_OWN(sr_saving, *s, sr_saving_join(&s, draft, step));
    SR_TRY(write_file(s, step, THEIRS));
    return sr_saving_report(report, size, s);
}

static sr_status write_together(sr_saving *s, int64_t step) {
    char *report = NULL;
    size_t size;
    sr_status st = join_and_write(&report, &size, sr_saving_draft(s), step);
    for (int i = 0; i < FILES && st == SR_OK; i++)
        if (i != THEIRS) st = write_file(s, step, i);
    if (st == SR_OK) st = sr_saving_adopt(s, report, size);
    sr_free(report);
    return st == SR_OK ? sr_saving_commit(s) : st;
}

static sr_status save_together(const char *run, int64_t step) {
    TRY_OWN(sr_saving, *s, sr_saving_begin(&s, run, step, 6000));
    return write_together(s, step);
}

static void test_together(const char *run) {
    char *path;
    CHECK_OK(save_together(run, 10));
    CHECK(holds(at("run/step-000000010"), 10));
    CHECK(unlink(at("run/step-000000010/trainer/optim.safetensors")) == 0);
    int64_t step;
    CHECK_FAILS(sr_checkpoint_latest(&path, &step, run), SR_EDATA, "optim.safetensors");
}

static void test_reports(const char *run) {
    sr_saving *s, *other;
    char *report;
    size_t size;
    CHECK_OK(sr_saving_begin(&s, run, 20, 6000));
    CHECK_OK(sr_saving_join(&other, sr_saving_draft(s), 20));
    CHECK_FAILS(sr_saving_commit(other), SR_EINTERNAL, "out of order");
    CHECK_FAILS(sr_saving_adopt(other, "", 0), SR_EINTERNAL, "out of order");
    sr_saving_end(other);
    CHECK_OK(join_and_write(&report, &size, sr_saving_draft(s), 21));
    CHECK_FAILS(sr_saving_adopt(s, report, size), SR_EDATA, "step 21");
    sr_free(report);
    CHECK_FAILS(sr_saving_adopt(s, "nothing", 7), SR_EDATA, "corrupt");
    sr_saving_end(s);
    CHECK_OK(sr_saving_begin(&s, run, 20, 6000));
    CHECK_OK(join_and_write(&report, &size, sr_saving_draft(s), 20));
    CHECK_OK(sr_saving_adopt(s, report, size));
    CHECK_FAILS(sr_saving_adopt(s, report, size), SR_EINVAL, "duplicate");
    report[40] ^= 1;
    CHECK_FAILS(sr_saving_adopt(s, report, size), SR_EDATA, "corrupt");
    sr_free(report);
    sr_saving_end(s);
}

/* ---- a disk that fails ----------------------------------------------------------------------- */

/* A full disk at any call of either process: the checkpoint before is left, and no draft. */
static void test_full_disk(const char *run) {
    bool reached = true;
    CHECK_OK(save_together(run, 50));
    int n = 1;
    for (; reached; n++) {
        io_fail(n, ENOSPC, NULL);
        sr_status st = save_together(run, 60);
        reached = io_faults.calls >= n;
        io_sound();
        CHECK((st == SR_OK) == !reached || file_exists(at("run/step-000000060")));
        CHECK(holds(at("run/step-000000050"), 50));
        sr_file_remove_tree(at("run/step-000000060"));
    }
    CHECK(n > 20);
}

/* Three saves; the last one repeats a step. */
static void test_power_cuts(void) {
    static const int64_t steps[] = {10, 20, 20};
    sr_run_dir *dir;
    int64_t tried = 0;
    empty("disk");
    disk_record(at("disk"), 0);
    CHECK_OK(sr_run_dir_open(&dir, at("disk/runs/a")));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(save_together(at("disk/runs/a"), steps[i]));
        disk_promise(steps[i]);
    }
    sr_run_dir_close(dir);
    disk_stop();
    bool good = true;
    for (int k = 0; k <= disk.op_count && good; k++)
        for (int s = 0; s < 12 && good; s++, tried++) {
            empty("crash");
            int64_t promised = disk_crash(at("crash"), k, s, (uint64_t)k * 1000 + (uint64_t)s);
            good = survives(at("crash/runs/a"), promised);
        }
    CHECK(good && tried > 1000);
}

static void test_failing_memory(const char *run) {
    sr_status st;
    CHECK_OK(save_together(run, 30));
    int64_t live = sr_mem_live();
    STARVE(st, false, save_together(run, 40)) {
        CHECK(sr_mem_live() == live && holds(at("run/step-000000030"), 30));
        CHECK(file_exists(at("run/step-000000040")) == (st == SR_OK));
    }
    CHECK(holds(at("run/step-000000040"), 40));
}

int main(void) {
    if (!scratch_begin()) return 1;
    int64_t live = sr_mem_live();
    char *run = at("run");
    sr_run_dir *dir;
    CHECK_OK(sr_run_dir_open(&dir, run));
    test_together(run);
    test_reports(run);
    test_failing_memory(run);
    test_full_disk(run);
    sr_run_dir_close(dir);
    test_power_cuts();
    CHECK(sr_mem_live() == live);
    scratch_end();
    return CHECK_DONE();
}
