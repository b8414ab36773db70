/* alarm.h - tells of work that does not end, while it does not: a thread beside it.
 *
 * Before a step waits for its data, or for other ranks, the alarm is armed with what is to be told
 * if the time passes: a warning, a record for metrics.jsonl, and a command of the user's.
 */
#ifndef SR_STORE_ALARM_H
#define SR_STORE_ALARM_H

#include <stdbool.h>

#include "core/base/status.h"
#include "core/store/append.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_alarm sr_alarm;

/* A new alarm, not armed.  file: must stay open until sr_alarm_free(). */
sr_status sr_alarm_new(sr_alarm **out, sr_append *file);

/* Tells in `seconds` from now, if it is not armed again or disarmed before.  The texts are copied;
 * command is one for sh, or NULL. */
sr_status sr_alarm_arm(sr_alarm *a, double seconds, const char *warning, const char *record,
                       const char *command);

/* Whether it has told since it was armed.  If it is telling, waits until that is done. */
bool sr_alarm_disarm(sr_alarm *a);

void sr_alarm_free(sr_alarm *a); /* may be NULL */

#ifdef __cplusplus
}
#endif
#endif
