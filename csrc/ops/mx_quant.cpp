#include "ops/mx_quant.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/results.h"

namespace npu_lp {

namespace {

using c10::SymInt;
using Shape = std::vector<SymInt>;

Shape shape_of(const Tensor& x) {
  return x.sym_sizes().vec();
}

}  // namespace

Shape scale_shape(Shape shape, int64_t axis, int64_t block) {
  SymInt& dim = shape[static_cast<size_t>(axis)];
  dim = ((dim + (block - 1)) / block + 1) / 2;
  shape.push_back(2);
  return shape;
}

Tensor allocate_codes(const Tensor& x, Format format) {
  Shape shape = shape_of(x);
  if (info(format).bits == 4) shape.back() = shape.back() / 2;
  return empty_result(x, shape, storage_dtype(info(format)));
}

Tensor allocate_scale(const Tensor& x, const Shape& shape) {
  return empty_result(x, shape, at::kFloat8_e8m0fnu);
}

void check_e1m2_rule(const char* op, const QuantSpec& spec) {
  TORCH_CHECK_VALUE(spec.format != Format::kE1M2 || spec.rule != ScaleRule::kDtypeRange, "npu_lp.", op,
                    ": scale_rule=\"dtype_range\" with fmt=\"e1m2\" exists in mx_quant_grouped only. Pass "
                    "scale_rule=\"floor\".");
}

MxQuantCall prepare_mx_quant(const Tensor& x, int64_t axis, const QuantOptions& options) {
  QuantSpec spec = parse_quant_spec("mx_quant", x, options);
  check_e1m2_rule("mx_quant", spec);
  axis = check_axis("mx_quant", x, axis, info(spec.format));
  spec.amax_truncates = axis == x.dim() - 1;
  return {spec, axis, allocate_codes(x, spec.format), allocate_scale(x, scale_shape(shape_of(x), axis, spec.block))};
}

MxQuantDualCall prepare_mx_quant_dual(const Tensor& x, const QuantOptions& options) {
  const QuantSpec spec = parse_quant_spec("mx_quant_dual", x, options);
  check_e1m2_rule("mx_quant_dual", spec);
  TORCH_CHECK_VALUE(x.dim() >= 2, "npu_lp.mx_quant_dual: x has shape ", x.sym_sizes(),
                    ", but blocks along its last two axes need at least two dimensions. Use mx_quant for a vector.");
  const int64_t last = check_axis("mx_quant_dual", x, -1, info(spec.format));
  const Shape shape = shape_of(x);
  return {spec, allocate_codes(x, spec.format), allocate_scale(x, scale_shape(shape, last, spec.block)),
          allocate_codes(x, spec.format), allocate_scale(x, scale_shape(shape, last - 1, spec.block))};
}

MxQuantCall prepare_mx_quant_grouped(const Tensor& x, const Tensor& offs, const QuantOptions& options) {
  QuantSpec spec = parse_quant_spec("mx_quant_grouped", x, options);
  TORCH_CHECK_VALUE(x.dim() == 2, "npu_lp.mx_quant_grouped: x has shape ", x.sym_sizes(),
                    ", but it must be 2-D: [tokens, features]. Flatten the leading dimensions.");
  check_axis("mx_quant_grouped", x, 0, info(spec.format));
  check_offsets("mx_quant_grouped", offs, x);
  spec.amax_truncates = false;
  const Shape scale = {x.sym_size(0) / (2 * spec.block) + offs.sym_size(0), x.sym_size(1), 2};
  return {spec, 0, allocate_codes(x, spec.format), allocate_scale(x, scale)};
}

MxDequantCall prepare_mx_dequant(const Tensor& data, const Tensor& scale, int64_t axis,
                                 std::optional<std::string_view> fmt, at::ScalarType out_dtype, int64_t block_size) {
  const FormatInfo& format = format_of("mx_dequant", "data", data, fmt);
  check_scale_dtype("mx_dequant", "scale", scale);
  check_out_dtype("mx_dequant", out_dtype);
  check_block_size("mx_dequant", data, block_size);
  const int64_t rank = data.dim();
  TORCH_CHECK_VALUE(rank >= 1, "npu_lp.mx_dequant: data is a scalar; it needs at least one dimension.");
  TORCH_CHECK_INDEX(axis >= -rank && axis < rank, "npu_lp.mx_dequant: axis=", axis,
                    " is out of range for data of rank ", rank, ". Pass the axis that mx_quant was given.");
  axis = axis < 0 ? axis + rank : axis;
  Shape shape = shape_of(data);
  if (format.bits == 4) shape.back() = shape.back() * 2;
  const Shape expected = scale_shape(shape, axis, block_size);
  TORCH_CHECK_VALUE(scale.sym_sizes().equals(expected), "npu_lp.mx_dequant: scale has shape ", scale.sym_sizes(),
                    ", but data of shape ", data.sym_sizes(), " quantized along axis ", axis, " has scales of shape ",
                    c10::SymIntArrayRef(expected), ". Pass the pair that mx_quant returned, and its axis.");
  check_same_device("mx_dequant", data, "scale", scale);
  return {format.format, axis, empty_result(data, shape, out_dtype)};
}

MxQuantBlockCall prepare_mx_quant_block(const Tensor& x, const QuantOptions& options) {
  const char* op = "mx_quant_block";
  QuantSpec spec = parse_quant_spec(op, x, options);
  check_e1m2_rule(op, spec);
  TORCH_CHECK_VALUE(spec.rule != ScaleRule::kRceil, "npu_lp.", op,
                    ": scale_rule=\"rceil\" does not exist for 32x32 tiles. Pass scale_rule=\"floor\".");
  TORCH_CHECK_VALUE(spec.rule != ScaleRule::kDtypeRange || spec.dst_max == 0 || spec.dst_max == 6 || spec.dst_max == 7,
                    "npu_lp.", op, ": dst_max=", options.dst_max, " does not exist for 32x32 tiles. Pass 0, 6 or 7.");
  TORCH_CHECK_VALUE(x.dim() == 2 || x.dim() == 3, "npu_lp.", op, ": x has shape ", x.sym_sizes(),
                    ", but tiles need a matrix [M, N] or a batch of them [B, M, N].");
  const int64_t last = check_axis(op, x, -1, info(spec.format));
  spec.amax_truncates = false;
  const Shape shape = shape_of(x);
  return {spec, allocate_codes(x, spec.format), allocate_scale(x, scale_shape(shape, last, spec.block)),
          allocate_scale(x, scale_shape(shape, last - 1, spec.block))};
}

MxToBlockCall prepare_mx_to_block(const Tensor& data, const Tensor& scale, std::string_view fmt_from,
                                  std::string_view fmt_to) {
  const char* op = "mx_to_block";
  const FormatInfo& from = parse_format(op, fmt_from);
  const FormatInfo& to = parse_format(op, fmt_to);
  TORCH_CHECK_VALUE(from.bits == 4, "npu_lp.", op, ": fmt_from=\"", from.name,
                    "\" is not FP4. Pass \"e2m1\" or \"e1m2\".");
  format_of(op, "data", data, fmt_from);
  TORCH_CHECK_VALUE(to.format == Format::kE4M3 || to.format == Format::kE5M2, "npu_lp.", op, ": fmt_to=\"", to.name,
                    "\" is not FP8. Pass \"e4m3\" or \"e5m2\".");
  check_scale_dtype(op, "scale", scale);
  check_same_device(op, data, "scale", scale);
  TORCH_CHECK_VALUE(data.dim() == 2 || data.dim() == 3, "npu_lp.", op, ": data has shape ", data.sym_sizes(),
                    ", but tiles need a matrix [M, N/2] or a batch of them [B, M, N/2].");
  Shape shape = shape_of(data);
  shape.back() = shape.back() * 2;
  const int64_t last = data.dim() - 1;
  const Shape expected = scale_shape(shape, last, kMxBlock);
  TORCH_CHECK_VALUE(scale.sym_sizes().equals(expected), "npu_lp.", op, ": scale has shape ", scale.sym_sizes(),
                    ", but data of shape ", data.sym_sizes(), " quantized along its last axis has scales of shape ",
                    c10::SymIntArrayRef(expected), ".");
  return {from.format,
          to.format,
          empty_result(data, shape, storage_dtype(to)),
          allocate_scale(data, expected),
          allocate_scale(data, scale_shape(shape, last - 1, kMxBlock)),
          at::empty({}, data.options().dtype(at::kLong))};
}

}  // namespace npu_lp
