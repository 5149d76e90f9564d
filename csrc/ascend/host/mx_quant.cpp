// MX quantization and its inverse on tensors: checked, made contiguous, tiled, launched.
#include "ops/mx_quant.h"

#include <ATen/ATen.h>

#include "ascend/host/matmul_operand.h"
#include "ascend/host/ops.h"
#include "ascend/host/runtime.h"
#include "ascend/launch/quant.h"

namespace npu_lp::ascend {

namespace {

int64_t product(at::IntArrayRef sizes) {
  return c10::multiply_integers(sizes);
}

// A tensor as [slices, depth, inner], depth being the axis.
struct Extents {
  int64_t slices, depth, inner;
};

Extents extents(at::IntArrayRef sizes, int64_t axis) {
  const size_t at = static_cast<size_t>(axis);
  return {product(sizes.slice(0, at)), sizes[at], product(sizes.slice(at + 1))};
}

void check_spec(const char* op, const QuantSpec& spec) {
  if (spec.rounding == Rounding::kStochastic) no_kernel(op, "rounding=\"stochastic\"");
  if (!info(spec.format).on_npu) no_kernel(op, info(spec.format).name);
  if (spec.block != kMxBlock) no_kernel(op, "a block_size other than 32");
}

}  // namespace

std::tuple<Tensor, Tensor> mx_quant(const Tensor& x, int64_t axis, std::string_view fmt, std::string_view scale_rule,
                                    int64_t block_size, std::string_view underflow, std::string_view rounding,
                                    double dst_max, double max_low_bound, std::optional<at::Generator> generator) {
  const char* op = "mx_quant";
  const MxQuantCall call =
      prepare_mx_quant(x, axis, {fmt, scale_rule, block_size, underflow, rounding, dst_max, max_low_bound, generator});
  check_spec(op, call.spec);
  if (x.numel() == 0) return {call.data, call.scale};
  const Tensor input = x.contiguous();
  const Extents e = extents(input.sizes(), call.axis);
  const int cores = core_counts().vector;
  const void* from = input.const_data_ptr();
  void *data = call.data.mutable_data_ptr(), *scale = call.scale.mutable_data_ptr();
  if (call.axis == input.dim() - 1) {
    const RowTiling tiling = mx_quant_last_tiling(call.spec, e.slices, e.depth, cores);
    enqueue(op, {input, call.data, call.scale}, [spec = call.spec, tiling, from, data, scale](Stream stream) {
      launch_mx_quant_last(stream, spec, tiling, from, data, scale);
    });
  } else {
    const ColumnTiling tiling = mx_quant_axis2_tiling(call.spec, e.slices, e.depth, e.inner, cores);
    enqueue(op, {input, call.data, call.scale}, [spec = call.spec, tiling, from, data, scale](Stream stream) {
      launch_mx_quant_axis2(stream, spec, tiling, from, data, scale);
    });
  }
  return {call.data, call.scale};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> mx_quant_dual(const Tensor& x, std::string_view fmt,
                                                         std::string_view scale_rule, std::string_view underflow,
                                                         std::string_view rounding, double dst_max,
                                                         std::optional<at::Generator> generator, int64_t block_size) {
  const char* op = "mx_quant_dual";
  const MxQuantDualCall call =
      prepare_mx_quant_dual(x, {fmt, scale_rule, block_size, underflow, rounding, dst_max, 0.0, generator});
  check_spec(op, call.spec);
  if (x.numel() != 0) {
    const Tensor input = x.contiguous();
    const Extents e = extents(input.sizes(), input.dim() - 2);
    const ColumnTiling tiling = mx_quant_dual_tiling(call.spec, e.slices, e.depth, e.inner, core_counts().vector);
    enqueue(op, {input, call.data_row, call.scale_row, call.data_col, call.scale_col},
            [spec = call.spec, tiling, from = input.const_data_ptr(), data_row = call.data_row.mutable_data_ptr(),
             scale_row = call.scale_row.mutable_data_ptr(), data_col = call.data_col.mutable_data_ptr(),
             scale_col = call.scale_col.mutable_data_ptr()](Stream stream) {
              launch_mx_quant_dual(stream, spec, tiling, from, data_row, scale_row, data_col, scale_col);
            });
  }
  return {call.data_row, call.scale_row, call.data_col, call.scale_col};
}

std::tuple<Tensor, Tensor> mx_quant_grouped(const Tensor& x, const Tensor& offs, std::string_view fmt,
                                            std::string_view scale_rule, std::string_view underflow,
                                            std::string_view rounding, double dst_max,
                                            std::optional<at::Generator> generator, int64_t block_size) {
  const char* op = "mx_quant_grouped";
  const MxQuantCall call =
      prepare_mx_quant_grouped(x, offs, {fmt, scale_rule, block_size, underflow, rounding, dst_max, 0.0, generator});
  check_spec(op, call.spec);
  const Tensor ends = device_offsets(op, offs, x.size(0)), input = x.contiguous();
  const ColumnTiling tiling =
      mx_quant_grouped_tiling(call.spec, input.size(0), input.size(1), ends.numel(), core_counts().vector);
  if (tiling.blocks > 0) {
    enqueue(op, {input, ends, call.data, call.scale},
            [spec = call.spec, tiling, from = input.const_data_ptr(), end_data = ends.const_data_ptr(),
             data = call.data.mutable_data_ptr(), scale = call.scale.mutable_data_ptr()](Stream stream) {
              launch_mx_quant_grouped(stream, spec, tiling, from, end_data, data, scale);
            });
  }
  return {call.data, call.scale};
}

std::tuple<Tensor, Tensor, Tensor> mx_quant_block(const Tensor& x, std::string_view fmt, std::string_view scale_rule,
                                                  std::string_view underflow, std::string_view rounding,
                                                  double dst_max) {
  const char* op = "mx_quant_block";
  const MxQuantBlockCall call = prepare_mx_quant_block(x, {fmt, scale_rule, kMxBlock, underflow, rounding, dst_max});
  check_spec(op, call.spec);
  if (x.numel() != 0) {
    const Tensor input = x.contiguous();
    const Extents e = extents(input.sizes(), input.dim() - 2);
    const ColumnTiling tiling = mx_quant_block_tiling(call.spec, e.slices, e.depth, e.inner, core_counts().vector);
    enqueue(op, {input, call.data, call.scale_row, call.scale_col},
            [spec = call.spec, tiling, from = input.const_data_ptr(), data = call.data.mutable_data_ptr(),
             scale_row = call.scale_row.mutable_data_ptr(), scale_col = call.scale_col.mutable_data_ptr()](
                Stream stream) { launch_mx_quant_block(stream, spec, tiling, from, data, scale_row, scale_col); });
  }
  return {call.data, call.scale_row, call.scale_col};
}

Tensor mx_dequant(const Tensor& data, const Tensor& scale, int64_t axis, std::optional<std::string_view> fmt,
                  at::ScalarType out_dtype, int64_t block_size) {
  const char* op = "mx_dequant";
  const MxDequantCall call = prepare_mx_dequant(data, scale, axis, fmt, out_dtype, block_size);
  if (!info(call.format).on_npu) no_kernel(op, info(call.format).name);
  if (block_size != kMxBlock) no_kernel(op, "a block_size other than 32");
  if (call.out.numel() == 0) return call.out;
  const Tensor codes = data.contiguous(), scales = scale.contiguous();
  const Extents e = extents(call.out.sizes(), call.axis);
  const FloatType type = float_type(out_dtype);
  const int cores = core_counts().vector;
  const void *from = codes.const_data_ptr(), *scale_data = scales.const_data_ptr();
  void* out = call.out.mutable_data_ptr();
  if (call.axis == call.out.dim() - 1) {
    const RowTiling tiling = mx_dequant_last_tiling(call.format, type, e.slices, e.depth, cores);
    enqueue(op, {codes, scales, call.out}, [format = call.format, type, tiling, from, scale_data, out](Stream stream) {
      launch_mx_dequant_last(stream, format, type, tiling, from, scale_data, out);
    });
  } else {
    const ColumnTiling tiling = mx_dequant_axis2_tiling(call.format, type, e.slices, e.depth, e.inner, cores);
    enqueue(op, {codes, scales, call.out}, [format = call.format, type, tiling, from, scale_data, out](Stream stream) {
      launch_mx_dequant_axis2(stream, format, type, tiling, from, scale_data, out);
    });
  }
  return call.out;
}

}  // namespace npu_lp::ascend
