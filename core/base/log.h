/* log.h - the library's messages, handed to the program.
 *
 * core/ never prints.  A warning that has no caller to return to (a checkpoint that failed its
 * check and was skipped, say) goes to the sink, which the program sets.
 */
#pragma once

#include "core/base/extern.h"

SR_BEGIN_C

typedef enum sr_log_level { SR_LOG_DEBUG, SR_LOG_INFO, SR_LOG_WARN, SR_LOG_ERROR } sr_log_level;

typedef void (*sr_log_sink)(void *context, sr_log_level level, const char *line);

/* Messages below `least` are dropped; a NULL sink drops all.  May be called from any thread; the
 * sink may be called from any thread, one call at a time, and must not log itself. */
void sr_log_set(sr_log_sink sink, void *context, sr_log_level least);

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void sr_log(sr_log_level level, const char *format, ...);

SR_END_C
