#include "ascend/host/twin_launch.h"

#include <stdexcept>
#include <utility>

namespace npu_lp::ascend {

namespace {

// "NPU_LP_KERNEL(mx_quant<In, To>)" as written at the launch -> "mx_quant"; the arguments' names say nothing.
std::string kernel_name(const char* spelled) {
  std::string name = spelled;
  const std::string wrapper = "NPU_LP_KERNEL(";
  if (name.rfind(wrapper, 0) == 0) name = name.substr(wrapper.size(), name.size() - wrapper.size() - 1);
  return name.substr(0, name.find('<'));
}

}  // namespace

void twin_launch(void* stream, const char* kernel, twin::CoreKind kind, int blocks, const std::function<void()>& body) {
  if (stream == nullptr) {
    throw std::invalid_argument("npu_lp: a twin launch got no stream. Pass the address of a TwinLaunch.");
  }
  const TwinLaunch& launch = *static_cast<const TwinLaunch*>(stream);
  twin::LaunchRecord record = twin::launch(kernel_name(kernel), kind, blocks, launch.options, launch.gm, body);
  if (launch.sink) launch.sink(std::move(record));
}

}  // namespace npu_lp::ascend
