// Parts of tensors that need no template.
#include "twin/tensor.h"

namespace npu_lp::twin {

void require_even_fp4(uint64_t index, Loc loc) {
  if (index % 2 == 0) return;
  this_core().fail(Check::kAlignment, loc,
                   text("fp4 index ", index, "; two elements share a byte, so it must be even"));
}

void scalar_access(const Span& span, bool write, Loc loc, const char* what) {
  Core& core = this_core();
  core.scalar(span, write, loc);
  if (span.space == Space::kGM || !core.computes()) return;
  if (write) {
    core.define(span);
  } else {
    core.check_defined(span, loc, what);
  }
}

}  // namespace npu_lp::twin
