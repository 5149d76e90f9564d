// Announces the twin as a backend of CPU tensors, when its library is loaded.
#include "ascend/host/ops.h"

namespace npu_lp::ascend {

namespace {

#define NPU_LP_TWIN_OP(op) op,
constexpr Backend kBackend = {"twin", NPU_LP_OPS(NPU_LP_TWIN_OP)};
#undef NPU_LP_TWIN_OP

const bool kAnnounced = [] {
  announce_backend(kBackend);
  return true;
}();

}  // namespace

}  // namespace npu_lp::ascend
