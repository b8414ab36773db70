#include "core/store/alarm.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/system.h"

extern char **environ;

enum { TICK_NS = 100 * 1000 * 1000, TEXTS = 3 };

struct sr_alarm {
    sr_append *file;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t closing;
    bool closed, armed, told;
    double until;
    char *text[TEXTS]; /* warning, record, command */
};

static void forget(sr_alarm *a) {
    for (int i = 0; i < TEXTS; i++) {
        sr_free(a->text[i]);
        a->text[i] = NULL;
    }
}

/* The command ends at once if it runs beside us, as "... &" does. */
static void run_command(char *command) {
    char shell[] = "sh", option[] = "-c";
    char *argv[] = {shell, option, command, NULL};
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child;
    sigemptyset(&none); /* this thread blocks all */
    int error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        error = posix_spawn(&child, "/bin/sh", NULL, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    if (error != 0) {
        sr_log(SR_LOG_WARN, "the command of alert.run cannot be started: %s", strerror(error));
        return;
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
}

static void tell(sr_alarm *a) {
    sr_log(SR_LOG_WARN, "%s", a->text[0]);
    if (sr_append_write(a->file, a->text[1], strlen(a->text[1])) != SR_OK)
        sr_log(SR_LOG_WARN, "%s", sr_message());
    if (a->text[2] != NULL) run_command(a->text[2]);
    a->armed = false;
    a->told = true;
}

/* Looks every tick, so that arming costs no more than a lock. */
static void *wait_beside(void *context) {
    sr_alarm *a = context;
    pthread_mutex_lock(&a->lock);
    while (!a->closed) {
        if (a->armed && sr_time_monotonic() >= a->until) tell(a);
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&a->closing, &a->lock, &until);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

sr_status sr_alarm_new(sr_alarm **out, sr_append *file) {
    *out = NULL;
    sr_alarm *a;
    SR_TRY(sr_new(&a, 1));
    a->file = file;
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_t monotonic; /* a clock that is set does not delay it */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&a->closing, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigset_t all, before;
    sigfillset(&all); /* signals are for the thread that works */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&a->thread, NULL, wait_beside, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        pthread_cond_destroy(&a->closing);
        pthread_mutex_destroy(&a->lock);
        sr_free(a);
        return sr_fail(SR_EIO, "cannot start a thread for alerts: %s", strerror(error));
    }
    *out = a;
    return SR_OK;
}

sr_status sr_alarm_arm(sr_alarm *a, double seconds, const char *warning, const char *record,
                       const char *command) {
    const char *given[TEXTS] = {warning, record, command};
    sr_status st = SR_OK;
    pthread_mutex_lock(&a->lock);
    a->armed = a->told = false;
    forget(a);
    for (int i = 0; st == SR_OK && i < TEXTS; i++)
        if (given[i] != NULL) st = sr_strdup(&a->text[i], given[i]);
    a->until = sr_time_monotonic() + seconds;
    a->armed = st == SR_OK;
    pthread_mutex_unlock(&a->lock);
    return st;
}

bool sr_alarm_disarm(sr_alarm *a) {
    pthread_mutex_lock(&a->lock);
    bool told = a->told;
    a->armed = a->told = false;
    pthread_mutex_unlock(&a->lock);
    return told;
}

void sr_alarm_free(sr_alarm *a) {
    if (a == NULL) return;
    pthread_mutex_lock(&a->lock);
    a->closed = true;
    pthread_cond_signal(&a->closing);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->closing);
    pthread_mutex_destroy(&a->lock);
    forget(a);
    sr_free(a);
}
