/* clock.c - preloaded into a program, lets its clocks jump: build/tests/clock.so.
 *
 *   CLOCK_SEED   which jumps
 *   CLOCK_EVERY  a jump at one of this many looks at the clock, on average (default 8)
 *
 * The clock of the day jumps backwards and forwards, by up to ten years; the monotonic one only
 * forwards, by up to an hour, as on a machine that slept.  Clocks of processor time stay right.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t day, passed; /* seconds that are added */

static uint64_t draw(void) {
    static uint64_t looks;
    const char *seed = getenv("CLOCK_SEED");
    uint64_t x = __atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
    x += (seed != NULL ? strtoull(seed, NULL, 10) : 0) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void jump_maybe(void) {
    enum { HOUR = 3600, TEN_YEARS = 10 * 365 * 24 * HOUR };
    const char *every = getenv("CLOCK_EVERY");
    uint64_t x = draw();
    if (x % (every != NULL ? strtoull(every, NULL, 10) : 8) != 0) return;
    __atomic_store_n(&day, (int64_t)(x >> 20) % (2 * TEN_YEARS) - TEN_YEARS, __ATOMIC_RELAXED);
    __atomic_add_fetch(&passed, (int64_t)(x >> 20) % HOUR, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    int rc = (int)syscall(SYS_clock_gettime, clock, t);
    if (rc != 0) return rc;
    jump_maybe();
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        t->tv_sec += __atomic_load_n(&day, __ATOMIC_RELAXED);
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME)
        t->tv_sec += __atomic_load_n(&passed, __ATOMIC_RELAXED);
    return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) *out = now.tv_sec;
    return now.tv_sec;
}
