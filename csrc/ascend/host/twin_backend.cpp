// Announces the twin as a backend of CPU tensors, when its library is loaded.
#include <torch/library.h>

#include "ascend/host/ops.h"
#include "ascend/host/runtime.h"
#include "ascend/host/twin_launch.h"

namespace npu_lp::ascend {

namespace {

#define NPU_LP_TWIN_OP(op) op,
constexpr Backend kBackend = {"twin", NPU_LP_OPS(NPU_LP_TWIN_OP)};
#undef NPU_LP_TWIN_OP

const bool kAnnounced = [] {
  announce_backend(kBackend);
  return true;
}();

// A launch that a check stops, to see how faults of kernels arrive in Python.
void faulty_launch() {
  enqueue("faulty_launch", {}, [](Stream stream) {
    twin_launch(stream, "faulty", TwinKind::vector, 2,
                [] { twin::this_core().fail(twin::Check::kBounds, twin::Loc::here(), "a fault made for tests"); });
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(npu_lp, m) {
  m.def("_faulty_launch() -> ()", faulty_launch);
}

}  // namespace npu_lp::ascend
