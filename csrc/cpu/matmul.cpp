// MX matmuls on CPU tensors: describes each product as a Gemm, and deals the tiles of all of them to the threads.
#include <ATen/ATen.h>

#include "cpu/gemm_runner.h"
#include "cpu/operand.h"
#include "cpu/register.h"

namespace npu_lp::cpu {

namespace {

// Moves an operand to where a group starts: `start` steps along a dimension of this stride, which for 4-bit codes is in
// nibbles.
void advance(const char* argument, Operand& op, int64_t start, int64_t stride) {
  if (info(op.format).bits != 4) {
    op.codes += start * stride;
    return;
  }
  TORCH_CHECK_VALUE(
      start * stride % 2 == 0, "npu_lp.mx_grouped_matmul: a group starts at ", start,
      ", in the middle of a byte: ", argument,
      " packs two tokens to a byte. Pass even offsets, or codes that are packed along the other dimension.");
  op.codes += start * stride / 2;
}

}  // namespace

Tensor mx_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                       const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                       std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                       int64_t block_size) {
  auto call = prepare_mx_quant_matmul(x1, x2, x1_scale, x2_scale, bias, out_dtype, x1_fmt, x2_fmt, block_size);
  const Tensor bias_values = bias.has_value() ? bias->contiguous() : Tensor();
  const at::IntArrayRef batch = leading(call.out.sizes(), 2);
  const Tensor a = addressable(x1, call.a, -2, -1), b = addressable(x2, call.b, -1, -2);
  const BatchOffsets a_at = batch_offsets(a, 2, batch), a_scale_at = batch_offsets(x1_scale, 3, batch);
  const BatchOffsets b_at = batch_offsets(b, 2, batch), b_scale_at = batch_offsets(x2_scale, 3, batch);
  const int64_t m = call.out.size(-2), n = call.out.size(-1), matrices = c10::multiply_integers(batch);
  const Gemm first{make_operand(call.a, a, -2, -1, x1_scale, -3, -2, block_size),
                   make_operand(call.b, b, -1, -2, x2_scale, -2, -3, block_size),
                   m,
                   n,
                   call.a.k.expect_int(),
                   call.out.mutable_data_ptr(),
                   n,
                   float_type(out_dtype),
                   bias.has_value() ? bias_values.const_data_ptr<float>() : nullptr};
  std::vector<Gemm> gemms(static_cast<size_t>(matrices), first);
  for (int64_t i = 0; i < matrices; ++i) {
    Gemm& gemm = gemms[static_cast<size_t>(i)];
    gemm.a.codes += a_at[i];
    gemm.a.scales += a_scale_at[i];
    gemm.b.codes += b_at[i];
    gemm.b.scales += b_scale_at[i];
    gemm.out = static_cast<uint8_t*>(gemm.out) + i * m * n * static_cast<int64_t>(call.out.element_size());
  }
  run_gemms(gemms);
  return call.out;
}

// One addition to the finished fp32 product, as an atomic add to memory does it.
void mx_quant_matmul_add_(Tensor& self, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                          const Tensor& x2_scale, std::optional<std::string_view> x1_fmt,
                          std::optional<std::string_view> x2_fmt, int64_t block_size) {
  prepare_mx_quant_matmul_add(self, x1, x2, x1_scale, x2_scale, x1_fmt, x2_fmt, block_size);
  self.add_(mx_quant_matmul(x1, x2, x1_scale, x2_scale, std::nullopt, at::kFloat, x1_fmt, x2_fmt, block_size));
}

Tensor mx_grouped_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                         const Tensor& offs, std::string_view split, at::ScalarType out_dtype,
                         std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                         int64_t block_size) {
  auto call = prepare_mx_grouped_matmul(x1, x2, x1_scale, x2_scale, offs, split, out_dtype, x1_fmt, x2_fmt, block_size);
  const bool by_rows = call.split == Split::kM;
  const int64_t tokens = by_rows ? call.out.size(0) : call.a.k.expect_int();
  const std::vector<int64_t> ends = offsets_values("mx_grouped_matmul", offs, tokens);
  const Tensor a = addressable(x1, call.a, -2, -1), b = addressable(x2, call.b, -1, -2);
  const Operand first_a = by_rows ? make_operand(call.a, a, 0, 1, x1_scale, 0, 1, block_size)
                                  : make_operand(call.a, a, 0, 1, x1_scale, 1, 0, block_size);
  const Operand first_b = by_rows ? make_operand(call.b, b, 2, 1, x2_scale, 2, 1, block_size)
                                  : make_operand(call.b, b, 1, 0, x2_scale, 1, 0, block_size);
  const int64_t n = call.out.size(-1), element = static_cast<int64_t>(call.out.element_size());
  auto* out = static_cast<uint8_t*>(call.out.mutable_data_ptr());
  std::vector<Gemm> gemms;
  int64_t start = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const int64_t group = static_cast<int64_t>(i), count = ends[i] - start;
    Gemm g{first_a, first_b, 0, n, 0, nullptr, n, float_type(out_dtype)};
    if (by_rows) {
      g.m = count;
      g.k = call.a.k.expect_int();
      if (count > 0) advance("x1", g.a, start, g.a.row_stride);
      g.a.scales += start * x1_scale.stride(0);
      g.b.codes += group * b.stride(0);
      g.b.scales += group * x2_scale.stride(0);
      g.out = out + start * n * element;
    } else {  // an empty group has k = 0, whose product is zeros
      const int64_t scale_row = start / (2 * block_size) + group;
      g.m = call.out.size(1);
      g.k = count;
      if (count > 0) advance("x1", g.a, start, g.a.k_stride);
      g.a.scales += scale_row * x1_scale.stride(0);
      if (count > 0) advance("x2", g.b, start, g.b.k_stride);
      g.b.scales += scale_row * x2_scale.stride(0);
      g.out = out + group * g.m * n * element;
    }
    gemms.push_back(g);
    start = ends[i];
  }
  run_gemms(gemms);
  if (by_rows) call.out.slice(0, start).zero_();
  return call.out;
}

}  // namespace npu_lp::cpu
