// The op set: schemas, and the shape functions that torch.compile and meta tensors use. Backends register their kernels
// for the same names (csrc/cpu/register.cpp); Python faces with the full documentation are in python/npu_lp/ops.py.
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "ops/mx_matmul.h"
#include "ops/mx_quant.h"

namespace npu_lp {

namespace {

std::tuple<Tensor, Tensor> mx_quant_meta(const Tensor& x, int64_t axis, std::string_view fmt,
                                         std::string_view scale_rule, int64_t block_size, std::string_view underflow,
                                         std::string_view rounding, double dst_max, double max_low_bound) {
  auto call = prepare_mx_quant(x, axis, {fmt, scale_rule, block_size, underflow, rounding, dst_max, max_low_bound});
  return {call.data, call.scale};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> mx_quant_dual_meta(const Tensor& x, std::string_view fmt,
                                                              std::string_view scale_rule, std::string_view underflow,
                                                              std::string_view rounding, double dst_max) {
  auto call = prepare_mx_quant_dual(x, {fmt, scale_rule, kMxBlock, underflow, rounding, dst_max});
  return {call.data_row, call.scale_row, call.data_col, call.scale_col};
}

std::tuple<Tensor, Tensor> mx_quant_grouped_meta(const Tensor& x, const Tensor& offs, std::string_view fmt,
                                                 std::string_view scale_rule, std::string_view underflow,
                                                 std::string_view rounding, double dst_max) {
  auto call = prepare_mx_quant_grouped(x, offs, {fmt, scale_rule, kMxBlock, underflow, rounding, dst_max});
  return {call.data, call.scale};
}

Tensor mx_dequant_meta(const Tensor& data, const Tensor& scale, int64_t axis, std::optional<std::string_view> fmt,
                       at::ScalarType out_dtype) {
  return prepare_mx_dequant(data, scale, axis, fmt, out_dtype).out;
}

Tensor mx_quant_matmul_meta(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                            const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                            std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt) {
  return prepare_mx_quant_matmul(x1, x2, x1_scale, x2_scale, bias, out_dtype, x1_fmt, x2_fmt).out;
}

Tensor mx_grouped_matmul_meta(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                              const Tensor& offs, std::string_view split, at::ScalarType out_dtype,
                              std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt) {
  return prepare_mx_grouped_matmul(x1, x2, x1_scale, x2_scale, offs, split, out_dtype, x1_fmt, x2_fmt).out;
}

}  // namespace

TORCH_LIBRARY(npu_lp, m) {
  m.def(
      "mx_quant(Tensor x, int axis=-1, str fmt=\"e4m3\", str scale_rule=\"rceil\", int block_size=32, *, "
      "str underflow=\"ocp\", str rounding=\"rint\", float dst_max=0.0, float max_low_bound=0.0) "
      "-> (Tensor data, Tensor scale)");
  m.def(
      "mx_quant_dual(Tensor x, str fmt=\"e4m3\", str scale_rule=\"rceil\", *, str underflow=\"ocp\", "
      "str rounding=\"rint\", float dst_max=0.0) "
      "-> (Tensor data_row, Tensor scale_row, Tensor data_col, Tensor scale_col)");
  m.def(
      "mx_quant_grouped(Tensor x, Tensor offs, str fmt=\"e4m3\", str scale_rule=\"rceil\", *, str underflow=\"ocp\", "
      "str rounding=\"rint\", float dst_max=0.0) -> (Tensor data, Tensor scale)");
  m.def(
      "mx_dequant(Tensor data, Tensor scale, int axis=-1, str? fmt=None, ScalarType out_dtype=bfloat16) -> Tensor");
  m.def(
      "mx_quant_matmul(Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, Tensor? bias=None, "
      "ScalarType out_dtype=bfloat16, *, str? x1_fmt=None, str? x2_fmt=None) -> Tensor");
  m.def(
      "mx_grouped_matmul(Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, Tensor offs, str split=\"m\", "
      "ScalarType out_dtype=bfloat16, *, str? x1_fmt=None, str? x2_fmt=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(npu_lp, Meta, m) {
  m.impl("mx_quant", mx_quant_meta);
  m.impl("mx_quant_dual", mx_quant_dual_meta);
  m.impl("mx_quant_grouped", mx_quant_grouped_meta);
  m.impl("mx_dequant", mx_dequant_meta);
  m.impl("mx_quant_matmul", mx_quant_matmul_meta);
  m.impl("mx_grouped_matmul", mx_grouped_matmul_meta);
}

// Rounding has no gradient. Whoever differentiates through one of these gets an error that names the op, rather than a
// zero; the layers in python/npu_lp/autograd define the gradients of training.
TORCH_LIBRARY_IMPL(npu_lp, Autograd, m) {
  for (const char* op : {"mx_quant", "mx_quant_dual", "mx_quant_grouped", "mx_dequant", "mx_grouped_matmul"}) {
    m.impl(op, torch::autograd::autogradNotImplementedFallback());
  }
}

}  // namespace npu_lp
