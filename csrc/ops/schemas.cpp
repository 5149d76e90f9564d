// The op set: schemas, and the shape functions that torch.compile and meta tensors use. Backends register their kernels
// for the same names (csrc/cpu/register.cpp); Python faces with the full documentation are in python/npu_lp/ops.py.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "ops/hif8.h"
#include "ops/mx_linear.h"
#include "ops/mx_matmul.h"
#include "ops/mx_quant.h"
#include "ops/results.h"

namespace npu_lp {

namespace {

std::tuple<Tensor, Tensor> mx_quant_meta(const Tensor& x, int64_t axis, std::string_view fmt,
                                         std::string_view scale_rule, int64_t block_size, std::string_view underflow,
                                         std::string_view rounding, double dst_max, double max_low_bound,
                                         std::optional<at::Generator> generator) {
  auto call =
      prepare_mx_quant(x, axis, {fmt, scale_rule, block_size, underflow, rounding, dst_max, max_low_bound, generator});
  return {call.data, call.scale};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> mx_quant_dual_meta(const Tensor& x, std::string_view fmt,
                                                              std::string_view scale_rule, std::string_view underflow,
                                                              std::string_view rounding, double dst_max,
                                                              std::optional<at::Generator> generator,
                                                              int64_t block_size) {
  auto call = prepare_mx_quant_dual(x, {fmt, scale_rule, block_size, underflow, rounding, dst_max, 0.0, generator});
  return {call.data_row, call.scale_row, call.data_col, call.scale_col};
}

std::tuple<Tensor, Tensor> mx_quant_grouped_meta(const Tensor& x, const Tensor& offs, std::string_view fmt,
                                                 std::string_view scale_rule, std::string_view underflow,
                                                 std::string_view rounding, double dst_max,
                                                 std::optional<at::Generator> generator, int64_t block_size) {
  auto call =
      prepare_mx_quant_grouped(x, offs, {fmt, scale_rule, block_size, underflow, rounding, dst_max, 0.0, generator});
  return {call.data, call.scale};
}

Tensor mx_dequant_meta(const Tensor& data, const Tensor& scale, int64_t axis, std::optional<std::string_view> fmt,
                       at::ScalarType out_dtype, int64_t block_size) {
  return prepare_mx_dequant(data, scale, axis, fmt, out_dtype, block_size).out;
}

Tensor mx_quant_matmul_meta(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                            const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                            std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                            int64_t block_size) {
  return prepare_mx_quant_matmul(x1, x2, x1_scale, x2_scale, bias, out_dtype, x1_fmt, x2_fmt, block_size).out;
}

void mx_quant_matmul_add_meta(Tensor& self, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                              const Tensor& x2_scale, std::optional<std::string_view> x1_fmt,
                              std::optional<std::string_view> x2_fmt, int64_t block_size) {
  prepare_mx_quant_matmul_add(self, x1, x2, x1_scale, x2_scale, x1_fmt, x2_fmt, block_size);
}

Tensor mx_grouped_matmul_meta(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                              const Tensor& offs, std::string_view split, at::ScalarType out_dtype,
                              std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                              int64_t block_size) {
  return prepare_mx_grouped_matmul(x1, x2, x1_scale, x2_scale, offs, split, out_dtype, x1_fmt, x2_fmt, block_size).out;
}

Tensor mx_linear_meta(const Tensor& x, const Tensor& x2, const Tensor& x2_scale, const std::optional<Tensor>& bias,
                      std::string_view fmt, std::string_view scale_rule, std::optional<at::ScalarType> out_dtype,
                      std::optional<std::string_view> x2_fmt, int64_t block_size) {
  return prepare_mx_linear(x, x2, x2_scale, bias, fmt, scale_rule, out_dtype, x2_fmt, block_size, false).product.out;
}

std::tuple<Tensor, Tensor, Tensor> mx_linear_dual_meta(const Tensor& x, const Tensor& x2, const Tensor& x2_scale,
                                                       const std::optional<Tensor>& bias, std::string_view fmt,
                                                       std::string_view scale_rule,
                                                       std::optional<at::ScalarType> out_dtype,
                                                       std::optional<std::string_view> x2_fmt, int64_t block_size) {
  auto call = prepare_mx_linear(x, x2, x2_scale, bias, fmt, scale_rule, out_dtype, x2_fmt, block_size, true);
  return {call.product.out, call.data_col, call.scale_col};
}

std::tuple<Tensor, Tensor, Tensor> mx_quant_block_meta(const Tensor& x, std::string_view fmt,
                                                       std::string_view scale_rule, std::string_view underflow,
                                                       std::string_view rounding, double dst_max) {
  auto call = prepare_mx_quant_block(x, {fmt, scale_rule, kMxBlock, underflow, rounding, dst_max});
  return {call.data, call.scale_row, call.scale_col};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> mx_to_block_meta(const Tensor& data, const Tensor& scale,
                                                            std::string_view fmt_from, std::string_view fmt_to, bool) {
  auto call = prepare_mx_to_block(data, scale, fmt_from, fmt_to);
  return {call.data, call.scale_row, call.scale_col, call.inexact};
}

std::tuple<Tensor, Tensor> hif8_quant_meta(const Tensor& x, double dst_max, std::string_view granularity) {
  auto call = prepare_hif8_quant(x, dst_max, granularity);
  return {call.data, call.scale};
}

Tensor hif8_dequant_meta(const Tensor& data, const Tensor& scale, std::string_view granularity,
                         at::ScalarType out_dtype) {
  check_out_dtype("hif8_dequant", out_dtype);
  broadcast_hif8_scale("hif8_dequant", data, scale, granularity);
  return empty_result(data, data.sym_sizes(), out_dtype);
}

Tensor hif8_quant_matmul_meta(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                              const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                              std::optional<bool> truncate_scale) {
  return prepare_hif8_quant_matmul(x1, x2, x1_scale, x2_scale, bias, out_dtype, truncate_scale).out;
}

Tensor hif8_grouped_matmul_meta(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                                const Tensor& offs, std::string_view split, at::ScalarType out_dtype,
                                std::optional<bool> truncate_scale) {
  return prepare_hif8_grouped_matmul(x1, x2, x1_scale, x2_scale, offs, split, out_dtype, truncate_scale).out;
}

std::tuple<Tensor, Tensor> block_quant_meta(const Tensor& x, int64_t row, int64_t col, std::string_view fmt,
                                            double dst_max, double min_scale) {
  auto call = prepare_block_quant(x, row, col, fmt, dst_max, min_scale);
  return {call.data, call.scale};
}

// Quantize and dequantize, on whatever device x is: the values that quantized data stands for, in x's dtype.
Tensor mx_fake_quant(const Tensor& x, int64_t axis, std::string_view fmt, std::string_view scale_rule,
                     int64_t block_size, std::string_view underflow, std::string_view rounding, double dst_max,
                     std::optional<at::Generator> generator) {
  static const auto quant =
      c10::Dispatcher::singleton().findSchemaOrThrow("npu_lp::mx_quant", "").typed<decltype(mx_quant_meta)>();
  static const auto dequant =
      c10::Dispatcher::singleton().findSchemaOrThrow("npu_lp::mx_dequant", "").typed<decltype(mx_dequant_meta)>();
  const auto [data, scale] =
      quant.call(x, axis, fmt, scale_rule, block_size, underflow, rounding, dst_max, 0.0, generator);
  return dequant.call(data, scale, axis, fmt, x.scalar_type(), block_size);
}

}  // namespace

TORCH_LIBRARY(npu_lp, m) {
  m.def(
      "mx_quant(Tensor x, int axis=-1, str fmt=\"e4m3\", str scale_rule=\"rceil\", int block_size=32, *, "
      "str underflow=\"ocp\", str rounding=\"rint\", float dst_max=0.0, float max_low_bound=0.0, "
      "Generator? generator=None) "
      "-> (Tensor data, Tensor scale)");
  m.def(
      "mx_quant_dual(Tensor x, str fmt=\"e4m3\", str scale_rule=\"rceil\", *, str underflow=\"ocp\", "
      "str rounding=\"rint\", float dst_max=0.0, Generator? generator=None, int block_size=32) "
      "-> (Tensor data_row, Tensor scale_row, Tensor data_col, Tensor scale_col)");
  m.def(
      "mx_quant_grouped(Tensor x, Tensor offs, str fmt=\"e4m3\", str scale_rule=\"rceil\", *, str underflow=\"ocp\", "
      "str rounding=\"rint\", float dst_max=0.0, Generator? generator=None, int block_size=32) "
      "-> (Tensor data, Tensor scale)");
  m.def(
      "mx_dequant(Tensor data, Tensor scale, int axis=-1, str? fmt=None, ScalarType out_dtype=bfloat16, *, "
      "int block_size=32) -> Tensor");
  m.def(
      "mx_quant_matmul(Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, Tensor? bias=None, "
      "ScalarType out_dtype=bfloat16, *, str? x1_fmt=None, str? x2_fmt=None, int block_size=32) -> Tensor");
  m.def(
      "mx_quant_matmul_add_(Tensor(a!) self, Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, *, "
      "str? x1_fmt=None, str? x2_fmt=None, int block_size=32) -> ()");
  m.def(
      "mx_grouped_matmul(Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, Tensor offs, str split=\"m\", "
      "ScalarType out_dtype=bfloat16, *, str? x1_fmt=None, str? x2_fmt=None, int block_size=32) -> Tensor");
  m.def(
      "mx_linear(Tensor x, Tensor x2, Tensor x2_scale, Tensor? bias=None, str fmt=\"e4m3\", "
      "str scale_rule=\"rceil\", *, ScalarType? out_dtype=None, str? x2_fmt=None, int block_size=32) -> Tensor");
  m.def(
      "mx_linear_dual(Tensor x, Tensor x2, Tensor x2_scale, Tensor? bias=None, str fmt=\"e4m3\", "
      "str scale_rule=\"rceil\", *, ScalarType? out_dtype=None, str? x2_fmt=None, int block_size=32) "
      "-> (Tensor out, Tensor data_col, Tensor scale_col)");
  m.def(
      "mx_fake_quant(Tensor x, int axis=-1, str fmt=\"e2m1\", str scale_rule=\"dtype_range\", int block_size=32, *, "
      "str underflow=\"ocp\", str rounding=\"rint\", float dst_max=0.0, Generator? generator=None) -> Tensor");
  m.def(
      "mx_quant_block(Tensor x, str fmt=\"e4m3\", str scale_rule=\"floor\", *, str underflow=\"ocp\", "
      "str rounding=\"rint\", float dst_max=0.0) -> (Tensor data, Tensor scale_row, Tensor scale_col)");
  m.def(
      "mx_to_block(Tensor data, Tensor scale, str fmt_from=\"e2m1\", str fmt_to=\"e4m3\", *, "
      "bool nan_as_number=False) -> (Tensor data, Tensor scale_row, Tensor scale_col, Tensor inexact)");
  m.def("hif8_quant(Tensor x, float dst_max=0.0, str granularity=\"tensor\") -> (Tensor data, Tensor scale)");
  m.def("hif8_dequant(Tensor data, Tensor scale, str granularity=\"tensor\", ScalarType out_dtype=bfloat16) -> Tensor");
  m.def(
      "hif8_quant_matmul(Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, Tensor? bias=None, "
      "ScalarType out_dtype=bfloat16, *, bool? truncate_scale=None) -> Tensor");
  m.def(
      "hif8_grouped_matmul(Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, Tensor offs, str split=\"m\", "
      "ScalarType out_dtype=bfloat16, *, bool? truncate_scale=None) -> Tensor");
  m.def(
      "block_quant(Tensor x, int row=1, int col=128, str fmt=\"e4m3\", *, float dst_max=0.0, float min_scale=0.0) "
      "-> (Tensor data, Tensor scale)");
  m.def(
      "block_quant_matmul(Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, ScalarType out_dtype=bfloat16, *, "
      "str? x1_fmt=None, str? x2_fmt=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(npu_lp, CompositeExplicitAutograd, m) {
  m.impl("mx_fake_quant", mx_fake_quant);
}

TORCH_LIBRARY_IMPL(npu_lp, Meta, m) {
  m.impl("mx_quant", mx_quant_meta);
  m.impl("mx_quant_dual", mx_quant_dual_meta);
  m.impl("mx_quant_grouped", mx_quant_grouped_meta);
  m.impl("mx_dequant", mx_dequant_meta);
  m.impl("mx_quant_matmul", mx_quant_matmul_meta);
  m.impl("mx_quant_matmul_add_", mx_quant_matmul_add_meta);
  m.impl("mx_grouped_matmul", mx_grouped_matmul_meta);
  m.impl("mx_linear", mx_linear_meta);
  m.impl("mx_linear_dual", mx_linear_dual_meta);
  m.impl("mx_quant_block", mx_quant_block_meta);
  m.impl("mx_to_block", mx_to_block_meta);
  m.impl("hif8_quant", hif8_quant_meta);
  m.impl("hif8_dequant", hif8_dequant_meta);
  m.impl("hif8_quant_matmul", hif8_quant_matmul_meta);
  m.impl("hif8_grouped_matmul", hif8_grouped_matmul_meta);
  m.impl("block_quant", block_quant_meta);
  m.impl("block_quant_matmul", prepare_block_quant_matmul);
}

// Rounding has no gradient. Whoever differentiates through one of these gets an error that names the op, rather than a
// zero; the layers in python/npu_lp/autograd define the gradients of training.
TORCH_LIBRARY_IMPL(npu_lp, Autograd, m) {
  for (const char* op : {"mx_quant", "mx_quant_dual", "mx_quant_grouped", "mx_quant_block", "mx_to_block", "mx_dequant",
                         "mx_quant_matmul_add_", "mx_grouped_matmul", "mx_linear", "mx_linear_dual", "hif8_quant",
                         "hif8_dequant", "hif8_grouped_matmul", "block_quant", "block_quant_matmul"}) {
    m.impl(op, torch::autograd::autogradNotImplementedFallback());
  }
}

}  // namespace npu_lp
