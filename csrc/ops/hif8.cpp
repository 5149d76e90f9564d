#include "ops/hif8.h"

#include <ATen/ATen.h>

#include <cmath>

#include "ops/results.h"

namespace npu_lp {

namespace {

using c10::SymInt;
using Shape = std::vector<SymInt>;

Granularity parse_granularity(const char* op, std::string_view name) {
  if (name == "tensor") return Granularity::kTensor;
  if (name == "token") return Granularity::kToken;
  if (name == "channel") return Granularity::kChannel;
  TORCH_CHECK_VALUE(
      false, "npu_lp.", op, ": granularity=\"", name,
      "\" is unknown. Pass \"tensor\" (one scale), \"token\" (one per row) or \"channel\" (one per column).");
}

Shape hif8_scale_shape(const char* op, const Tensor& x, Granularity granularity) {
  if (granularity == Granularity::kTensor) return {1};
  TORCH_CHECK_VALUE(x.dim() >= 2, "npu_lp.", op, ": x has shape ", x.sym_sizes(),
                    ", but a scale per token or channel needs at least two dimensions. Pass granularity=\"tensor\".");
  Shape shape = x.sym_sizes().vec();
  shape.erase(granularity == Granularity::kToken ? shape.end() - 1 : shape.end() - 2);
  return shape;
}

void check_fp32_scale(const char* op, const char* argument, const Tensor& scale) {
  TORCH_CHECK_TYPE(scale.scalar_type() == at::kFloat, "npu_lp.", op, ": ", argument, " has dtype ",
                   dtype_name(scale.scalar_type()),
                   ", but these scales are float32. Pass the scale that the quantizer returned.");
}

void check_hif8_operand(const char* op, const char* argument, const Tensor& x, int64_t rank) {
  TORCH_CHECK_TYPE(x.scalar_type() == at::kByte, "npu_lp.", op, ": ", argument, " has dtype ",
                   dtype_name(x.scalar_type()),
                   ", but HiF8 codes are uint8. Quantize it first, with npu_lp.ops.hif8_quant.");
  TORCH_CHECK_VALUE(rank == 0 ? x.dim() >= 2 : x.dim() == rank, "npu_lp.", op, ": ", argument, " has shape ",
                    x.sym_sizes(), ", but it must have ", rank == 0 ? "at least 2" : std::to_string(rank),
                    " dimensions.");
}

bool is_single(const Tensor& scale) {
  return scale.sym_numel() == 1;
}

}  // namespace

HiF8QuantCall prepare_hif8_quant(const Tensor& x, double dst_max, std::string_view granularity) {
  const char* op = "hif8_quant";
  const Granularity parsed = parse_granularity(op, granularity);
  const FloatType input = input_type(op, x);
  TORCH_CHECK_VALUE(
      dst_max >= 0.0 && dst_max <= HiF8::kMaxValue, "npu_lp.", op, ": dst_max=", dst_max,
      " is out of range. Pass 0 (which means 32768) or a value up to 32768; training uses 15, 56 or 224.");
  const float max_value = dst_max == 0.0 ? HiF8::kMaxValue : static_cast<float>(dst_max);
  return {parsed, input, 1.0f / max_value, empty_result(x, x.sym_sizes(), at::kByte),
          empty_result(x, hif8_scale_shape(op, x, parsed), at::kFloat)};
}

Tensor broadcast_hif8_scale(const char* op, const Tensor& data, const Tensor& scale, std::string_view granularity) {
  const Granularity parsed = parse_granularity(op, granularity);
  check_hif8_operand(op, "data", data, data.dim());
  check_fp32_scale(op, "scale", scale);
  check_same_device(op, data, "scale", scale);
  const Shape expected = hif8_scale_shape(op, data, parsed);
  TORCH_CHECK_VALUE(scale.sym_sizes().equals(expected), "npu_lp.", op, ": scale has shape ", scale.sym_sizes(),
                    ", but data of shape ", data.sym_sizes(), " with granularity=\"", granularity,
                    "\" has scales of shape ", c10::SymIntArrayRef(expected), ".");
  if (parsed == Granularity::kTensor) return scale;
  return scale.unsqueeze(parsed == Granularity::kToken ? -1 : -2);
}

HiF8MatmulCall prepare_hif8_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                                         const Tensor& x2_scale, const std::optional<Tensor>& bias,
                                         at::ScalarType out_dtype, std::optional<bool> truncate_scale) {
  const char* op = "hif8_quant_matmul";
  check_hif8_operand(op, "x1", x1, 0);
  check_hif8_operand(op, "x2", x2, 0);
  check_fp32_scale(op, "x1_scale", x1_scale);
  check_fp32_scale(op, "x2_scale", x2_scale);
  check_out_dtype(op, out_dtype);
  check_same_device(op, x1, "x2", x2);
  check_same_device(op, x1, "x1_scale", x1_scale);
  check_same_device(op, x1, "x2_scale", x2_scale);
  TORCH_CHECK_VALUE(x1.sym_size(-1) == x2.sym_size(-2), "npu_lp.", op, ": x1 of shape ", x1.sym_sizes(),
                    " has K=", x1.sym_size(-1), ", but x2 of shape ", x2.sym_sizes(), " has K=", x2.sym_size(-2),
                    ". Pass x1 as [..., M, K] and x2 as [..., K, N].");
  const Shape batch = broadcast_batches(op, x1, x2);
  const auto check_scale = [&](const char* argument, const Tensor& x, const Tensor& scale, int64_t kept) {
    Shape expected = x.sym_sizes().vec();
    expected.erase(kept == -2 ? expected.end() - 1 : expected.end() - 2);
    TORCH_CHECK_VALUE(is_single(scale) || scale.sym_sizes().equals(expected), "npu_lp.", op, ": ", argument,
                      "_scale has shape ", scale.sym_sizes(), ", but ", argument, " of shape ", x.sym_sizes(),
                      " needs [1] or ", c10::SymIntArrayRef(expected), ": one scale, or one per ",
                      kept == -2 ? "row" : "column", ".");
  };
  check_scale("x1", x1, x1_scale, -2);
  check_scale("x2", x2, x2_scale, -1);
  check_bias(op, x1, bias, x2.sym_size(-1));
  const bool device_truncates = is_single(x1_scale) && is_single(x2_scale) && !bias.has_value();
  const bool truncate = truncate_scale.value_or(device_truncates);
  TORCH_CHECK_VALUE(
      !truncate || device_truncates, "npu_lp.", op,
      ": truncate_scale=True needs one scale for each operand and no bias, the only case in which the device "
      "multiplies the scales before it applies them. Leave truncate_scale out.");
  Shape shape = batch;
  shape.push_back(x1.sym_size(-2));
  shape.push_back(x2.sym_size(-1));
  return {truncate, empty_result(x1, shape, out_dtype)};
}

