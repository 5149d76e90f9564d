// Tensors as the matmul kernels take them: views where the kernel can read them, else copies.
#pragma once

#include <ATen/core/Tensor.h>

#include "ascend/tiling/matmul_tiling.h"
#include "ops/mx_matmul.h"

namespace npu_lp::ascend {

using at::Tensor;

// One operand, ready for a launch: the tensors to pass, and how they lie in memory.
struct MatmulInput {
  Tensor data;
  Tensor scale;  // undefined for HiF8
  MatmulMatrix matrix;
};

// Positions of an operand's dimensions, counted from the back: of x, and of its scales, whose last one is the pair.
struct MatmulDims {
  int64_t row, k;
  int64_t scale_row = 0, scale_k = 0;
};

// x as [batch..., its two dimensions], expanded to `batch`, which becomes one dimension of one stride.
MatmulInput matmul_input(const MatmulOperand& form, const Tensor& x, const Tensor& scale, at::IntArrayRef batch,
                         const MatmulDims& dims);

MatmulOut matmul_out(at::ScalarType dtype);

// End offsets as the kernels read them: int64, contiguous, where the values can be read, checked.
Tensor device_offsets(const char* op, const Tensor& offs, int64_t rows);

}  // namespace npu_lp::ascend
