// What the twin takes as a stream, and how launcher.h starts a kernel on it. No torch: tests of kernels alone use it
// too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "twin/machine.h"

namespace npu_lp::ascend {

// A stream of the twin is the address of one of these; it must live as long as the call of the launch function.
struct TwinLaunch {
  twin::Options options;
  std::vector<twin::GmRange> gm;                   // all bytes of GM that kernels may touch
  std::function<void(twin::LaunchRecord&&)> sink;  // takes the record of each launch; may be empty
};

namespace TwinKind {  // as NPU_LP_LAUNCH spells them
constexpr twin::CoreKind vector = twin::CoreKind::kVector;
constexpr twin::CoreKind cube = twin::CoreKind::kCube;
}  // namespace TwinKind

// Runs to the end, or throws twin::TwinError.
void twin_launch(void* stream, const char* kernel, twin::CoreKind kind, int blocks, const std::function<void()>& body);

}  // namespace npu_lp::ascend
