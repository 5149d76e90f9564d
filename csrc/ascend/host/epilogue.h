// out = acc * column scale * row scale + bias, by the vector cores: what Fixpipe cannot do without cutting the scales.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu_lp::ascend {

// acc: fp32 [slices, rows, cols], contiguous, as is out, in any output dtype. columns: [slices or 1, cols or 1];
// rows: [slices or 1, rows or 1], or undefined; bias: [cols], or undefined. All fp32.
void scale_epilogue(const char* op, const at::Tensor& acc, const at::Tensor& columns, const at::Tensor& rows,
                    const at::Tensor& bias, const at::Tensor& out);

}  // namespace npu_lp::ascend
