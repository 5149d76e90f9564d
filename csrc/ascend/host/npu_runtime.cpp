// The Ascend NPU behind torch_npu's tensors: kernels are started by torch_npu's launching thread, on the current
// stream.
#include <acl/acl_rt.h>
#include <c10/core/DeviceGuard.h>
#include <torch_npu/csrc/core/npu/NPUFunctions.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>
#include <torch_npu/csrc/framework/OpCommand.h>

#include <utility>

#include "ascend/host/runtime.h"

namespace npu_lp::ascend {

namespace {

int device_attribute(aclrtDevAttr attribute, const char* what) {
  int64_t value = 0;
  const aclError error = aclrtGetDeviceInfo(static_cast<uint32_t>(c10_npu::current_device()), attribute, &value);
  TORCH_CHECK(error == ACL_SUCCESS && value > 0, "npu_lp: CANN does not say how many ", what,
              " cores the NPU has (aclrtGetDeviceInfo: error ", error, ", value ", value,
              "). Check that npu-smi shows an Ascend 950, and that the driver belongs to the toolkit.");
  return static_cast<int>(value);
}

}  // namespace

CoreCounts core_counts() {
  static const CoreCounts counts{device_attribute(ACL_DEV_ATTR_CUBE_CORE_NUM, "cube"),
                                 device_attribute(ACL_DEV_ATTR_VECTOR_CORE_NUM, "vector")};
  return counts;
}

bool values_at_hand(const Tensor&) {
  return false;
}

void enqueue(const char* op, std::vector<Tensor> tensors, std::function<void(Stream)> launch) {
  const c10::DeviceGuard guard(tensors.front().device());
  const aclrtStream stream = c10_npu::getCurrentNPUStream().stream(false);
  at_npu::native::OpCommand::RunOpApiV2(op,
                                        [launch = std::move(launch), tensors = std::move(tensors), stream]() -> int {
                                          launch(stream);
                                          return 0;
                                        });
}

}  // namespace npu_lp::ascend
