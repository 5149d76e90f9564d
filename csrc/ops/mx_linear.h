// Quantize + matmul in one op: what an activation goes through in a layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "ops/mx_matmul.h"

namespace npu_lp {

struct MxLinearCall {
  QuantSpec spec;  // of x along its last axis
  MxMatmulCall product;
  Tensor data_col, scale_col;  // of x along the axis before; undefined unless they are asked for
};

// Checked arguments and allocated results; `dual`: of mx_linear_dual.
MxLinearCall prepare_mx_linear(const Tensor& x, const Tensor& x2, const Tensor& x2_scale,
                               const std::optional<Tensor>& bias, std::string_view fmt, std::string_view scale_rule,
                               std::optional<at::ScalarType> out_dtype, std::optional<std::string_view> x2_fmt,
                               int64_t block_size, bool dual);

// The same by two other ops, for backends without a fused kernel.
Tensor composed_mx_linear(const Tensor& x, const Tensor& x2, const Tensor& x2_scale, const std::optional<Tensor>& bias,
                          std::string_view fmt, std::string_view scale_rule, std::optional<at::ScalarType> out_dtype,
                          std::optional<std::string_view> x2_fmt, int64_t block_size);
std::tuple<Tensor, Tensor, Tensor> composed_mx_linear_dual(const Tensor& x, const Tensor& x2, const Tensor& x2_scale,
                                                           const std::optional<Tensor>& bias, std::string_view fmt,
                                                           std::string_view scale_rule,
                                                           std::optional<at::ScalarType> out_dtype,
                                                           std::optional<std::string_view> x2_fmt, int64_t block_size);

}  // namespace npu_lp
