/* disk.h - records file operations and builds the states that a power cut may leave.
 *
 * disk_record() replaces sr_io: every call is passed to a real directory and logged as an operation
 * on numbered inodes.  disk_crash() then builds, in another directory, a state that the first k
 * operations may have left after a power cut:
 *
 *   - everything that was fsynced: the bytes of a file by an fsync of the file, the names in a
 *     directory by an fsync of the directory
 *   - any subset of the rest: each 512-byte sector of a write, each growth of a file, each name
 *     created, moved or removed
 *
 * This is harsher than real file systems, but allowed by POSIX.  Optionally the n-th fsync is
 * skipped while the caller sees a success.
 */
#pragma once

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/io.h"

enum { DISK_OPS = 20000, DISK_NODES = 4000, DISK_FDS = 1024, DISK_NAMES = 8000, DISK_SECTOR = 512 };

typedef enum disk_kind {
    DISK_NAME,    /* dir, name, node: creates the name */
    DISK_NO_NAME, /* dir, name, node: removes it */
    DISK_MOVE,    /* dir, name -> to, node: atomically */
    DISK_SWAP,    /* dir, name, to; node, other */
    DISK_WRITE,   /* node, at, bytes */
    DISK_GROW,    /* node, at = new size */
    DISK_SYNC,    /* node: file or directory */
    DISK_PROMISE, /* at: the step that the program promised */
} disk_kind;

typedef struct disk_op {
    disk_kind kind;
    int dir, node, other;
    char name[80], to[80];
    int64_t at;
    size_t size;
    char *bytes;
} disk_op;

typedef struct disk_entry {
    int dir, node;
    char name[80];
} disk_entry;

/* The log, and the tree as the program sees it. */
static struct {
    char root[200]; /* real directory of node 0 */
    disk_op ops[DISK_OPS];
    int op_count;
    bool is_dir[DISK_NODES];
    int64_t size[DISK_NODES];
    int node_count;
    disk_entry entries[DISK_NAMES];
    int entry_count;
    int fd_node[DISK_FDS];
    int64_t fd_at[DISK_FDS];
    int syncs;     /* fsyncs seen */
    int drop;      /* number of the fsync to skip, from 1; 0: none */
    bool in_probe; /* between creation and removal of the probe file */
    int exempt;    /* fsyncs of the probe, which need no protection */
    bool drop_exempt;
    int drop_at; /* operations before it */
} disk;

static sr_io disk_real;

/* ---- the tree -------------------------------------------------------------------------------- */

static int disk_find(const disk_entry *entries, int count, int dir, const char *name) {
    for (int i = 0; i < count; i++)
        if (entries[i].dir == dir && strcmp(entries[i].name, name) == 0) return i;
    return -1;
}

/* Splits a path below the root: *dir is the node of its directory, name its last part.  False for a
 * path outside, or in a missing directory. */
static bool disk_split(int *dir, char name[80], const char *path) {
    size_t n = strlen(disk.root);
    *dir = 0;
    name[0] = '\0';
    if (strncmp(path, disk.root, n) != 0 || (path[n] != '/' && path[n] != '\0')) return false;
    for (path += n; *path == '/'; path++) {
    }
    while (*path != '\0') {
        size_t length = strcspn(path, "/");
        snprintf(name, 80, "%.*s", (int)length, path);
        for (path += length; *path == '/'; path++) {
        }
        if (*path == '\0') return true;
        int i = disk_find(disk.entries, disk.entry_count, *dir, name);
        if (i < 0) return false;
        *dir = disk.entries[i].node;
    }
    return true;
}

/* The node of a path, or -1. */
static int disk_node(const char *path) {
    int dir;
    char name[80];
    if (!disk_split(&dir, name, path)) return -1;
    if (name[0] == '\0') return 0;
    int i = disk_find(disk.entries, disk.entry_count, dir, name);
    return i < 0 ? -1 : disk.entries[i].node;
}

static void disk_remove(disk_entry *entries, int *count, int i) {
    entries[i] = entries[--*count];
}

static void disk_set(disk_entry *entries, int *count, int dir, const char *name, int node) {
    int i = disk_find(entries, *count, dir, name);
    if (i < 0) i = (*count)++;
    assert(*count < DISK_NAMES);
    entries[i].dir = dir;
    entries[i].node = node;
    snprintf(entries[i].name, sizeof entries[i].name, "%s", name);
}

/* Applies one change of names to the program's tree or to a crashed one. */
static void disk_apply(disk_entry *entries, int *count, const disk_op *op) {
    int i = disk_find(entries, *count, op->dir, op->name);
    bool same = i >= 0 && entries[i].node == op->node;
    switch (op->kind) {
    case DISK_NAME:
        disk_set(entries, count, op->dir, op->name, op->node);
        break;
    case DISK_NO_NAME:
        if (same) disk_remove(entries, count, i);
        break;
    case DISK_MOVE:
        if (same) disk_remove(entries, count, i);
        disk_set(entries, count, op->dir, op->to, op->node);
        break;
    case DISK_SWAP:
        disk_set(entries, count, op->dir, op->name, op->other);
        disk_set(entries, count, op->dir, op->to, op->node);
        break;
    default:
        break;
    }
}

