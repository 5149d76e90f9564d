// Tensors of codes as the kernels' operands, and where the matrices of a broadcast batch lie.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "cpu/kernels/kernels.h"
#include "ops/mx_matmul.h"

namespace npu_lp::cpu {

// A view of x as [rows, k], its dimensions given by position, like those of its scales. For 4-bit codes, strides count
// nibbles: 1 along the packed dimension, twice the byte stride along the other.
Operand make_operand(const MatmulOperand& form, const Tensor& x, int64_t row_dim, int64_t k_dim, const Tensor& scale,
                     int64_t scale_row_dim, int64_t scale_pair_dim, int64_t block);

// FP4 nibbles are addressed by their position in memory, so the packed dimension must be the contiguous one: x, or a
// copy of it.
Tensor addressable(const Tensor& x, const MatmulOperand& form, int64_t row_dim, int64_t k_dim);

// Offsets, in units of `strides`, of the matrices of a batch of leading sizes `sizes` that is broadcast to `batch`.
class BatchOffsets {
 public:
  BatchOffsets(at::IntArrayRef sizes, at::IntArrayRef strides, at::IntArrayRef batch);
  int64_t operator[](int64_t index) const;

 private:
  at::IntArrayRef batch_;
  std::vector<int64_t> strides_;
};

// Of t, whose last `tail` dimensions are the matrix.
BatchOffsets batch_offsets(const Tensor& t, int64_t tail, at::IntArrayRef batch);

// The dimensions before the last `tail`.
at::IntArrayRef leading(at::IntArrayRef sizes, int64_t tail);

}  // namespace npu_lp::cpu
