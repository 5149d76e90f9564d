// The CPU backend's kernels, one per op of csrc/ops/schemas.cpp.
#pragma once

#include "ops/backend.h"

namespace npu_lp::cpu {

using at::Tensor;

NPU_LP_OPS(NPU_LP_DECLARE_OP)
NPU_LP_FUSED_OPS(NPU_LP_DECLARE_OP)

}  // namespace npu_lp::cpu
