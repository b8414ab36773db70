#include "kernels/simt/report.h"

namespace simt {

void count_access(machine *, access, uintptr_t, size_t, place) {
}

} // namespace simt
