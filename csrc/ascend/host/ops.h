// The ops on tensors, as AscendC kernels: checked by csrc/ops like every backend's, tiled, and launched. Written once
// for the NPU and the twin; runtime.h is where they differ.
#pragma once

#include "ops/backend.h"

namespace npu_lp::ascend {

using at::Tensor;

NPU_LP_OPS(NPU_LP_DECLARE_OP)

// Ends an op that has no kernel, with NotImplementedError. `what` is what has none: "rounding=\"stochastic\"".
[[noreturn]] void no_kernel(const char* op, std::string_view what);

}  // namespace npu_lp::ascend
