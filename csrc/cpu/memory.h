// Tensors as plain memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu_lp::cpu {

inline uint8_t* bytes(const at::Tensor& t) {
  return static_cast<uint8_t*>(t.mutable_data_ptr());
}

}  // namespace npu_lp::cpu
