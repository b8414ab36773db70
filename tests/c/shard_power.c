/* Power cuts while a data set is written: either the old or the new file is intact, and every fsync
 * of the protocol is needed for that. */
#include "core/data/shard.h"
#include "tests/support/scratch.h"
#include "tests/c/disk.h"

static const char *root, *crash, *path;

/* A file of 200 numbers that encode its version. */
static sr_status write_version(const char *to, uint32_t version) {
    sr_shard_writer *w;
    int column;
    SR_TRY(sr_shard_create(&w, to));
    sr_status st = sr_shard_add_column(w, &column, "version", SR_COLUMN_U32);
    for (int i = 0; st == SR_OK && i < 200; i++) st = sr_shard_append(w, column, &version, 1);
    if (st == SR_OK) return sr_shard_commit(w);
    sr_shard_abort(w);
    return st;
}

/* The version of a complete file; 0 if it is missing, -1 if it is damaged. */
static int64_t read_version(const char *from) {
    sr_shard *s;
    uint32_t value[200];
    sr_status st = sr_shard_open(&s, from, 1);
    if (st != SR_OK) return st == SR_ENOENT ? 0 : -1;
    st = sr_shard_read(s, sr_shard_column(s, "version"), value, 0, 200);
    for (int i = 1; i < 200; i++)
        if (st == SR_OK && value[i] != value[0]) st = SR_EDATA;
    sr_shard_close(s);
    return st == SR_OK ? (int64_t)value[0] : -1;
}

static void record(int drop) {
    disk_record(root, drop);
    for (uint32_t version = 1; version <= 2; version++)
        if (write_version(path, version) == SR_OK) disk_promise(version);
    disk_stop();
}

static void empty_crash(void) {
    CHECK_OK(sr_file_remove_tree(crash));
    CHECK_OK(sr_file_make_dirs(crash));
}

static int broken_promises(void) {
    int broken = 0;
    for (int k = 0; k <= disk.op_count; k++)
        for (int mode = 0; mode < 12; mode++) {
            empty_crash();
            int64_t promised = disk_crash(crash, k, mode, (uint64_t)k * 100 + (uint64_t)mode);
            int64_t version = read_version(at("crash/x.sqr"));
            broken += version < promised || version > 2;
        }
    return broken;
}

int main(void) {
    if (!scratch_begin()) return 1;
    root = at("disk"), crash = at("crash"), path = at("disk/x.sqr");
    CHECK_OK(sr_file_make_dirs(root));
    record(0);
    CHECK(read_version(path) == 2);
    CHECK(broken_promises() == 0);
    for (int drop = 1; drop <= 4;
         drop++) { /* two versions with two fsyncs each: file and directory */
        CHECK_OK(sr_file_remove_tree(path));
        record(drop);
        CHECK(broken_promises() > 0);
    }
    CHECK_OK(sr_file_remove_tree(path));
    record(5);
    CHECK(broken_promises() == 0); /* there is no fifth */
    scratch_end();
    return CHECK_DONE();
}
