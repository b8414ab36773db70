#include "core/base/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/base/thread.h"

enum { TICK_MS = 100 };
static const char STOP[4] = "stop";

struct sr_watch {
    pthread_t thread;
    int fd, done[2]; /* done: a pipe that finish() closes */
    double until;
    bool (*asked)(void);
    sr_watch_end end;
};

/* Whether the connection has sent "stop"; anything else waits until the work is done. */
static bool sent_stop(int fd) {
    char word[sizeof STOP];
    ssize_t n = recv(fd, word, sizeof word, MSG_PEEK | MSG_DONTWAIT);
    return n == (ssize_t)sizeof word && memcmp(word, STOP, sizeof STOP) == 0;
}

/* Waits until the end; the result stays SR_WATCH_DONE if finish() comes first. */
static sr_watch_end wait_for_end(const sr_watch *w) {
    bool reads = true;
    for (;;) {
        struct pollfd p[2] = {{.fd = w->done[0], .events = POLLIN},
                              {.fd = w->fd, .events = reads ? POLLIN : 0}};
        double left = (w->until - sr_time_monotonic()) * 1e3;
        int n = poll(p, 2, left < TICK_MS ? (left > 0 ? (int)left + 1 : 0) : TICK_MS);
        if (n < 0 && errno != EINTR) return SR_WATCH_DONE;
        if (n > 0 && p[0].revents != 0) return SR_WATCH_DONE;
        if (n > 0 && (p[1].revents & (POLLHUP | POLLERR)) != 0) return SR_WATCH_GONE;
        if (n > 0 && (p[1].revents & POLLIN) != 0) {
            if (sent_stop(w->fd)) return SR_WATCH_STOP;
            reads = false; /* else poll would return at once for data that nobody reads */
        } else {
            reads = true;
        }
        if (sr_time_monotonic() >= w->until) return SR_WATCH_TIME;
        if (w->asked != NULL && w->asked()) return SR_WATCH_ELSE;
    }
}

static void *watch(void *context) {
    sr_watch *w = context;
    w->end = wait_for_end(w);
    if (w->end != SR_WATCH_DONE) sr_stop_request();
    return NULL;
}

/* Signals are for the thread that works. */
static int start_thread(sr_watch *w) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&w->thread, NULL, watch, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

sr_status sr_watch_start(sr_watch **out, int fd, double seconds, bool (*asked)(void)) {
    sr_watch *w;
    *out = NULL;
    SR_TRY(sr_new(&w, 1));
    *w = (sr_watch){.fd = fd, .until = sr_time_monotonic() + seconds, .asked = asked};
    int error = pipe2(w->done, O_CLOEXEC) == 0 ? 0 : errno;
    if (error == 0 && (error = start_thread(w)) != 0) {
        close(w->done[0]);
        close(w->done[1]);
    }
    if (error != 0) {
        sr_free(w);
        return sr_fail(SR_EIO, "cannot limit the time of an expression: %s", strerror(error));
    }
    *out = w;
    return SR_OK;
}

sr_watch_end sr_watch_finish(sr_watch *w) {
    close(w->done[1]);
    pthread_join(w->thread, NULL);
    close(w->done[0]);
    sr_watch_end end = w->end;
    sr_stop_clear();
    sr_free(w);
    return end;
}
