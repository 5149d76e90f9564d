// Tensors as plain memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstring>

namespace npu_lp::cpu {

inline uint8_t* bytes(const at::Tensor& t) {
  return static_cast<uint8_t*>(t.mutable_data_ptr());
}

// Zeros for a contiguous tensor. Not zero_(): that waits for OpenMP's threads, which a forked child does not have.
inline void clear(const at::Tensor& t) {
  TORCH_INTERNAL_ASSERT(t.is_contiguous());
  if (t.numel() > 0) std::memset(t.mutable_data_ptr(), 0, t.nbytes());
}

}  // namespace npu_lp::cpu
