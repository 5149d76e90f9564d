#include "ops/mx_linear.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "ops/backend.h"
#include "ops/mx_quant.h"
#include "ops/results.h"

namespace npu_lp {

namespace {

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* op) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(op, "").typed<Signature>();
}

// The name of a format that is stored as uint8; a torch dtype names its own.
std::optional<std::string_view> stored_name(const char* op, std::string_view fmt) {
  const FormatInfo& format = parse_format(op, fmt);
  return storage_dtype(format) == at::kByte ? std::optional(format.name) : std::nullopt;
}

struct Checked {
  QuantSpec spec;
  MxProduct product;
  at::ScalarType out_dtype;
};

Checked check(const char* op, const Tensor& x, const Tensor& x2, const Tensor& x2_scale,
              const std::optional<Tensor>& bias, std::string_view fmt, std::string_view scale_rule,
              std::optional<at::ScalarType> out_dtype, std::optional<std::string_view> x2_fmt, int64_t block_size) {
  const QuantSpec spec = parse_quant_spec(op, x, {fmt, scale_rule, block_size});
  check_e1m2_rule(op, spec);
  const at::ScalarType dtype = out_dtype.value_or(x.scalar_type());
  return {spec, check_quantizing_product(op, x, info(spec.format), x2, x2_scale, bias, dtype, x2_fmt, block_size),
          dtype};
}

}  // namespace

MxLinearCall prepare_mx_linear(const Tensor& x, const Tensor& x2, const Tensor& x2_scale,
                               const std::optional<Tensor>& bias, std::string_view fmt, std::string_view scale_rule,
                               std::optional<at::ScalarType> out_dtype, std::optional<std::string_view> x2_fmt,
                               int64_t block_size, bool dual) {
  Checked checked = check(dual ? "mx_linear_dual" : "mx_linear", x, x2, x2_scale, bias, fmt, scale_rule, out_dtype,
                          x2_fmt, block_size);
  Tensor out = empty_result(x, checked.product.shape, checked.out_dtype);
  MxLinearCall call{checked.spec, {checked.product.a, checked.product.b, std::move(out)}, {}, {}};
  if (dual) {
    call.data_col = allocate_codes(x, checked.spec.format);
    call.scale_col = allocate_scale(x, scale_shape(x.sym_sizes().vec(), x.dim() - 2, block_size));
  }
  return call;
}

// Arguments are checked here first, so that errors name the op that was called.
Tensor composed_mx_linear(const Tensor& x, const Tensor& x2, const Tensor& x2_scale, const std::optional<Tensor>& bias,
                          std::string_view fmt, std::string_view scale_rule, std::optional<at::ScalarType> out_dtype,
                          std::optional<std::string_view> x2_fmt, int64_t block_size) {
  static const auto quant = find<signature::mx_quant>("npu_lp::mx_quant");
  static const auto matmul = find<signature::mx_quant_matmul>("npu_lp::mx_quant_matmul");
  check("mx_linear", x, x2, x2_scale, bias, fmt, scale_rule, out_dtype, x2_fmt, block_size);
  const auto [data, scale] = quant.call(x, -1, fmt, scale_rule, block_size, "ocp", "rint", 0.0, 0.0, std::nullopt);
  return matmul.call(data, x2, scale, x2_scale, bias, out_dtype.value_or(x.scalar_type()),
                     stored_name("mx_linear", fmt), x2_fmt, block_size);
}

std::tuple<Tensor, Tensor, Tensor> composed_mx_linear_dual(const Tensor& x, const Tensor& x2, const Tensor& x2_scale,
                                                           const std::optional<Tensor>& bias, std::string_view fmt,
                                                           std::string_view scale_rule,
                                                           std::optional<at::ScalarType> out_dtype,
                                                           std::optional<std::string_view> x2_fmt, int64_t block_size) {
  static const auto quant = find<signature::mx_quant_dual>("npu_lp::mx_quant_dual");
  static const auto matmul = find<signature::mx_quant_matmul>("npu_lp::mx_quant_matmul");
  check("mx_linear_dual", x, x2, x2_scale, bias, fmt, scale_rule, out_dtype, x2_fmt, block_size);
  auto [data, scale, data_col, scale_col] =
      quant.call(x, fmt, scale_rule, "ocp", "rint", 0.0, std::nullopt, block_size);
  Tensor out = matmul.call(data, x2, scale, x2_scale, bias, out_dtype.value_or(x.scalar_type()),
                           stored_name("mx_linear_dual", fmt), x2_fmt, block_size);
  return {std::move(out), std::move(data_col), std::move(scale_col)};
}

}  // namespace npu_lp
