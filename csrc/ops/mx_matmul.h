// What every backend of the MX matmuls starts from: checked operands, their sizes, and the allocated output.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/arguments.h"

namespace npu_lp {

// FP4 data packs two elements of one logical dimension into a byte; the scales, which have one entry per row, tell
// which.
struct MatmulOperand {
  Format format;
  bool packed_along_k;  // meaningful for FP4 only
  c10::SymInt rows;     // M of x1, N of x2
  c10::SymInt k;
};

struct MxMatmulCall {
  MatmulOperand a;
  MatmulOperand b;
  Tensor out;
};

MxMatmulCall prepare_mx_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                                     const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                                     std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                                     int64_t block_size);

// The same for a product that is added to `self`, fp32 of exactly the product's shape; the result's `out` is self.
MxMatmulCall prepare_mx_quant_matmul_add(const Tensor& self, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                                         const Tensor& x2_scale, std::optional<std::string_view> x1_fmt,
                                         std::optional<std::string_view> x2_fmt, int64_t block_size);

// The product of x, in high precision, that the op itself quantizes to `fmt` along its last axis, and x2.
struct MxProduct {
  MatmulOperand a, b;
  std::vector<c10::SymInt> shape;
};

MxProduct check_quantizing_product(const char* op, const Tensor& x, const FormatInfo& fmt, const Tensor& x2,
                                   const Tensor& x2_scale, const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                                   std::optional<std::string_view> x2_fmt, int64_t block_size);

enum class Split { kM, kK };

Split parse_split(const char* op, std::string_view split);

struct MxGroupedMatmulCall {
  Split split;
  MatmulOperand a;
  MatmulOperand b;
  Tensor out;
};

MxGroupedMatmulCall prepare_mx_grouped_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                                              const Tensor& x2_scale, const Tensor& offs, std::string_view split,
                                              at::ScalarType out_dtype, std::optional<std::string_view> x1_fmt,
                                              std::optional<std::string_view> x2_fmt, int64_t block_size);

}  // namespace npu_lp
