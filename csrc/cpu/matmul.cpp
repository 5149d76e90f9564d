// MX matmuls on CPU tensors: describes each product as a Gemm, and deals the tiles of all of them to the threads.
#include <ATen/ATen.h>

#include "cpu/gemm_runner.h"
#include "cpu/register.h"
#include "ops/mx_matmul.h"

namespace npu_lp::cpu {

namespace {

const uint8_t* bytes(const Tensor& t) {
  return static_cast<const uint8_t*>(t.const_data_ptr());
}

// A view of x as [rows, k], its dimensions given by position. For 4-bit codes, strides count nibbles: 1 along the
// packed dimension, twice the byte stride along the other.
Operand operand(const MatmulOperand& form, const Tensor& x, int64_t row_dim, int64_t k_dim, const Tensor& scale,
                int64_t scale_row_dim, int64_t scale_pair_dim, int64_t block) {
  Operand op{form.format,     bytes(x),     x.stride(row_dim),           x.stride(k_dim),
             block,           bytes(scale), scale.stride(scale_row_dim), scale.stride(scale_pair_dim),
             scale.stride(-1)};
  if (info(form.format).bits == 4) {
    op.row_stride = form.packed_along_k ? 2 * op.row_stride : 1;
    op.k_stride = form.packed_along_k ? 1 : 2 * op.k_stride;
  }
  return op;
}

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

// FP4 nibbles are addressed by their position in memory, so the packed dimension must be the contiguous one.
Tensor addressable(const Tensor& x, const MatmulOperand& form, int64_t row_dim, int64_t k_dim) {
  if (info(form.format).bits != 4) return x;
  const int64_t packed = form.packed_along_k ? k_dim : row_dim;
  if (x.stride(packed) == 1) return x;
  return packed == -1 ? x.contiguous() : x.mT().contiguous().mT();
}

}  // namespace

Tensor mx_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                       const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                       std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                       int64_t block_size) {
  auto call = prepare_mx_quant_matmul(x1, x2, x1_scale, x2_scale, bias, out_dtype, x1_fmt, x2_fmt, block_size);
  const Tensor bias_values = bias.has_value() ? bias->contiguous() : Tensor();
  const at::IntArrayRef batch = call.out.sizes().slice(0, static_cast<size_t>(call.out.dim()) - 2);
  const auto expand = [&](const Tensor& t, int64_t tail) {
    std::vector<int64_t> sizes = batch.vec();
    sizes.insert(sizes.end(), t.sizes().end() - tail, t.sizes().end());
    return t.expand(sizes);
  };
  const Tensor a = expand(addressable(x1, call.a, -2, -1), 2), a_scale = expand(x1_scale, 3);
  const Tensor b = expand(addressable(x2, call.b, -1, -2), 2), b_scale = expand(x2_scale, 3);
  const auto offset = [&](const Tensor& t, int64_t index) {  // of a batch, in elements
    int64_t at = 0;
    for (int64_t d = static_cast<int64_t>(batch.size()) - 1; d >= 0; --d) {
      at += index % batch[static_cast<size_t>(d)] * t.stride(d);
      index /= batch[static_cast<size_t>(d)];
    }
    return at;
  };
  const Operand first_a = operand(call.a, a, -2, -1, a_scale, -3, -2, block_size);
  const Operand first_b = operand(call.b, b, -1, -2, b_scale, -2, -3, block_size);
  const int64_t m = call.out.size(-2), n = call.out.size(-1), k = call.a.k.expect_int();
  std::vector<Gemm> gemms;
  for (int64_t i = 0; i < c10::multiply_integers(batch); ++i) {
    Operand ai = first_a, bi = first_b;
    ai.codes += offset(a, i);
    ai.scales += offset(a_scale, i);
    bi.codes += offset(b, i);
    bi.scales += offset(b_scale, i);
    gemms.push_back(
        {ai, bi, m, n, k,
         static_cast<uint8_t*>(call.out.mutable_data_ptr()) + i * m * n * static_cast<int64_t>(call.out.element_size()),
         n, float_type(out_dtype), bias.has_value() ? bias_values.const_data_ptr<float>() : nullptr});
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
  const Operand first_a = by_rows ? operand(call.a, a, 0, 1, x1_scale, 0, 1, block_size)
                                  : operand(call.a, a, 0, 1, x1_scale, 1, 0, block_size);
  const Operand first_b = by_rows ? operand(call.b, b, 2, 1, x2_scale, 2, 1, block_size)
                                  : operand(call.b, b, 1, 0, x2_scale, 1, 0, block_size);
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
