#include "ops/mx_matmul.h"

#include <ATen/ATen.h>

#include "ops/results.h"

namespace npu_lp {

namespace {

using c10::SymInt;
using Shape = std::vector<SymInt>;

// Pairs of blocks that k elements have.
SymInt pairs_of(const SymInt& k, int64_t block) {
  return (k + (2 * block - 1)) / (2 * block);
}

// Resolves an operand whose rows and k are dimensions `row_dim` and `k_dim` (counted from the back), given the number
// of rows that its scales have.
MatmulOperand resolve(const Tensor& x, const FormatInfo& format, int64_t row_dim, int64_t k_dim,
                      const SymInt& scale_rows) {
  MatmulOperand operand{format.format, true, x.sym_size(row_dim), x.sym_size(k_dim)};
  if (format.bits == 4) {
    operand.packed_along_k = operand.rows == scale_rows;
    (operand.packed_along_k ? operand.k : operand.rows) *= 2;
  }
  return operand;
}

void check_scale_shape(const char* op, const char* argument, const Tensor& x, const Tensor& scale,
                       const Shape& expected) {
  TORCH_CHECK_VALUE(scale.sym_sizes().equals(expected), "npu_lp.", op, ": ", argument, "_scale has shape ",
                    scale.sym_sizes(), ", but ", argument, " of shape ", x.sym_sizes(), " needs ",
                    c10::SymIntArrayRef(expected), ". Quantize ", argument,
                    " along the dimension that is summed over, and transpose the scales together with it.");
}

void check_formats(const char* op, const FormatInfo& a, const FormatInfo& b, const char* first = "x1 is ") {
  TORCH_CHECK_VALUE((a.bits == 4) == (b.bits == 4), "npu_lp.", op, ": ", first, a.name, " and x2 is ", b.name,
                    ", but FP4 multiplies FP4 only, and FP8 multiplies FP8. Quantize both to one width.");
}

void check_common(const char* op, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                  at::ScalarType out_dtype) {
  check_scale_dtype(op, "x1_scale", x1_scale);
  check_scale_dtype(op, "x2_scale", x2_scale);
  check_out_dtype(op, out_dtype);
  check_same_device(op, x1, "x2", x2);
  check_same_device(op, x1, "x1_scale", x1_scale);
  check_same_device(op, x1, "x2_scale", x2_scale);
}

Shape with_tail(Shape batch, std::initializer_list<SymInt> tail) {
  batch.insert(batch.end(), tail);
  return batch;
}

void check_ranks(const char* op, const char* argument, const Tensor& x, const Tensor& scale, int64_t rank,
                 const char* shapes) {
  TORCH_CHECK_VALUE(x.dim() == rank && scale.dim() == rank + 1, "npu_lp.", op, ": ", argument, " has shape ",
                    x.sym_sizes(), " and its scales ", scale.sym_sizes(), ", but they must be ", shapes, ".");
}

Shape batch_of(const Tensor& x) {
  return {x.sym_sizes().begin(), x.sym_sizes().end() - 2};
}

// Resolves x2 [..., K, N], which is multiplied by `a`, of an argument called `first`.
MatmulOperand check_second(const char* op, const char* first, const Tensor& x, const MatmulOperand& a, const Tensor& x2,
                           const Tensor& x2_scale, const FormatInfo& format, int64_t block_size) {
  TORCH_CHECK_VALUE(x2.dim() >= 2 && x2_scale.dim() == x2.dim() + 1, "npu_lp.", op, ": x2 has shape ", x2.sym_sizes(),
                    " and x2_scale ", x2_scale.sym_sizes(),
                    ", but they must be [..., K, N] and [..., ceil(K/64), N, 2].");
  MatmulOperand b = resolve(x2, format, -1, -2, x2_scale.sym_size(-2));
  TORCH_CHECK_VALUE(a.k == b.k, "npu_lp.", op, ": ", first, " of shape ", x.sym_sizes(), " has K=", a.k,
                    ", but x2 of shape ", x2.sym_sizes(), " has K=", b.k, ". Pass ", first,
                    " as [..., M, K] and x2 as [..., K, N].");
  check_scale_shape(op, "x2", x2, x2_scale, with_tail(batch_of(x2), {pairs_of(a.k, block_size), b.rows, 2}));
  return b;
}

MxProduct check_product(const char* op, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                        const Tensor& x2_scale, at::ScalarType out_dtype, std::optional<std::string_view> x1_fmt,
                        std::optional<std::string_view> x2_fmt, int64_t block_size) {
  const FormatInfo& fa = format_of(op, "x1", x1, x1_fmt);
  const FormatInfo& fb = format_of(op, "x2", x2, x2_fmt);
  check_formats(op, fa, fb);
  check_block_size(op, x1, block_size);
  check_common(op, x1, x2, x1_scale, x2_scale, out_dtype);
  TORCH_CHECK_VALUE(x1.dim() >= 2 && x1_scale.dim() == x1.dim() + 1, "npu_lp.", op, ": x1 has shape ", x1.sym_sizes(),
                    " and x1_scale ", x1_scale.sym_sizes(),
                    ", but they must be [..., M, K] and [..., M, ceil(K/64), 2].");
  MatmulOperand a = resolve(x1, fa, -2, -1, x1_scale.sym_size(-3));
  MatmulOperand b = check_second(op, "x1", x1, a, x2, x2_scale, fb, block_size);
  check_scale_shape(op, "x1", x1, x1_scale, with_tail(batch_of(x1), {a.rows, pairs_of(a.k, block_size), 2}));
  Shape shape = with_tail(broadcast_batches(op, x1, x2), {a.rows, b.rows});
  return {std::move(a), std::move(b), std::move(shape)};
}

}  // namespace

Split parse_split(const char* op, std::string_view split) {
  TORCH_CHECK_VALUE(split == "m" || split == "k", "npu_lp.", op, ": split=\"", split,
                    "\" is unknown. Pass \"m\" (forward, dgrad: groups of rows) or \"k\" (wgrad: groups of the summed "
                    "dimension).");
  return split == "m" ? Split::kM : Split::kK;
}

MxMatmulCall prepare_mx_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                                     const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                                     std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                                     int64_t block_size) {
  const char* op = "mx_quant_matmul";
  MxProduct product = check_product(op, x1, x2, x1_scale, x2_scale, out_dtype, x1_fmt, x2_fmt, block_size);
  check_bias(op, x1, bias, product.b.rows);
  Tensor out = empty_result(x1, product.shape, out_dtype);
  return {std::move(product.a), std::move(product.b), std::move(out)};
}

