/* watch.h - ends this thread's work early: after some time, or when a connection requests it.
 *
 * A thread waits beside the work and sets the stop flag (thread.h), which long functions poll.
 */
#pragma once

#include <stdbool.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_watch sr_watch;

/* Why the stop flag was set. */
typedef enum sr_watch_end {
    SR_WATCH_DONE, /* it was not set */
    SR_WATCH_TIME, /* the work took longer than `seconds` */
    SR_WATCH_STOP, /* the connection sent the word "stop" */
    SR_WATCH_GONE, /* the connection has closed */
    SR_WATCH_ELSE  /* `asked` returned true */
} sr_watch_end;

/* Begins to watch.  fd: a socket, or -1; what it receives stays unread.  asked: called by the
 * watching thread about ten times a second, or NULL. */
sr_status sr_watch_start(sr_watch **out, int fd, double seconds, bool (*asked)(void));

/* Ends the watch, clears the stop flag and frees the watch. */
sr_watch_end sr_watch_finish(sr_watch *w);

SR_END_C