HiF8GroupedMatmulCall prepare_hif8_grouped_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                                                  const Tensor& x2_scale, const Tensor& offs, std::string_view split,
                                                  at::ScalarType out_dtype, std::optional<bool> truncate_scale) {
  const char* op = "hif8_grouped_matmul";
  const Split parsed = parse_split(op, split);
  const bool by_rows = parsed == Split::kM;
  check_hif8_operand(op, "x1", x1, 2);
  check_hif8_operand(op, "x2", x2, by_rows ? 3 : 2);
  check_fp32_scale(op, "x1_scale", x1_scale);
  check_fp32_scale(op, "x2_scale", x2_scale);
  check_out_dtype(op, out_dtype);
  check_same_device(op, x1, "x2", x2);
  check_same_device(op, x1, "x1_scale", x1_scale);
  check_same_device(op, x1, "x2_scale", x2_scale);
  check_offsets(op, offs, x1);
  const SymInt groups = offs.sym_size(0);
  TORCH_CHECK_VALUE(!by_rows || x2.sym_size(0) == groups, "npu_lp.", op, ": offs names ", groups,
                    " groups, but x2 of shape ", x2.sym_sizes(), " has ", x2.sym_size(0),
                    ". Pass one end offset per group.");
  TORCH_CHECK_VALUE(x1.sym_size(1) == x2.sym_size(-2), "npu_lp.", op, ": x1 of shape ", x1.sym_sizes(), " sums over ",
                    x1.sym_size(1), " elements, but x2 of shape ", x2.sym_sizes(), " over ", x2.sym_size(-2), ".");
  for (const auto& [argument, scale] :
       {std::pair<const char*, const Tensor&>{"x1_scale", x1_scale}, {"x2_scale", x2_scale}}) {
    TORCH_CHECK_VALUE(is_single(scale) || (scale.dim() == 1 && scale.sym_size(0) == groups), "npu_lp.", op, ": ",
                      argument, " has shape ", scale.sym_sizes(), ", but it must be [1] or one scale for each of the ",
                      groups, " groups.");
  }
  const Shape shape = by_rows ? Shape{x1.sym_size(0), x2.sym_size(-1)} : Shape{groups, x1.sym_size(0), x2.sym_size(-1)};
  return {parsed, truncate_scale.value_or(true), empty_result(x1, shape, out_dtype)};
}