MxMatmulCall prepare_mx_quant_matmul_add(const Tensor& self, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                                         const Tensor& x2_scale, std::optional<std::string_view> x1_fmt,
                                         std::optional<std::string_view> x2_fmt, int64_t block_size) {
  const char* op = "mx_quant_matmul_add_";
  TORCH_CHECK_TYPE(self.scalar_type() == at::kFloat, "npu_lp.", op, ": self has dtype ", dtype_name(self.scalar_type()),
                   ", but products are accumulated in float32. Keep the gradient that you add to in torch.float32.");
  MxProduct product = check_product(op, x1, x2, x1_scale, x2_scale, at::kFloat, x1_fmt, x2_fmt, block_size);
  check_same_device(op, x1, "self", self);
  TORCH_CHECK_VALUE(self.sym_sizes().equals(product.shape), "npu_lp.", op, ": self has shape ", self.sym_sizes(),
                    ", but the product that is added to it has shape ", c10::SymIntArrayRef(product.shape),
                    ". They must be equal.");
  return {std::move(product.a), std::move(product.b), self};
}

MxProduct check_quantizing_product(const char* op, const Tensor& x, const FormatInfo& fmt, const Tensor& x2,
                                   const Tensor& x2_scale, const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                                   std::optional<std::string_view> x2_fmt, int64_t block_size) {
  const FormatInfo& second = format_of(op, "x2", x2, x2_fmt);
  check_formats(op, fmt, second, "x is quantized to ");
  check_scale_dtype(op, "x2_scale", x2_scale);
  check_out_dtype(op, out_dtype);
  check_same_device(op, x, "x2", x2);
  check_same_device(op, x, "x2_scale", x2_scale);
  TORCH_CHECK_VALUE(x.dim() >= 2, "npu_lp.", op, ": x has shape ", x.sym_sizes(),
                    ", but it must be [..., M, K]. Use x[None] for a vector.");
  check_axis(op, x, -1, fmt);
  MatmulOperand a{fmt.format, true, x.sym_size(-2), x.sym_size(-1)};
  MatmulOperand b = check_second(op, "x", x, a, x2, x2_scale, second, block_size);
  check_bias(op, x, bias, b.rows);
  Shape shape = with_tail(broadcast_batches(op, x, x2, "x"), {a.rows, b.rows});
  return {std::move(a), std::move(b), std::move(shape)};
}

