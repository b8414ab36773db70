/* events.h - TensorBoard's event files, without its library.
 *
 * A file is a sequence of records: length (u64), masked CRC-32C of the length, payload, masked
 * CRC-32C of the payload.  A payload is a protobuf message Event; the few fields that scalars need
 * are encoded here by hand.  A resumed run opens a new file with a session START record at its
 * first step, at which the viewer drops later steps of the earlier file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

typedef struct sr_events sr_events;

/* CRC-32C (Castagnoli) of some bytes. */
uint32_t sr_crc32c(const void *bytes, size_t size);

/* Creates DIRECTORY/events.out.tfevents.SECONDS.HOST.PID.N.
 *
 *   wall        seconds since 1970
 *   first_step  of a resumed run: its first step; -1: a fresh run
 */
sr_status sr_events_open(sr_events **out, const char *folder, double wall, int64_t first_step);
void sr_events_close(sr_events *events); /* may be NULL */

/* One record with `count` scalars at a step; NaN and infinities are written as they are. */
sr_status sr_events_scalars(sr_events *events, double wall, int64_t step, const char *const *tags,
                            const double *values, size_t count);

/* One record with a text, shown under the viewer's text tab. */
sr_status sr_events_text(sr_events *events, double wall, int64_t step, const char *tag,
                         const char *text);

SR_END_C
