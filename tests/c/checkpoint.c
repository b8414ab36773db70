/* checkpoint.c - nothing that a failing disk or a power cut does loses a checkpoint, and no damage
 * to one goes unnoticed.
 *
 * CRASH_STATES sets how many power cuts are tried at each operation (default 24). */
#include <stdarg.h>

#include "tests/support/disk.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/train/checkpoint.h"
#include "core/train/manifest.h"
#include "core/train/saving.h"
#include "tests/support/check.h"

static char base[100]; /* a folder of our own, in memory where there is one */

/* A path below it; the same path is the same pointer, valid to the end. */
static char *at(const char *format, ...) {
    static char *texts[64];
    char text[400];
    int n = snprintf(text, sizeof text, "%s/", base), i = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    while (texts[i] != NULL && strcmp(texts[i], text) != 0) i++;
    if (texts[i] == NULL) texts[i] = strdup(text);
    return texts[i];
}

/* ---- a small checkpoint ----------------------------------------------------------------------
 */

static const struct {
    const char *name;
    size_t size;
} files[] = {
    {"config.json", 120},       {"model.safetensors", 2600},
    {"vocab.txt", 300},         {"trainer/optim.safetensors", 1900},
    {"trainer/state.json", 77},
};
enum { FILES = sizeof files / sizeof *files };

/* The bytes of a file are a function of the step and its number. */
static void contents(char *bytes, int64_t step, int file) {
    uint64_t random = (uint64_t)step * 1000 + (uint64_t)file + 7;
    for (size_t i = 0; i < files[file].size; i++) bytes[i] = (char)disk_random(&random);
}

static sr_status fill(sr_saving *saving, int64_t step) {
    char bytes[4096];
    for (int i = 0; i < FILES; i++) {
        contents(bytes, step, i);
        size_t half = files[i].size / 2;
        SR_TRY(sr_saving_open(saving, files[i].name, files[i].size));
        SR_TRY(sr_saving_write(saving, bytes, half));
        SR_TRY(sr_saving_write(saving, bytes + half, files[i].size - half));
        SR_TRY(sr_saving_close(saving));
    }
    return sr_saving_commit(saving);
}

static sr_status save(const char *run, int64_t step) {
    sr_saving *saving;
    SR_TRY(sr_saving_begin(&saving, run, step, 6000));
    sr_status st = fill(saving, step);
    sr_saving_end(saving);
    return st;
}

/* A checkpoint verifies and holds what was saved. */
static bool holds(const char *path, int64_t step) {
    int64_t found = -1;
    if (sr_checkpoint_verify(&found, path) != SR_OK || found != step) return false;
    for (int i = 0; i < FILES; i++) {
        char wanted[4096], name[600];
        void *bytes;
        size_t size;
        contents(wanted, step, i);
        snprintf(name, sizeof name, "%s/%s", path, files[i].name);
        if (sr_file_read(&bytes, &size, name, 1 << 20) != SR_OK) return false;
        bool same = size == files[i].size && memcmp(bytes, wanted, size) == 0;
        sr_free(bytes);
        if (!same) return false;
    }
    return true;
}

/* ---- what a run does -------------------------------------------------------------------------
 */

/* Five saves with retention, the last of them of a step saved before. */
static sr_status scenario(const char *run) {
    static const int64_t steps[] = {10, 20, 30, 40, 40};
    sr_run_dir *dir;
    SR_TRY(sr_run_dir_open(&dir, run));
    sr_status st = SR_OK;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && st == SR_OK; i++) {
        st = save(run, steps[i]);
        if (st != SR_OK) break;
        disk_promise(steps[i]);
        st = sr_checkpoint_retain(run, steps[i], 2, 0);
    }
    sr_run_dir_close(dir);
    return st;
}

/* What must hold of any state after a power cut: the promised step, or a later one, is the newest
 * that verifies, and whatever bears a step's name is whole. */
