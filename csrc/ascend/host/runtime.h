// What the ops on tensors need from whatever runs the kernels. Two definitions exist, one in each library:
// twin_runtime.cpp (kernels run on the twin, tensors are on the CPU) and npu_runtime.cpp (torch_npu).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace npu_lp::ascend {

using at::Tensor;
using Stream = void*;

struct CoreCounts {
  int cube;    // AI cores, each with one cube half
  int vector;  // vector halves, two an AI core
};

CoreCounts core_counts();

// False where values of tensors are on a device: reading them would wait for it.
bool values_at_hand(const Tensor& t);

// Calls launch(stream) after all that was enqueued before; at once, or from torch_npu's launching thread. `tensors` are
// all that the kernels read or write: they live until then, and the twin lets kernels touch nothing else. `launch`
// captures by value.
void enqueue(const char* op, std::vector<Tensor> tensors, std::function<void(Stream)> launch);

}  // namespace npu_lp::ascend
