/* socket.c - local sockets, the watch that ends work early, and the limit on allocations. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/base/limit.h"
#include "core/base/socket.h"
#include "core/base/system.h"
#include "core/base/thread.h"
#include "core/base/watch.h"
#include "tests/support/fail.h"
#include "tests/support/scratch.h"

static mode_t mode_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? st.st_mode & 0777 : 0;
}

/* ---- directories ----------------------------------------------------------------------------- */

static void folders_are_private(void) {
    char path[SR_SOCKET_PATH], wanted[256], long_name[200];
    CHECK_OK(sr_socket_folder(path, scratch));
    snprintf(wanted, sizeof wanted, "%s/seqrun", scratch);
    CHECK(strcmp(path, wanted) == 0);
    CHECK(mode_of(path) == 0700);
    CHECK_OK(sr_socket_folder(path, scratch));

    CHECK(chmod(wanted, 0755) == 0); /* others may enter: another one is taken */
    CHECK_OK(sr_socket_folder(path, scratch));
    CHECK(strcmp(path, wanted) != 0 && mode_of(path) == 0700);
    CHECK(rmdir(wanted) == 0 && symlink("/tmp", wanted) == 0);
    CHECK_OK(sr_socket_folder(path, scratch));
    CHECK(strcmp(path, wanted) != 0);
    CHECK(unlink(wanted) == 0);

    memset(long_name, 'x', sizeof long_name);
    long_name[0] = '/', long_name[sizeof long_name - 1] = '\0';
    const char *odd[] = {NULL, "", "relative", long_name, "/missing/directory"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        CHECK_OK(sr_socket_folder(path, odd[i]));
        CHECK(strlen(path) + 27 < SR_SOCKET_PATH && mode_of(path) == 0700);
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

typedef struct pair {
    int listener, here, there;
} pair;

static pair connected(void) {
    pair p;
    CHECK_OK(sr_socket_listen(&p.listener, at("s")));
    CHECK_OK(sr_socket_connect(&p.there, at("s")));
    CHECK_OK(sr_socket_accept(&p.here, p.listener));
    CHECK(p.here >= 0);
    return p;
}

static void disconnect(pair p) {
    sr_socket_close(p.here);
    sr_socket_close(p.there);
    sr_socket_close(p.listener);
    unlink(at("s"));
}

static void bytes_arrive(void) {
    pair p = connected();
    char bytes[16];
    size_t n;
    bool open;
    CHECK(mode_of(at("s")) == 0600);
    int other;
    CHECK_OK(sr_socket_accept(&other, p.listener));
    CHECK(other == -1);
    CHECK_OK(sr_socket_read(&n, &open, p.here, bytes, sizeof bytes));
    CHECK(n == 0 && open);
    CHECK(!sr_socket_wait(p.here, false, 0));
    CHECK_OK(sr_socket_write(&n, p.there, "hello", 5));
    CHECK(n == 5 && sr_socket_wait(p.here, false, 1));
    CHECK_OK(sr_socket_read(&n, &open, p.here, bytes, sizeof bytes));
    CHECK(n == 5 && memcmp(bytes, "hello", 5) == 0);
    sr_socket_close(p.there);
    p.there = -1;
    CHECK_OK(sr_socket_read(&n, &open, p.here, bytes, sizeof bytes));
    CHECK(n == 0 && !open);
    CHECK_FAILS(sr_socket_write(&n, p.here, "gone", 4), SR_EPEER, "has closed");
    disconnect(p);
}

static void a_full_socket_does_not_block(void) {
    pair p = connected();
    static char block[1 << 16];
    size_t n = 1, total = 0;
    while (n > 0 && total < (1u << 26)) {
        CHECK_OK(sr_socket_write(&n, p.here, block, sizeof block));
        total += n;
    }
    CHECK(n == 0 && total > 0);
    CHECK(!sr_socket_wait(p.here, true, 0));
    disconnect(p);
}

static void failures_say_where(void) {
    int fd;
    char path[SR_SOCKET_PATH + 1];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    CHECK_FAILS(sr_socket_listen(&fd, path), SR_EINVAL, "1 to 107 bytes, got 108");
    CHECK_FAILS(sr_socket_connect(&fd, ""), SR_EINVAL, "got 0");
    CHECK_FAILS(sr_socket_connect(&fd, at("nobody")), SR_ENOENT, "no process listens");
    CHECK_FAILS(sr_socket_listen(&fd, "/proc/nowhere/s"), SR_ENOENT, "cannot create");
    CHECK(fd == -1);
}

/* After kill -9 the name stays: nobody listens, and the next run replaces it. */
static void a_stale_socket_is_replaced(void) {
    int fd, there;
    CHECK_OK(sr_socket_listen(&fd, at("s")));
    sr_socket_close(fd);
    CHECK_FAILS(sr_socket_connect(&there, at("s")), SR_ENOENT, "no process listens");
    disconnect(connected());
}

/* ---- the watch ------------------------------------------------------------------------------- */

static bool stops_within(double seconds) {
    for (double until = sr_time_monotonic() + seconds; sr_time_monotonic() < until; usleep(1000))
        if (sr_stop_requested()) return true;
    return false;
}

static bool yes(void) {
    return true;
}

static void a_watch_ends_work(void) {
    sr_watch *w;
    pair p = connected();
    size_t n;
    CHECK_OK(sr_watch_start(&w, p.here, 100, NULL));
    CHECK(sr_watch_finish(w) == SR_WATCH_DONE && !sr_stop_requested());
    CHECK_OK(sr_watch_start(&w, -1, 0.02, NULL));
    CHECK(stops_within(120));
    CHECK(sr_watch_finish(w) == SR_WATCH_TIME && !sr_stop_requested());
    CHECK_OK(sr_watch_start(&w, -1, 100, yes));
    CHECK(stops_within(120));
    CHECK(sr_watch_finish(w) == SR_WATCH_ELSE);

    CHECK_OK(sr_socket_write(&n, p.there, "eval 1 2", 8)); /* waits until the work is done */
    CHECK_OK(sr_watch_start(&w, p.here, 100, NULL));
    CHECK(!stops_within(0.05));
    CHECK(sr_watch_finish(w) == SR_WATCH_DONE);
    char bytes[16];
    bool open;
    CHECK_OK(sr_socket_read(&n, &open, p.here, bytes, sizeof bytes));
    CHECK(n == 8);

    CHECK_OK(sr_socket_write(&n, p.there, "stop 1", 6));
    CHECK_OK(sr_watch_start(&w, p.here, 100, NULL));
    CHECK(stops_within(120));
    CHECK(sr_watch_finish(w) == SR_WATCH_STOP);
    /* Left unread, "stop" would end the next watch as well. */
    CHECK_OK(sr_socket_read(&n, &open, p.here, bytes, sizeof bytes));
    CHECK(n == 6);
    CHECK_OK(sr_watch_start(&w, p.here, 100, NULL));
    sr_socket_close(p.there);
    p.there = -1;
    CHECK(stops_within(120));
    CHECK(sr_watch_finish(w) == SR_WATCH_GONE);
    disconnect(p);
}

static void a_watch_survives_no_memory(void) {
    sr_watch *w;
    int64_t live = sr_mem_live();
    sr_mem_fail_at(1, false);
    CHECK_FAILS(sr_watch_start(&w, -1, 1, NULL), SR_ENOMEM, "out of memory");
    sr_mem_fail_at(0, false);
    CHECK(w == NULL && sr_mem_live() == live);
}

/* ---- the limit ------------------------------------------------------------------------------- */

static void allocations_have_a_limit(void) {
    char *a, *b;
    void *aligned;
    sr_mem_limit(1 << 20);
    CHECK_OK(sr_new(&a, 1 << 19));
    CHECK_FAILS(sr_new(&b, (1 << 19) + 1), SR_ENOMEM, "the limit leaves 524288");
    CHECK_FAILS(sr_alloc_aligned(&aligned, 1 << 20), SR_ENOMEM, "leaves 524288");
    CHECK_OK(sr_alloc_aligned(&aligned, 1 << 18));
    sr_mem_limit(-1);
    CHECK_OK(sr_new(&b, 1 << 22));
    sr_free(a);
    sr_free(b);
    sr_free_aligned(aligned);
}

int main(void) {
    if (!scratch_begin()) return 1;
    folders_are_private();
    bytes_arrive();
    a_full_socket_does_not_block();
    failures_say_where();
    a_stale_socket_is_replaced();
    a_watch_ends_work();
    a_watch_survives_no_memory();
    allocations_have_a_limit();
    CHECK(rmdir(scratch) == 0);
    return CHECK_DONE();
}