static bool survives(const char *run, int64_t promised) {
    char *path = NULL;
    int64_t step = 0, *steps;
    size_t count;
    sr_status st = sr_checkpoint_latest(&path, &step, run);
    bool good = st == SR_OK ? step >= promised && holds(path, step) : st == SR_ENOENT && !promised;
    sr_free(path);
    if (!good || st != SR_OK) return good;
    if (sr_checkpoint_list(&steps, &count, run) != SR_OK) return false;
    for (size_t i = 0; i < count; i++)
        good = good && holds(at("crash/runs/a/step-%09d", (int)steps[i]), steps[i]);
    sr_free(steps);
    return good;
}

/* The next start cleans up, loses nothing, and can save. */
static bool recovers(const char *run, int64_t promised) {
    sr_run_dir *dir;
    if (sr_run_dir_open(&dir, run) != SR_OK) return false;
    bool good = survives(run, promised);
    char **names = NULL;
    size_t count = 0;
    good = good && sr_file_list(&names, &count, run) == SR_OK;
    for (size_t i = 0; good && i < count; i++) good = names[i][0] != '.';
    sr_file_list_free(names, count);
    good = good && save(run, 50) == SR_OK && survives(run, 50);
    sr_run_dir_close(dir);
    return good;
}

static void empty(const char *name) {
    sr_file_remove_tree(at("%s", name));
    mkdir(at("%s", name), 0700);
}

static sr_status record(int drop) {
    empty("disk");
    disk_record(at("disk"), drop);
    sr_status st = scenario(at("disk/runs/a"));
    disk_stop();
    return st;
}

/* Tries power cuts at every operation (after a dropped fsync: from there); returns how many broke a
 * promise, at most `enough`. */
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

/* Every fsync matters: without it some power cut breaks a promise. */
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

/* ---- the order of writes ---------------------------------------------------------------------
 */

/* No write, growth or name in `node` after its last fsync before operation k. */
static bool is_settled(int node, int k) {
    for (int i = k - 1; i >= 0; i--) {
        const disk_op *op = &disk.ops[i];
        if (op->kind == DISK_SYNC && op->node == node) return true;
        if (op->kind == DISK_NO_NAME && op->name[0] == '.') continue; /* a draft or trash goes */
        if (op->kind <= DISK_SWAP ? op->dir == node : op->node == node) return false;
    }
    return true;
}

/* All that lies below `dir` by the names made before operation k is settled. */
static bool is_tree_settled(int dir, int k) {
    bool good = is_settled(dir, k);
    for (int i = 0; i < k && good; i++)
        if (disk.ops[i].kind == DISK_NAME && disk.ops[i].dir == dir)
            good = disk.is_dir[disk.ops[i].node] ? is_tree_settled(disk.ops[i].node, k)
                                                 : is_settled(disk.ops[i].node, k);
    return good;
}

static void test_order(void) {
    int published = 0, promised = 0, run = -1;
    CHECK_OK(record(0));
    for (int k = 0; k < disk.op_count; k++) {
        const disk_op *op = &disk.ops[k];
        bool to_step = strncmp(op->to, "step-", 5) == 0;
        if ((op->kind == DISK_MOVE || op->kind == DISK_SWAP) && to_step) {
            CHECK(is_tree_settled(op->node, k));
            run = op->dir;
            published++;
        }
        if (op->kind == DISK_PROMISE) {
            CHECK(run >= 0 && is_settled(run, k));
            promised++;
        }
        if (op->kind == DISK_NO_NAME && op->dir != run && run >= 0) CHECK(is_settled(run, k));
    }
    CHECK(published == 5 && promised == 5);
}

/* ---- failing calls ---------------------------------------------------------------------------
 */

static struct {
    int calls, at;                   /* the at-th call fails, */
    bool on;                         /* and, when on, all later ones */
    int error;                       /* with this errno; 0: a write is cut short */
    int failed_syncs;                /* descriptors whose fsync failed, */
    bool failed_fd[DISK_FDS], again; /* and whether one was synced again */
} faults;

static sr_io sound;

/* Calls that a signal may interrupt. */
static bool fails(bool interruptible) {
    faults.calls++;
    bool hit =
        faults.at > 0 && (faults.calls == faults.at || (faults.on && faults.calls > faults.at));
    if (!hit || (faults.error == EINTR && !interruptible) || faults.error == 0) return false;
    errno = faults.error;
    return true;
}

