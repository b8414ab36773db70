/* group.h - the ops of groups on devices whose memory is the host's: rows in the order of their
 * groups, and a device's own `linear` for each group.  The arguments are those of the slots.
 */
#pragma once

#include "core/tensor/backend.h"

SR_BEGIN_C

/* Cost: two passes over the items. */
sr_status sr_host_group_rows(sr_tensor *rows, sr_tensor *place, sr_tensor *starts,
                             const sr_tensor *items, const sr_layout *layout, int64_t capacity);

/* Errors: SR_EINVAL  starts does not begin at 0, decreases, or goes beyond the rows of x */
sr_status sr_host_grouped_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x,
                                 const sr_tensor *w, const sr_tensor *b, const sr_tensor *starts,
                                 sr_act act);
sr_status sr_host_grouped_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db,
                                          const sr_tensor *dy, const sr_tensor *x,
                                          const sr_tensor *w, const sr_tensor *pre,
                                          const sr_tensor *y, const sr_tensor *starts, sr_act act);

SR_END_C
