#include "cpu/register.h"

#include <torch/library.h>

#include "cpu/kernels/kernels.h"
#include "cpu/parallel.h"

namespace npu_lp::cpu {

namespace {

template <auto Op>
struct Entry;

template <typename Result, typename... Args, Result (*Op)(Args...)>
struct Entry<Op> {
  static Result call(Args... args) {
    const AloneIfForked alone;
    return Op(std::forward<Args>(args)...);
  }
};

#define NPU_LP_CPU_OP(op) Entry<op>::call,
constexpr Backend kBackend = {"cpu", NPU_LP_OPS(NPU_LP_CPU_OP) NPU_LP_FUSED_OPS(NPU_LP_CPU_OP)};
#undef NPU_LP_CPU_OP

const bool kAnnounced = [] {
  announce_backend(kBackend);
  return true;
}();

}  // namespace

// For the environment report: the kernel table in use, and all that this processor can run.
TORCH_LIBRARY_FRAGMENT(npu_lp, m) {
  m.def("_cpu_kernels() -> (str, str)",
        [] { return std::tuple<std::string, std::string>(kernels().name, available_kernels()); });
}

}  // namespace npu_lp::cpu
