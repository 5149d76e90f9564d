// What every backend of the MX quantization ops starts from: checked arguments and allocated outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/arguments.h"

namespace npu_lp {

// torch_npu's scale layout: the quantized dimension becomes ceil(ceil(d/block)/2), and a pair is appended.
std::vector<c10::SymInt> scale_shape(std::vector<c10::SymInt> shape, int64_t axis, int64_t block);

// Codes and scales of x, uninitialized.
Tensor allocate_codes(const Tensor& x, Format format);
Tensor allocate_scale(const Tensor& x, const std::vector<c10::SymInt>& shape);

// dtype_range on e1m2 exists in the grouped op only (semantics.md section 1).
void check_e1m2_rule(const char* op, const QuantSpec& spec);

struct MxQuantCall {
  QuantSpec spec;
  int64_t axis;
  Tensor data;
  Tensor scale;
};

struct MxQuantDualCall {
  QuantSpec spec;
  Tensor data_row, scale_row;
  Tensor data_col, scale_col;
};

struct MxQuantBlockCall {
  QuantSpec spec;
  Tensor data, scale_row, scale_col;
};

struct MxToBlockCall {
  Format from, to;
  Tensor data, scale_row, scale_col, inexact;
};

struct MxDequantCall {
  Format format;
  int64_t axis;
  Tensor out;
};

MxQuantCall prepare_mx_quant(const Tensor& x, int64_t axis, const QuantOptions& options);
MxQuantDualCall prepare_mx_quant_dual(const Tensor& x, const QuantOptions& options);
MxQuantCall prepare_mx_quant_grouped(const Tensor& x, const Tensor& offs, const QuantOptions& options);
MxDequantCall prepare_mx_dequant(const Tensor& data, const Tensor& scale, int64_t axis,
                                 std::optional<std::string_view> fmt, at::ScalarType out_dtype, int64_t block_size);
MxQuantBlockCall prepare_mx_quant_block(const Tensor& x, const QuantOptions& options);
MxToBlockCall prepare_mx_to_block(const Tensor& data, const Tensor& scale, std::string_view fmt_from,
                                  std::string_view fmt_to);

}  // namespace npu_lp
