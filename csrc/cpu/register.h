// The CPU backend's kernels, one per op of csrc/ops/schemas.cpp.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace npu_lp::cpu {

using at::Tensor;

std::tuple<Tensor, Tensor> mx_quant(const Tensor& x, int64_t axis, std::string_view fmt, std::string_view scale_rule,
                                    int64_t block_size, std::string_view underflow, std::string_view rounding,
                                    double dst_max, double max_low_bound, std::optional<at::Generator> generator);
std::tuple<Tensor, Tensor, Tensor, Tensor> mx_quant_dual(const Tensor& x, std::string_view fmt,
                                                         std::string_view scale_rule, std::string_view underflow,
                                                         std::string_view rounding, double dst_max,
                                                         std::optional<at::Generator> generator, int64_t block_size);
std::tuple<Tensor, Tensor> mx_quant_grouped(const Tensor& x, const Tensor& offs, std::string_view fmt,
                                            std::string_view scale_rule, std::string_view underflow,
                                            std::string_view rounding, double dst_max,
                                            std::optional<at::Generator> generator, int64_t block_size);
std::tuple<Tensor, Tensor, Tensor> mx_quant_block(const Tensor& x, std::string_view fmt, std::string_view scale_rule,
                                                  std::string_view underflow, std::string_view rounding,
                                                  double dst_max);
std::tuple<Tensor, Tensor, Tensor, Tensor> mx_to_block(const Tensor& data, const Tensor& scale,
                                                       std::string_view fmt_from, std::string_view fmt_to,
                                                       bool nan_as_number);
Tensor mx_dequant(const Tensor& data, const Tensor& scale, int64_t axis, std::optional<std::string_view> fmt,
                  at::ScalarType out_dtype, int64_t block_size);
std::tuple<Tensor, Tensor> hif8_quant(const Tensor& x, double dst_max, std::string_view granularity);
Tensor hif8_dequant(const Tensor& data, const Tensor& scale, std::string_view granularity, at::ScalarType out_dtype);
Tensor hif8_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                         const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                         std::optional<bool> truncate_scale);
Tensor hif8_grouped_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                           const Tensor& offs, std::string_view split, at::ScalarType out_dtype,
                           std::optional<bool> truncate_scale);
std::tuple<Tensor, Tensor> block_quant(const Tensor& x, int64_t row, int64_t col, std::string_view fmt, double dst_max,
                                       double min_scale);
Tensor block_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                          at::ScalarType out_dtype, std::optional<std::string_view> x1_fmt,
                          std::optional<std::string_view> x2_fmt);
Tensor mx_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                       const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                       std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                       int64_t block_size);
Tensor mx_grouped_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                         const Tensor& offs, std::string_view split, at::ScalarType out_dtype,
                         std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                         int64_t block_size);

}  // namespace npu_lp::cpu