static int fault_open(const char *p, int f, unsigned m) {
    int fd = fails(true) ? -1 : sound.open(p, f, m);
    if (fd >= 0 && fd < DISK_FDS) faults.failed_fd[fd] = false;
    return fd;
}
static ssize_t fault_pread(int fd, void *b, size_t n, off_t o) {
    return fails(true) ? -1 : sound.pread(fd, b, n, o);
}
static ssize_t fault_read(int fd, void *b, size_t n) {
    return fails(true) ? -1 : sound.read(fd, b, n);
}
static ssize_t fault_write(int fd, const void *b, size_t n) {
    if (fails(true)) return -1;
    bool cut = faults.error == 0 && faults.calls >= faults.at && faults.at > 0 && n > 1;
    return sound.write(fd, b, cut ? (n + 1) / 2 : n);
}
static int fault_fsync(int fd) {
    if (faults.failed_fd[fd]) faults.again = true;
    if (!fails(true)) return sound.fsync(fd);
    if (faults.error != EINTR) faults.failed_fd[fd] = true;
    return -1;
}
static int fault_close(int fd) {
    int rc = sound.close(fd); /* the descriptor is gone in either case */
    return fails(true) ? -1 : rc;
}
static int fault_rename(const char *a, const char *b) {
    return fails(false) ? -1 : sound.rename(a, b);
}
static int fault_exchange(const char *a, const char *b) {
    return fails(false) ? -1 : sound.exchange(a, b);
}
static int fault_mkdir(const char *p, unsigned m) {
    return fails(false) ? -1 : sound.mkdir(p, m);
}
static int fault_unlink(const char *p) {
    return fails(false) ? -1 : sound.unlink(p);
}
static int fault_rmdir(const char *p) {
    return fails(false) ? -1 : sound.rmdir(p);
}
static int fault_fallocate(int fd, off_t n) {
    return fails(true) ? -1 : sound.fallocate(fd, n);
}
static int fault_flock(int fd, int o) {
    return fails(true) ? -1 : sound.flock(fd, o);
}
static int fault_space(const char *p, uint64_t *n) {
    return fails(false) ? -1 : sound.space(p, n);
}

static void arm(int at_call, int error, bool on) {
    memset(&faults, 0, sizeof faults);
    faults.at = at_call;
    faults.error = error;
    faults.on = on;
    sr_io_now = (sr_io){
        .open = fault_open,
        .pread = fault_pread,
        .read = fault_read,
        .write = fault_write,
        .fsync = fault_fsync,
        .close = fault_close,
        .rename = fault_rename,
        .exchange = fault_exchange,
        .mkdir = fault_mkdir,
        .unlink = fault_unlink,
        .rmdir = fault_rmdir,
        .fallocate = fault_fallocate,
        .ftruncate = sound.ftruncate,
        .flock = fault_flock,
        .space = fault_space,
    };
}

static sr_status save_and_retain(const char *run, int64_t step) {
    SR_TRY(save(run, step));
    return sr_checkpoint_retain(run, step, 2, 0);
}

