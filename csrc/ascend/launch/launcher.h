// The one place that starts a kernel. launch/*.cpp are compiled three ways, and say the same thing in all of them:
//
//     void launch_mx_dequant(Stream stream, const MxDequantTiling& tiling, const void* data, void* out) {
//       NPU_LP_LAUNCH(vector, mx_dequant<half>, tiling.blocks, stream, gm(data), gm(out), tiling);
//     }
//
// by bisheng (CMake defines NPU_LP_BISHENG) the kernel goes to a stream of the device; by a C++ compiler with csrc/twin
// as the place of kernel_operator.h it runs on the twin; in the type check it is called like a function, so that its
// arguments are checked and its templates instantiated.
//
// A kernel with several template arguments is written NPU_LP_KERNEL(mx_quant<half, E4M3>): commas split macro
// arguments.
#pragma once

#include "kernel_operator.h"

namespace npu_lp::ascend {

using Stream = void*;  // aclrtStream, or of the twin a const TwinLaunch*

// Kernels take all addresses of GM as GM_ADDR, whether they read or write.
inline GM_ADDR gm(const void* address) {
  return (GM_ADDR) const_cast<void*>(address);  // not a named cast: __gm__ is an address space in bisheng
}

}  // namespace npu_lp::ascend

#define NPU_LP_KERNEL(...) __VA_ARGS__

#if defined(NPU_LP_BISHENG)

#define NPU_LP_LAUNCH(kind, kernel, blocks, stream, ...) kernel<<<(blocks), nullptr, (stream)>>>(__VA_ARGS__)

#elif defined(ASCENDC_CPU_DEBUG)  // the type check

#define NPU_LP_LAUNCH(kind, kernel, blocks, stream, ...) \
  (static_cast<void>(blocks), static_cast<void>(stream), kernel(__VA_ARGS__))

#else

#include "ascend/host/twin_launch.h"

#define NPU_LP_LAUNCH(kind, kernel, blocks, stream, ...)                                                       \
  ::npu_lp::ascend::twin_launch((stream), #kernel, ::npu_lp::ascend::TwinKind::kind, static_cast<int>(blocks), \
                                [=] { kernel(__VA_ARGS__); })

#endif