MxGroupedMatmulCall prepare_mx_grouped_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                                              const Tensor& x2_scale, const Tensor& offs, std::string_view split,
                                              at::ScalarType out_dtype, std::optional<std::string_view> x1_fmt,
                                              std::optional<std::string_view> x2_fmt, int64_t block_size) {
  const char* op = "mx_grouped_matmul";
  const FormatInfo& fa = format_of(op, "x1", x1, x1_fmt);
  const FormatInfo& fb = format_of(op, "x2", x2, x2_fmt);
  check_formats(op, fa, fb);
  check_block_size(op, x1, block_size);
  const Split parsed = parse_split(op, split);
  check_common(op, x1, x2, x1_scale, x2_scale, out_dtype);
  check_offsets(op, offs, x1);
  const SymInt groups = offs.sym_size(0);
  if (parsed == Split::kM) {
    check_ranks(op, "x1", x1, x1_scale, 2, "[T, K] and [T, ceil(K/64), 2]");
    check_ranks(op, "x2", x2, x2_scale, 3, "[G, K, N] and [G, ceil(K/64), N, 2]");
    MatmulOperand a = resolve(x1, fa, -2, -1, x1_scale.sym_size(0));
    MatmulOperand b = resolve(x2, fb, -1, -2, x2_scale.sym_size(2));
    TORCH_CHECK_VALUE(x2.sym_size(0) == groups, "npu_lp.", op, ": offs names ", groups, " groups, but x2 of shape ",
                      x2.sym_sizes(), " has ", x2.sym_size(0), ". Pass one end offset per group.");
    TORCH_CHECK_VALUE(a.k == b.k, "npu_lp.", op, ": x1 of shape ", x1.sym_sizes(), " has K=", a.k, ", but x2 of shape ",
                      x2.sym_sizes(), " has K=", b.k, ". Pass x1 as [T, K] and x2 as [G, K, N].");
    check_scale_shape(op, "x1", x1, x1_scale, {a.rows, pairs_of(a.k, block_size), 2});
    check_scale_shape(op, "x2", x2, x2_scale, {groups, pairs_of(a.k, block_size), b.rows, 2});
    Tensor out = empty_result(x1, {a.rows, b.rows}, out_dtype);
    return {Split::kM, std::move(a), std::move(b), std::move(out)};
  }
  TORCH_CHECK_VALUE(fa.bits == 8, "npu_lp.", op, ": split=\"k\" does not exist for ", fa.name,
                    ". Quantize the operands of wgrad to e4m3 or e5m2.");
  check_ranks(op, "x1", x1, x1_scale, 2, "[M, T] (a transposed view of [T, M]) and [T//64+G, M, 2]");
  check_ranks(op, "x2", x2, x2_scale, 2, "[T, N] and [T//64+G, N, 2]");
  MatmulOperand a = resolve(x1, fa, -2, -1, x1_scale.sym_size(1));
  MatmulOperand b = resolve(x2, fb, -1, -2, x2_scale.sym_size(1));
  TORCH_CHECK_VALUE(a.k == b.k, "npu_lp.", op, ": x1 of shape ", x1.sym_sizes(), " sums over ", a.k,
                    " tokens, but x2 of shape ", x2.sym_sizes(), " over ", b.k,
                    ". Pass x1 as [M, T] and x2 as [T, N].");
  const SymInt scale_rows = a.k / (2 * block_size) + groups;
  check_scale_shape(op, "x1", x1, x1_scale, {scale_rows, a.rows, 2});
  check_scale_shape(op, "x2", x2, x2_scale, {scale_rows, b.rows, 2});
  Tensor out = empty_result(x1, {groups, a.rows, b.rows}, out_dtype);
  return {Split::kK, std::move(a), std::move(b), std::move(out)};
}

}  // namespace npu_lp
