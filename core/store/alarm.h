/* alarm.h - reports work that takes too long, while it runs: a thread of its own.
 *
 * Before a step waits for its data, or for other ranks, the alarm is armed with what is printed
 * on timeout: a warning, a record for metrics.jsonl, and a command of the user's.
 */
#pragma once

#include <stdbool.h>

#include "core/base/status.h"
#include "core/store/append.h"

SR_BEGIN_C

typedef struct sr_alarm sr_alarm;

/* A new alarm, not armed.  file: must stay open until sr_alarm_free(). */
sr_status sr_alarm_new(sr_alarm **out, sr_append *file);

/* Tells in `seconds` from now, if it is not armed again or disarmed before.  The texts are copied;
 * command is one for sh, or NULL. */
sr_status sr_alarm_arm(sr_alarm *a, double seconds, const char *warning, const char *record,
                       const char *command);

/* Whether it has fired since it was armed.  Waits if it is firing now. */
bool sr_alarm_disarm(sr_alarm *a);

void sr_alarm_free(sr_alarm *a); /* may be NULL */

SR_END_C
