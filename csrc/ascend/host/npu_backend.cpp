// Registers the ops for tensors of torch_npu, whose dispatch key is PrivateUse1.
#include <torch/library.h>

#include "ascend/host/ops.h"

namespace npu_lp::ascend {

TORCH_LIBRARY_IMPL(npu_lp, PrivateUse1, m) {
#define NPU_LP_NPU_OP(op) m.impl(#op, op);
  NPU_LP_OPS(NPU_LP_NPU_OP)
#undef NPU_LP_NPU_OP
}

}  // namespace npu_lp::ascend