/* One save with a fault in call n; returns false when n lies beyond the last call. */
static bool save_with_fault(int n, int error, bool on) {
    sr_run_dir *dir;
    char *run = at("crash/runs/a");
    empty("crash");
    CHECK_OK(sr_run_dir_open(&dir, run));
    CHECK(save(run, 10) == SR_OK && save(run, 20) == SR_OK);
    arm(n, error, on);
    sr_status st = save_and_retain(run, 30);
    bool reached = faults.calls >= n, again = faults.again;
    sr_io_now = sound;
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

/* Starting a run: a fault leaves an error or a run, never half of one. */
static void test_failing_start(void) {
    for (int n = 1, reached = 1; reached; n++) {
        sr_run_dir *dir = NULL;
        empty("crash");
        arm(n, EIO, false);
        sr_status st = sr_run_dir_open(&dir, at("crash/runs/a"));
        reached = faults.calls >= n;
        sr_io_now = sound;
        CHECK((st == SR_OK) == (dir != NULL));
        sr_run_dir_close(dir);
        CHECK_OK(sr_run_dir_open(&dir, at("crash/runs/a")));
        sr_run_dir_close(dir);
    }
}

static void test_failing_memory(void) {
    sr_run_dir *dir;
    char *run = at("crash/runs/a");
    empty("crash");
    CHECK_OK(sr_run_dir_open(&dir, run));
    CHECK_OK(save(run, 10));
    sr_status st = SR_ENOMEM;
    for (int64_t n = 1; st != SR_OK && n < 2000; n++) {
        int64_t live = sr_mem_live();
        sr_mem_fail_at(n, false);
        st = save(run, 20);
        sr_mem_fail_at(0, false);
        CHECK(st == SR_OK || st == SR_ENOMEM);
        CHECK(sr_mem_live() == live);
        CHECK(survives(run, st == SR_OK ? 20 : 10));
    }
    CHECK(st == SR_OK);
    sr_run_dir_close(dir);
}

/* ---- damage ----------------------------------------------------------------------------------
 */

static void put_file(const char *path, const void *bytes, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

/* Every bit flipped, every length but its own, and no file at all: each is noticed. */
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
    sr_run_dir *dir;
    char *run = at("crash/runs/a"), *path;
    int64_t step;
    empty("crash");
    CHECK_OK(sr_run_dir_open(&dir, run));
    CHECK(save(run, 10) == SR_OK && save(run, 20) == SR_OK);
    for (int i = 0; i < FILES; i++) damage_file(at("crash/runs/a/step-000000020"), files[i].name);
    damage_file(at("crash/runs/a/step-000000020"), SR_MANIFEST_NAME);

    /* a damaged newest one is passed over, loudly */
    put_file(at("crash/runs/a/step-000000020/vocab.txt"), "x", 1);
    warnings = 0;
    sr_log_set(count_warning, NULL, SR_LOG_WARN);
    CHECK_OK(sr_checkpoint_latest(&path, &step, run));
    CHECK(step == 10 && warnings == 1);
    sr_free(path);
    put_file(at("crash/runs/a/step-000000010/MANIFEST"), "", 0);
    CHECK_FAILS(sr_checkpoint_latest(&path, &step, run), SR_EDATA, "none of its 2 checkpoints");
    CHECK_FAILS(sr_checkpoint_latest(&path, &step, at("crash/runs")), SR_ENOENT, "no checkpoint");

    /* a checkpoint under another step's name is not that step */
    CHECK_OK(save(run, 30));
    CHECK_OK(sr_file_rename(at("crash/runs/a/step-000000030"), at("crash/runs/a/step-000000031")));
    CHECK_FAILS(sr_checkpoint_latest(&path, &step, run), SR_EDATA, "none of its 3");

    /* after a resume at an older step, the later ones are set aside */
    CHECK_OK(sr_checkpoint_set_aside(run, 10));
    int64_t *steps;
    size_t count;
    CHECK_OK(sr_checkpoint_list(&steps, &count, run));
    CHECK(count == 1 && steps[0] == 10);
    sr_free(steps);
    sr_log_set(NULL, NULL, SR_LOG_WARN);
    sr_run_dir_close(dir);
}

/* Manifests that somebody made up. */
static void test_hostile_manifests(void) {
    static const char *const texts[] = {
        "",
        "\n",
        "seqrun checkpoint 1\nstep 1\n",
        "seqrun checkpoint 2\nstep 1\nend 00000000000000000000000000000000\n",
        "seqrun checkpoint 1\nstep -1\nend 00000000000000000000000000000000\n",
        "seqrun checkpoint 1\nstep 99999999999999999999\nend 0\n",
        "seqrun checkpoint 1\nstep 1\nfile 18446744073709551615 "
        "00000000000000000000000000000000 a\nblock 0000000000000000\n",
        "seqrun checkpoint 1\nstep 1\nfile 1 00000000000000000000000000000000 ../a\n",
        "seqrun checkpoint 1\nstep 1\nfile 1 00000000000000000000000000000000 /etc/passwd\n",
        "seqrun checkpoint 1\nstep 1\nfile 01 00000000000000000000000000000000 a\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sr_manifest *m;
        CHECK_FAILS(sr_manifest_parse(&m, texts[i], strlen(texts[i]), "M"), SR_EDATA, "M: line");
        CHECK(m == NULL);
    }
    static const char *const names[] = {"..",  "a/..", ".hidden", "/a",       "a//b", "a/b/c",
                                        "a b", "",     "a\n",     "MANIFEST", "a/.b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_FAILS(sr_manifest_check_name(names[i]), SR_EINVAL, "cannot be the name");
}

/* ---- lock, retention, planted files ----------------------------------------------------------
 */

static void test_lock(void) {
    sr_run_dir *dir, *second;
    char *run = at("crash/runs/a"), who[64];
    empty("crash");
    CHECK_OK(sr_run_dir_open(&dir, run));
    snprintf(who, sizeof who, "process %d on ", (int)getpid());
    CHECK_FAILS(sr_run_dir_open(&second, run), SR_ELOCK, who);
    CHECK(second == NULL && sr_exit_code(SR_ELOCK) == 5);
    sr_run_dir_close(dir);
    CHECK_OK(sr_run_dir_open(&second, run));
    sr_run_dir_close(second);
}

static void test_retention(void) {
    sr_run_dir *dir;
    char *run = at("crash/runs/a");
    int64_t *steps;
    size_t count;
    empty("crash");
    CHECK_OK(sr_run_dir_open(&dir, run));
    for (int64_t step = 1; step <= 7; step++) {
        CHECK_OK(save(run, step));
        CHECK_OK(sr_checkpoint_retain(run, step, 2, 3));
    }
    CHECK_OK(sr_checkpoint_list(&steps, &count, run));
    CHECK(count == 3 && steps[0] == 3 && steps[1] == 6 && steps[2] == 7);
    sr_free(steps);
    CHECK_FAILS(sr_checkpoint_retain(run, 7, 1, 0), SR_EINVAL, "at least 2");
    mkdir(at("crash/runs/a/step-7"), 0700); /* not a name of ours */
    mkdir(at("crash/runs/a/step-0000000070"), 0700);
    CHECK_OK(sr_checkpoint_list(&steps, &count, run));
    CHECK(count == 3);
    sr_free(steps);
    sr_run_dir_close(dir);
}

static void test_planted(void) {
    sr_run_dir *dir;
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
    CHECK_OK(sr_run_dir_open(&dir, run)); /* the link goes, what it pointed at stays */
    CHECK(sr_file_exists(at("crash/elsewhere/file")) && sr_file_exists(at("crash/victim")));
    CHECK(!sr_file_exists(at("crash/runs/a/.trash-x")));
    sr_saving *saving;
    CHECK_FAILS(sr_saving_begin(&saving, run, 1, UINT64_MAX / 4), SR_EIO, "are needed");
    CHECK_OK(sr_saving_begin(&saving, run, 1, 100));
    CHECK_FAILS(sr_saving_file(saving, "../x", "x", 1), SR_EINVAL, "cannot be the name");
    CHECK_FAILS(sr_saving_open(saving, "a", 3) == SR_OK ? sr_saving_write(saving, "abcd", 4)
                                                        : SR_OK,
                SR_EINTERNAL, "more bytes");
    CHECK_FAILS(sr_saving_close(saving), SR_EINTERNAL, "fewer bytes");
    sr_saving_end(saving);
    sr_run_dir_close(dir);
}

int main(void) {
    bool memory = access("/dev/shm", W_OK) == 0;
    snprintf(base, sizeof base, "%s/seqrun-checkpoint-XXXXXX", memory ? "/dev/shm" : "/tmp");
    if (mkdtemp(base) == NULL) return perror(base), 1;
    sound = sr_io_now;
    int64_t live = sr_mem_live();
    test_order();
    test_power_cuts();
    test_dropped_fsyncs();
    test_failing_calls();
    test_failing_start();
    test_failing_memory();
    test_damage();
    test_hostile_manifests();
    test_lock();
    test_retention();
    test_planted();
    CHECK(sr_mem_live() == live);
    sr_file_remove_tree(base);
    return CHECK_DONE();
}
