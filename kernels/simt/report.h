/* report.h - counts of what costs time on a GPU: conflicts of banks, sectors of memory.
 *
 * Lanes of a warp run one after the other here, so each notes its accesses; when the warp meets,
 * the n-th accesses of a line are taken for one request.
 */
#ifndef SR_SIMT_REPORT_H
#define SR_SIMT_REPORT_H

#include "kernels/simt/machine.h"

namespace simt {

enum access : int { COUNT_READ, COUNT_WRITE, COUNT_SHARED_READ, COUNT_SHARED_WRITE };

void count_access(machine *m, access kind, uintptr_t at, size_t bytes, place where);

} // namespace simt

#endif
