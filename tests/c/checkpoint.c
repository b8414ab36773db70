/* checkpoint.c - neither a failing disk nor a power cut can lose a checkpoint.
 *
 * CRASH_STATES sets the number of power cuts tried at each operation (default 24). */
#include "tests/c/disk.h"

#include "tests/support/fail.h"
#include "tests/support/io_faults.h"
#include "tests/c/saves.h"

/* ---- the saves of a run ---------------------------------------------------------------------- */

/* Five saves with retention; the last one repeats an earlier step. */
static sr_status scenario(const char *run) {
    static const int64_t steps[] = {10, 20, 30, 40, 40};
    TRY_OWN(sr_run_dir, *dir, sr_run_dir_open(&dir, run));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        SR_TRY(save(run, steps[i]));
        disk_promise(steps[i]);
        SR_TRY(sr_checkpoint_retain(run, steps[i], 2, 0));
    }
    return SR_OK;
}

static sr_status record(int drop) {
    empty("disk");
    disk_record(at("disk"), drop);
    sr_status st = scenario(at("disk/runs/a"));
    disk_stop();
    return st;
}

/* Tries power cuts at every operation (after a skipped fsync: from there on); returns how many
 * broke a promise, at most `enough`. */
static int cut_everywhere(int states, int enough, bool recover, int64_t *tried) {
    int broken = 0;
    for (int k = disk.drop_at; k <= disk.op_count && broken < enough; k++)
        for (int s = 0; s < states && broken < enough; s++) {
            empty("crash");
            int64_t promised = disk_crash(at("crash"), k, s, (uint64_t)k * 1000 + (uint64_t)s);
            bool good = survives(at("crash/runs/a"), promised);
            if (good && recover && s == 2) good = recovers(at("crash/runs/a"), promised);
            if (!good && enough == 1 && recover)
                printf("broken: cut %d at operation %d, promised %d: %s\n", s, k, (int)promised,
                       sr_message());
            if (!good) broken++;
            ++*tried;
        }
    return broken;
}

static void test_power_cuts(void) {
    const char *text = getenv("CRASH_STATES");
    int states = text != NULL ? atoi(text) : 24;
    int64_t tried = 0;
    CHECK_OK(record(0));
    CHECK(cut_everywhere(states, 1, true, &tried) == 0);
    printf("power cuts: %d operations, %lld states\n", disk.op_count, (long long)tried);
}

/* Every fsync is needed: without it, some power cut breaks a promise. */
static void test_dropped_fsyncs(void) {
    CHECK_OK(record(0));
    int syncs = disk.syncs, needed = 0, exempt = 0;
    for (int n = 1; n <= syncs; n++) {
        int64_t tried = 0;
        CHECK_OK(record(n));
        exempt += disk.drop_exempt;
        if (disk.drop_exempt) continue;
        int broken = cut_everywhere(6, 1, false, &tried);
        if (broken == 0) broken = cut_everywhere(60, 1, false, &tried);
        if (broken == 0) printf("nothing broke without fsync %d\n", n);
        CHECK(broken > 0);
        needed++;
    }
    CHECK(exempt == 2 && needed == syncs - 2);
    printf("fsyncs: %d needed, %d of the probe\n", needed, exempt);
}

/* ---- the order of writes --------------------------------------------------------------------- */

/* True if `node` has no write, growth or name after its last fsync before operation k. */
static bool is_durable(int node, int k) {
    for (int i = k - 1; i >= 0; i--) {
        const disk_op *op = &disk.ops[i];
        if (op->kind == DISK_SYNC && op->node == node) return true;
        if (op->kind == DISK_NO_NAME && op->name[0] == '.')
            continue; /* removal of a draft or of trash */
        if (op->kind <= DISK_SWAP ? op->dir == node : op->node == node) return false;
    }
    return true;
}

/* True if everything below `dir`, by the names created before operation k, is durable. */
static bool is_tree_durable(int dir, int k) {
    bool good = is_durable(dir, k);
    for (int i = 0; i < k && good; i++)
        if (disk.ops[i].kind == DISK_NAME && disk.ops[i].dir == dir)
            good = disk.is_dir[disk.ops[i].node] ? is_tree_durable(disk.ops[i].node, k)
                                                 : is_durable(disk.ops[i].node, k);
    return good;
}

