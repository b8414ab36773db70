#include "core/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sr_log_sink current_sink;
static void *current_context;
static sr_log_level current_least;

void sr_log_set(sr_log_sink sink, void *context, sr_log_level least) {
    pthread_mutex_lock(&lock);
    current_sink = sink;
    current_context = context;
    current_least = least;
    pthread_mutex_unlock(&lock);
}

void sr_log(sr_log_level level, const char *format, ...) {
    char line[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (current_sink != NULL && level >= current_least) current_sink(current_context, level, line);
    pthread_mutex_unlock(&lock);
}
