// The ops by signature, and which implementation CPU tensors are sent to: the CPU backend, or another that its library
// announced (the twin). Tensors on a device never come here.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

#define NPU_LP_API __attribute__((visibility("default")))

namespace npu_lp {

// Signatures of the ops of schemas.cpp. A backend declares its functions by them, NPU_LP_OPS(NPU_LP_DECLARE_OP).
namespace signature {

using at::Generator;
using at::ScalarType;
using at::Tensor;
using std::optional;
using std::string_view;

using mx_quant = std::tuple<Tensor, Tensor>(const Tensor& x, int64_t axis, string_view fmt, string_view scale_rule,
                                            int64_t block_size, string_view underflow, string_view rounding,
                                            double dst_max, double max_low_bound, optional<Generator> generator);
using mx_quant_dual = std::tuple<Tensor, Tensor, Tensor, Tensor>(const Tensor& x, string_view fmt,
                                                                 string_view scale_rule, string_view underflow,
                                                                 string_view rounding, double dst_max,
                                                                 optional<Generator> generator, int64_t block_size);
using mx_quant_grouped = std::tuple<Tensor, Tensor>(const Tensor& x, const Tensor& offs, string_view fmt,
                                                    string_view scale_rule, string_view underflow, string_view rounding,
                                                    double dst_max, optional<Generator> generator, int64_t block_size);
using mx_quant_block = std::tuple<Tensor, Tensor, Tensor>(const Tensor& x, string_view fmt, string_view scale_rule,
                                                          string_view underflow, string_view rounding, double dst_max);
using mx_to_block = std::tuple<Tensor, Tensor, Tensor, Tensor>(const Tensor& data, const Tensor& scale,
                                                               string_view fmt_from, string_view fmt_to,
                                                               bool nan_as_number);
using mx_dequant = Tensor(const Tensor& data, const Tensor& scale, int64_t axis, optional<string_view> fmt,
                          ScalarType out_dtype, int64_t block_size);
using mx_quant_matmul = Tensor(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                               const optional<Tensor>& bias, ScalarType out_dtype, optional<string_view> x1_fmt,
                               optional<string_view> x2_fmt, int64_t block_size);
using mx_quant_matmul_add_ = void(Tensor& self, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                                  const Tensor& x2_scale, optional<string_view> x1_fmt, optional<string_view> x2_fmt,
                                  int64_t block_size);
using mx_grouped_matmul = Tensor(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                                 const Tensor& offs, string_view split, ScalarType out_dtype,
                                 optional<string_view> x1_fmt, optional<string_view> x2_fmt, int64_t block_size);
using mx_linear = Tensor(const Tensor& x, const Tensor& x2, const Tensor& x2_scale, const optional<Tensor>& bias,
                         string_view fmt, string_view scale_rule, optional<ScalarType> out_dtype,
                         optional<string_view> x2_fmt, int64_t block_size);
using mx_linear_dual = std::tuple<Tensor, Tensor, Tensor>(const Tensor& x, const Tensor& x2, const Tensor& x2_scale,
                                                          const optional<Tensor>& bias, string_view fmt,
                                                          string_view scale_rule, optional<ScalarType> out_dtype,
                                                          optional<string_view> x2_fmt, int64_t block_size);
using hif8_quant = std::tuple<Tensor, Tensor>(const Tensor& x, double dst_max, string_view granularity);
using hif8_dequant = Tensor(const Tensor& data, const Tensor& scale, string_view granularity, ScalarType out_dtype);
using hif8_quant_matmul = Tensor(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                                 const optional<Tensor>& bias, ScalarType out_dtype, optional<bool> truncate_scale);
using hif8_grouped_matmul = Tensor(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                                   const Tensor& offs, string_view split, ScalarType out_dtype,
                                   optional<bool> truncate_scale);
using block_quant = std::tuple<Tensor, Tensor>(const Tensor& x, int64_t row, int64_t col, string_view fmt,
                                               double dst_max, double min_scale);
using block_quant_matmul = Tensor(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                                  ScalarType out_dtype, optional<string_view> x1_fmt, optional<string_view> x2_fmt);

}  // namespace signature

#define NPU_LP_OPS(X)     \
  X(mx_quant)             \
  X(mx_quant_dual)        \
  X(mx_quant_grouped)     \
  X(mx_quant_block)       \
  X(mx_to_block)          \
  X(mx_dequant)           \
  X(mx_quant_matmul)      \
  X(mx_quant_matmul_add_) \
  X(mx_grouped_matmul)    \
  X(hif8_quant)           \
  X(hif8_dequant)         \
  X(hif8_quant_matmul)    \
  X(hif8_grouped_matmul)  \
  X(block_quant)          \
  X(block_quant_matmul)

// Ops made of others: a backend may leave them out (a null pointer), and the others are called one after the other.
#define NPU_LP_FUSED_OPS(X) \
  X(mx_linear)              \
  X(mx_linear_dual)

#define NPU_LP_DECLARE_OP(op) ::npu_lp::signature::op op;

// One implementation of all ops, for tensors on the CPU.
struct Backend {
  const char* name;
#define NPU_LP_OP_POINTER(op) ::npu_lp::signature::op* op;
  NPU_LP_OPS(NPU_LP_OP_POINTER)
#undef NPU_LP_OP_POINTER
#define NPU_LP_OP_POINTER(op) ::npu_lp::signature::op* op = nullptr;
  NPU_LP_FUSED_OPS(NPU_LP_OP_POINTER)
#undef NPU_LP_OP_POINTER
};

// A library that brings a backend calls this when it is loaded. `backend` must live as long as the process.
NPU_LP_API void announce_backend(const Backend& backend);

// Of the process, so that it holds in autograd's backward threads too.
NPU_LP_API void select_backend(std::string_view name);
NPU_LP_API const Backend& selected_backend();

}  // namespace npu_lp