static void test_order(void) {
    int published = 0, promised = 0, run = -1;
    CHECK_OK(record(0));
    for (int k = 0; k < disk.op_count; k++) {
        const disk_op *op = &disk.ops[k];
        bool to_step = strncmp(op->to, "step-", 5) == 0;
        if ((op->kind == DISK_MOVE || op->kind == DISK_SWAP) && to_step) {
            CHECK(is_tree_durable(op->node, k));
            run = op->dir;
            published++;
        }
        if (op->kind == DISK_PROMISE) {
            CHECK(run >= 0 && is_durable(run, k));
            promised++;
        }
        if (op->kind == DISK_NO_NAME && op->dir != run && run >= 0) CHECK(is_durable(run, k));
    }
    CHECK(published == 5 && promised == 5);
}

/* ---- failing calls --------------------------------------------------------------------------- */

static sr_status save_and_retain(const char *run, int64_t step) {
    SR_TRY(save(run, step));
    return sr_checkpoint_retain(run, step, 2, 0);
}

/* One save with a fault in call n; returns false if n is beyond the last call. */
static bool save_with_fault(int n, int error, bool on) {
    sr_run_dir *dir;
    char *run = at("crash/runs/a");
    empty("crash");
    CHECK_OK(sr_run_dir_open(&dir, run));
    CHECK(save(run, 10) == SR_OK && save(run, 20) == SR_OK);
    io_fail(n, error, NULL);
    io_faults.on = on;
    sr_status st = save_and_retain(run, 30);
    bool reached = io_faults.calls >= n, again = io_faults.again;
    io_sound();
    bool harmless = error == EINTR || error == 0;
    CHECK(!harmless || st == SR_OK);
    CHECK(!again);
    CHECK(survives(run, st == SR_OK ? 30 : 20));
    CHECK(save_and_retain(run, 40) == SR_OK && survives(run, 40)); /* the next save works */
    sr_run_dir_close(dir);
    CHECK(recovers(run, 40));
    return reached;
}

static void test_failing_calls(void) {
    static const int errors[] = {EIO, ENOSPC, EROFS, EMFILE, EINTR, 0};
    int points = 0;
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        int n = 1;
        while (save_with_fault(n, errors[e], false)) n++;
        points += n - 1;
    }
    int n = 1;
    while (save_with_fault(n, EIO, true)) n++;
    points += n - 1;
    printf("failing calls: %d points\n", points);
}

/* Starting a run under a fault gives an error or a complete run, never a partial one. */
static void test_failing_start(void) {
    for (int n = 1, reached = 1; reached; n++) {
        sr_run_dir *dir = NULL;
        empty("crash");
        io_fail(n, EIO, NULL);
        sr_status st = sr_run_dir_open(&dir, at("crash/runs/a"));
        reached = io_faults.calls >= n;
        io_sound();
        CHECK((st == SR_OK) == (dir != NULL));
        sr_run_dir_close(dir);
        CHECK_OK(sr_run_dir_open(&dir, at("crash/runs/a")));
        sr_run_dir_close(dir);
    }
}

static void test_failing_memory(void) {
    char *run = at("crash/runs/a");
    empty("crash");
    OWN(sr_run_dir, *dir, sr_run_dir_open(&dir, run));
    CHECK_OK(save(run, 10));
    sr_status st;
    int64_t live = sr_mem_live();
    STARVE(st, false, save(run, 20))
    CHECK(sr_mem_live() == live && survives(run, st == SR_OK ? 20 : 10));
}

int main(void) {
    if (!scratch_begin()) return 1;
    int64_t live = sr_mem_live();
    test_order();
    test_power_cuts();
    test_dropped_fsyncs();
    test_failing_calls();
    test_failing_start();
    test_failing_memory();
    CHECK(sr_mem_live() == live);
    scratch_end();
    return CHECK_DONE();
}