BlockQuantCall prepare_block_quant(const Tensor& x, int64_t row, int64_t col, std::string_view fmt, double dst_max,
                                   double min_scale) {
  const char* op = "block_quant";
  const FormatInfo& format = parse_format(op, fmt, /*mx_only=*/false);
  TORCH_CHECK_VALUE(format.bits == 8 && format.on_npu, "npu_lp.", op, ": fmt=\"", format.name,
                    "\" does not exist with blocks of fp32 scales. Pass \"e4m3\", \"e5m2\" or \"hif8\".");
  const FloatType input = input_type(op, x);
  TORCH_CHECK_VALUE(row == 1 || row == 64 || row == 128 || row == 256 || row == 512, "npu_lp.", op, ": row=", row,
                    " is not supported. Pass 1, 64, 128, 256 or 512.");
  TORCH_CHECK_VALUE(col == 64 || col == 128 || col == 192 || col == 256, "npu_lp.", op, ": col=", col,
                    " is not supported. Pass 64, 128, 192 or 256.");
  TORCH_CHECK_VALUE(x.dim() == 2 || x.dim() == 3, "npu_lp.", op, ": x has shape ", x.sym_sizes(),
                    ", but blocks need a matrix [M, N] or a batch of them [B, M, N].");
  const bool hif8 = format.format == Format::kHiF8;
  TORCH_CHECK_VALUE(dst_max == 0.0 || (hif8 && (dst_max == 15 || dst_max == 56 || dst_max == 224 || dst_max == 32768)),
                    "npu_lp.", op, ": dst_max=", dst_max,
                    hif8 ? " is not supported. Pass 0, 15, 56, 224 or 32768."
                         : " has a meaning for fmt=\"hif8\" only. Leave it at 0.");
  TORCH_CHECK_VALUE(min_scale >= 0.0 && std::isfinite(min_scale), "npu_lp.", op, ": min_scale=", min_scale,
                    " must be a finite number of at least 0.");
  Shape scale = x.sym_sizes().vec();
  scale[scale.size() - 2] = (scale[scale.size() - 2] + (row - 1)) / row;
  scale[scale.size() - 1] = (scale[scale.size() - 1] + (col - 1)) / col;
  return {format.format, input, dst_max == 0.0 ? format.max_value : static_cast<float>(dst_max),
          empty_result(x, x.sym_sizes(), storage_dtype(format)), empty_result(x, scale, at::kFloat)};
}

Tensor prepare_block_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                                  at::ScalarType out_dtype, std::optional<std::string_view> x1_fmt,
                                  std::optional<std::string_view> x2_fmt) {
  const char* op = "block_quant_matmul";
  for (const FormatInfo* format : {&format_of(op, "x1", x1, x1_fmt, false), &format_of(op, "x2", x2, x2_fmt, false)}) {
    TORCH_CHECK_VALUE(format->bits == 8, "npu_lp.", op, ": ", format->name,
                      " does not exist with blocks of fp32 scales.");
  }
  check_fp32_scale(op, "x1_scale", x1_scale);
  check_fp32_scale(op, "x2_scale", x2_scale);
  check_out_dtype(op, out_dtype);
  check_same_device(op, x1, "x2", x2);
  check_same_device(op, x1, "x1_scale", x1_scale);
  check_same_device(op, x1, "x2_scale", x2_scale);
  TORCH_CHECK_VALUE(x1.dim() == 2 && x2.dim() == 2 && x1.sym_size(1) == x2.sym_size(0), "npu_lp.", op,
                    ": x1 has shape ", x1.sym_sizes(), " and x2 ", x2.sym_sizes(),
                    ", but they must be [M, K] and [K, N].");
  const SymInt k_blocks = (x1.sym_size(1) + 127) / 128;
  const auto check_scale = [&](const char* argument, const Tensor& x, const Tensor& scale, int64_t outer,
                               int64_t k_dim) {
    const SymInt rows = x.sym_size(outer), blocks = (rows + 127) / 128;
    TORCH_CHECK_VALUE(scale.dim() == 2 && scale.sym_size(k_dim) == k_blocks &&
                          (scale.sym_size(outer) == rows || scale.sym_size(outer) == blocks),
                      "npu_lp.", op, ": ", argument, "_scale has shape ", scale.sym_sizes(), ", but ", argument,
                      " of shape ", x.sym_sizes(), " needs ", k_blocks, " scales along K and ", rows, " or ", blocks,
                      " along the other dimension (blocks of 1 or 128).");
  };
  check_scale("x1", x1, x1_scale, 0, 1);
  check_scale("x2", x2, x2_scale, 1, 0);
  return empty_result(x1, {x1.sym_size(0), x2.sym_size(1)}, out_dtype);
}

}  // namespace npu_lp