static disk_op *disk_log(disk_kind kind, int dir, const char *name, int node) {
    assert(disk.op_count < DISK_OPS);
    disk_op *op = &disk.ops[disk.op_count++];
    *op = (disk_op){.kind = kind, .dir = dir, .node = node};
    if (name != NULL) snprintf(op->name, sizeof op->name, "%s", name);
    return op;
}

static int disk_new_node(bool is_dir) {
    assert(disk.node_count < DISK_NODES);
    disk.is_dir[disk.node_count] = is_dir;
    disk.size[disk.node_count] = 0;
    return disk.node_count++;
}

static void disk_new_name(int dir, const char *name, bool is_dir) {
    disk_op *op = disk_log(DISK_NAME, dir, name, disk_new_node(is_dir));
    disk_apply(disk.entries, &disk.entry_count, op);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static int disk_open(const char *path, int flags, unsigned mode) {
    int dir, fd = disk_real.open(path, flags, mode);
    char name[80];
    if (fd < 0) return fd;
    assert(fd < DISK_FDS);
    disk.fd_node[fd] = -1;
    disk.fd_at[fd] = 0;
    if (!disk_split(&dir, name, path)) return fd;
    if (strstr(path, "probe") != NULL) disk.in_probe = true;
    if (disk_node(path) < 0) disk_new_name(dir, name, false);
    disk.fd_node[fd] = disk_node(path);
    return fd;
}

static ssize_t disk_write(int fd, const void *bytes, size_t size) {
    ssize_t n = disk_real.write(fd, bytes, size);
    int node = disk.fd_node[fd];
    if (n <= 0 || node < 0) return n;
    disk_op *op = disk_log(DISK_WRITE, 0, NULL, node);
    op->at = disk.fd_at[fd];
    op->size = (size_t)n;
    op->bytes = malloc((size_t)n);
    memcpy(op->bytes, bytes, (size_t)n);
    disk.fd_at[fd] += n;
    if (disk.fd_at[fd] > disk.size[node]) disk.size[node] = disk.fd_at[fd];
    return n;
}

static int disk_fallocate(int fd, off_t size) {
    int rc = disk_real.fallocate(fd, size), node = disk.fd_node[fd];
    if (rc != 0 || node < 0) return rc;
    disk_log(DISK_GROW, 0, NULL, node)->at = size;
    if (size > disk.size[node]) disk.size[node] = size;
    return rc;
}

static int disk_fsync(int fd) {
    int node = disk.fd_node[fd];
    if (node < 0) return 0;
    disk.syncs++;
    if (disk.in_probe) disk.exempt++;
    if (disk.syncs == disk.drop) {
        disk.drop_exempt = disk.in_probe;
        disk.drop_at = disk.op_count;
        return 0; /* a lie */
    }
    disk_log(DISK_SYNC, 0, NULL, node);
    return 0; /* the real directory need not be synced */
}

static int disk_rename(const char *from, const char *to) {
    int dir, there;
    char name[80], last[80];
    bool known = disk_split(&dir, name, from) && disk_split(&there, last, to);
    int node = disk_node(from), rc = disk_real.rename(from, to);
    if (rc != 0 || !known) return rc;
    assert(dir == there);
    disk_op *op = disk_log(DISK_MOVE, dir, name, node);
    snprintf(op->to, sizeof op->to, "%s", last);
    disk_apply(disk.entries, &disk.entry_count, op);
    return rc;
}

static int disk_exchange(const char *a, const char *b) {
    int dir, there;
    char name[80], last[80];
    bool known = disk_split(&dir, name, a) && disk_split(&there, last, b);
    int node = disk_node(a), other = disk_node(b), rc = disk_real.exchange(a, b);
    if (rc != 0 || !known) return rc;
    disk_op *op = disk_log(DISK_SWAP, dir, name, node);
    op->other = other;
    snprintf(op->to, sizeof op->to, "%s", last);
    disk_apply(disk.entries, &disk.entry_count, op);
    return rc;
}

static int disk_mkdir(const char *path, unsigned mode) {
    int dir, rc = disk_real.mkdir(path, mode);
    char name[80];
    if (rc == 0 && disk_split(&dir, name, path)) disk_new_name(dir, name, true);
    return rc;
}

static int disk_gone(const char *path, int rc) {
    int dir, node = disk_node(path);
    char name[80];
    if (rc != 0 || node < 0 || !disk_split(&dir, name, path)) return rc;
    if (strstr(path, "probe") != NULL) disk.in_probe = false;
    disk_op *op = disk_log(DISK_NO_NAME, dir, name, node);
    disk_apply(disk.entries, &disk.entry_count, op);
    return rc;
}

static int disk_unlink(const char *path) {
    return disk_gone(path, disk_real.unlink(path));
}

static int disk_rmdir(const char *path) {
    return disk_gone(path, disk_real.rmdir(path));
}

/* Starts recording in the (empty) real directory `root`, skipping fsync number `drop`. */
static void disk_record(const char *root, int drop) {
    for (int i = 0; i < disk.op_count; i++) free(disk.ops[i].bytes);
    memset(&disk, 0, sizeof disk);
    snprintf(disk.root, sizeof disk.root, "%s", root);
    for (int i = 0; i < DISK_FDS; i++) disk.fd_node[i] = -1;
    disk_new_node(true);
    disk.drop = drop;
    disk_real = sr_io_now;
    sr_io_now.open = disk_open;
    sr_io_now.write = disk_write;
    sr_io_now.fallocate = disk_fallocate;
    sr_io_now.fsync = disk_fsync;
    sr_io_now.rename = disk_rename;
    sr_io_now.exchange = disk_exchange;
    sr_io_now.mkdir = disk_mkdir;
    sr_io_now.unlink = disk_unlink;
    sr_io_now.rmdir = disk_rmdir;
}

static void disk_stop(void) {
    sr_io_now = disk_real;
}

static void disk_promise(int64_t what) {
    disk_log(DISK_PROMISE, 0, NULL, -1)->at = what;
}

/* ---- power cuts ------------------------------------------------------------------------------ */

static uint64_t disk_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Is operation i made durable by an fsync of `node` among operations i + 1 .. k - 1? */
static bool disk_synced(int i, int k, int node) {
    for (int j = i + 1; j < k; j++)
        if (disk.ops[j].kind == DISK_SYNC && disk.ops[j].node == node) return true;
    return false;
}

typedef struct disk_crashed {
    disk_entry entries[DISK_NAMES];
    int entry_count;
    char *bytes[DISK_NODES];
    int64_t size[DISK_NODES];
} disk_crashed;

static void disk_survive_write(disk_crashed *c, const disk_op *op, bool durable, uint64_t *random) {
    for (size_t at = 0; at < op->size;) {
        size_t left = DISK_SECTOR - (size_t)(op->at + (int64_t)at) % DISK_SECTOR;
        size_t n = op->size - at < left ? op->size - at : left;
        if (durable || (disk_random(random) & 1))
            memcpy(c->bytes[op->node] + op->at + at, op->bytes + at, n);
        at += n;
    }
    int64_t end = op->at + (int64_t)op->size;
    bool grown = durable || (disk_random(random) & 1);
    if (grown && end > c->size[op->node]) c->size[op->node] = end;
}

static void disk_build(const disk_crashed *c, int dir, const char *path) {
    for (int i = 0; i < c->entry_count; i++) {
        if (c->entries[i].dir != dir) continue;
        char below[512];
        int node = c->entries[i].node;
        snprintf(below, sizeof below, "%.300s/%s", path, c->entries[i].name);
        if (disk.is_dir[node]) {
            mkdir(below, 0700);
            disk_build(c, node, below);
            continue;
        }
        int fd = open(below, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert(fd >= 0);
        if (c->size[node] > 0)
            assert(write(fd, c->bytes[node], (size_t)c->size[node]) == c->size[node]);
        close(fd);
    }
}

/* Builds in the empty directory `to` a state that the first k operations may have left; returns the
 * last promise among them (0: none).  `mode` 0 loses everything that is not durable, 1 keeps it
 * all, other values decide at random by `seed`. */
static int64_t disk_crash(const char *to, int k, int mode, uint64_t seed) {
    static disk_crashed c;
    uint64_t random = seed * 0x9E3779B97F4A7C15u + 88172645463325252u, all = ~(uint64_t)0;
    int64_t promise = 0;
    c.entry_count = 0;
    for (int i = 0; i < disk.node_count; i++) {
        c.size[i] = 0;
        c.bytes[i] = disk.is_dir[i] ? NULL : calloc(1, (size_t)disk.size[i] + 1);
    }
    for (int i = 0; i < k; i++) {
        const disk_op *op = &disk.ops[i];
        bool of_names = op->kind <= DISK_SWAP;
        bool durable = disk_synced(i, k, of_names ? op->dir : op->node);
        uint64_t keep = mode == 0 ? 0 : mode == 1 ? all : disk_random(&random);
        if (of_names && (durable || (keep & 1))) disk_apply(c.entries, &c.entry_count, op);
        if (op->kind == DISK_GROW && (durable || (keep & 1)) && op->at > c.size[op->node])
            c.size[op->node] = op->at;
        if (op->kind == DISK_WRITE && (mode != 0 || durable))
            disk_survive_write(&c, op, durable || mode == 1, &random);
        if (op->kind == DISK_PROMISE) promise = op->at;
    }
    disk_build(&c, 0, to);
    for (int i = 0; i < disk.node_count; i++) {
        free(c.bytes[i]);
        c.bytes[i] = NULL;
    }
    return promise;
}
