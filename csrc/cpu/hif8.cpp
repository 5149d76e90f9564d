// HiF8 and blocks of fp32 scales on CPU tensors: quantization with one scale for a tensor, a row, a column or a block,
// and the matmuls that apply the scales to the finished sums.
#include "ops/hif8.h"

#include <ATen/ATen.h>

#include <atomic>

#include "cpu/gemm_runner.h"
#include "cpu/memory.h"
#include "cpu/parallel.h"
#include "cpu/register.h"
#include "ops/results.h"

namespace npu_lp::cpu {

namespace {

constexpr int64_t kGrainElements = 32768;
constexpr uint32_t kTenMantissaBits = 0xFFFFE000u;

// Largest |x| of all elements, in two steps: per range, then over ranges. The order does not matter to a maximum.
float amax_of(const Tensor& x, FloatType type) {
  std::atomic<uint32_t> amax{0};
  for_each_range(x.numel(), kGrainElements, [&](int64_t begin, int64_t end) {
    const uint32_t part = kernels().amax_bits(type, x.const_data_ptr(), begin, end);
    uint32_t seen = amax.load();
    while (part > seen && !amax.compare_exchange_weak(seen, part)) {
    }
  });
  return float_of(amax.load());
}

float scale_of(float amax, float inverse_max) {
  const FloatEnvironment environment;
  const float scale = amax * inverse_max;
  return canonical(scale);
}

// x as rows of `cols`; each row has its own scale.
void quantize_rows(const Tensor& x, FloatType type, int64_t rows, int64_t cols, float inverse_max, uint8_t* codes,
                   float* scales) {
  for_each_range(rows, kGrainElements / std::max<int64_t>(cols, 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * cols;
      scales[row] = scale_of(float_of(kernels().amax_bits(type, x.const_data_ptr(), first, first + cols)), inverse_max);
      kernels().encode_scaled(Format::kHiF8, type, x.const_data_ptr(), first, first + cols, scales[row], codes);
    }
  });
}

Operand plain_operand(Format format, const Tensor& x, int64_t row_dim, int64_t k_dim) {
  return {format,
          static_cast<const uint8_t*>(x.const_data_ptr()),
          x.stride(row_dim),
          x.stride(k_dim),
          kMxBlock,
          nullptr,
          0,
          0,
          0};
}

float scale_product(float a, float b, bool truncate) {
  const FloatEnvironment environment;
  const float product = a * b;
  return truncate ? float_of(bits_of(product) & kTenMantissaBits) : product;
}

}  // namespace

std::tuple<Tensor, Tensor> hif8_quant(const Tensor& x, double dst_max, std::string_view granularity) {
  auto call = prepare_hif8_quant(x, dst_max, granularity);
  float* scales = call.scale.mutable_data_ptr<float>();
  if (call.granularity == Granularity::kChannel) {
    // A channel is a row of the transposed matrix.
    const Tensor columns = x.mT().contiguous();
    Tensor codes = empty_result(columns, columns.sym_sizes(), at::kByte);
    const int64_t cols = columns.size(-1);
    quantize_rows(columns, call.input, call.scale.numel(), cols, call.inverse_max, bytes(codes), scales);
    call.data.copy_(codes.mT());
    return {call.data, call.scale};
  }
  const Tensor input = x.contiguous();
  if (call.granularity == Granularity::kToken) {
    quantize_rows(input, call.input, call.scale.numel(), input.size(-1), call.inverse_max, bytes(call.data), scales);
    return {call.data, call.scale};
  }
  scales[0] = scale_of(amax_of(input, call.input), call.inverse_max);
  for_each_range(input.numel(), kGrainElements, [&](int64_t begin, int64_t end) {
    kernels().encode_scaled(Format::kHiF8, call.input, input.const_data_ptr(), begin, end, scales[0], bytes(call.data));
  });
  return {call.data, call.scale};
}

Tensor hif8_dequant(const Tensor& data, const Tensor& scale, std::string_view granularity, at::ScalarType out_dtype) {
  check_out_dtype("hif8_dequant", out_dtype);
  const Tensor factor = broadcast_hif8_scale("hif8_dequant", data, scale, granularity).expand_as(data).contiguous();
  const Tensor codes = data.contiguous();
  Tensor out = empty_result(codes, codes.sym_sizes(), out_dtype);
  const uint8_t* from = static_cast<const uint8_t*>(codes.const_data_ptr());
  const float* factors = factor.const_data_ptr<float>();
  const auto convert = [&](auto* to, auto narrow) {
    for_each_range(codes.numel(), kGrainElements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = narrow(HiF8::decode(from[i]) * factors[i]);
    });
  };
  switch (float_type(out_dtype)) {
    case FloatType::kBFloat16:
      convert(static_cast<uint16_t*>(out.mutable_data_ptr()), narrow_bf16);
      break;
    case FloatType::kFloat16:
      convert(static_cast<uint16_t*>(out.mutable_data_ptr()), narrow_fp16);
      break;
    case FloatType::kFloat32:
      convert(out.mutable_data_ptr<float>(), canonical);
      break;
  }
  return out;
}

Tensor hif8_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                         const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                         std::optional<bool> truncate_scale) {
  auto call = prepare_hif8_quant_matmul(x1, x2, x1_scale, x2_scale, bias, out_dtype, truncate_scale);
  const Tensor bias_values = bias.has_value() ? bias->contiguous() : Tensor();
  const int64_t m = call.out.size(-2), n = call.out.size(-1), k = x1.size(-1);
  const auto batch = call.out.sizes().slice(0, static_cast<size_t>(call.out.dim()) - 2);
  const auto expanded = [&](const Tensor& t, at::IntArrayRef tail) {
    std::vector<int64_t> sizes = batch.vec();
    sizes.insert(sizes.end(), tail.begin(), tail.end());
    return t.expand(sizes);
  };
  // One matrix per batch; the batch dimensions are few and small, so they are copied out where a view cannot flatten
  // them.
  const int64_t batches = c10::multiply_integers(batch);
  const Tensor a = expanded(x1, {m, k}).reshape({batches, m, k}), b = expanded(x2, {k, n}).reshape({batches, k, n});
  const bool by_row = x1_scale.numel() != 1, by_column = x2_scale.numel() != 1;
  const Tensor rows = by_row ? expanded(x1_scale, {m}).reshape({batches, m}).contiguous() : x1_scale.contiguous();
  const Tensor columns = by_column ? expanded(x2_scale, {n}).reshape({batches, n}).contiguous() : x2_scale.contiguous();
  // One scale each and no bias: their product is applied, cut or whole. Otherwise one factor comes after the other.
  const bool one_factor = !by_row && !by_column && !bias.has_value();
  const float product = one_factor ? scale_product(columns.const_data_ptr<float>()[0], rows.const_data_ptr<float>()[0],
                                                   call.truncate)
                                   : 1.0f;  // there may be no scales: of no rows, columns or matrices
  std::vector<Gemm> gemms;
  for (int64_t i = 0; i < batches; ++i) {
    Gemm g{
        plain_operand(Format::kHiF8, a.select(0, i), 0, 1),
        plain_operand(Format::kHiF8, b.select(0, i), 1, 0),
        m,
        n,
        k,
        static_cast<uint8_t*>(call.out.mutable_data_ptr()) + i * m * n * static_cast<int64_t>(call.out.element_size()),
        n,
        float_type(out_dtype)};
    if (bias.has_value()) g.bias = bias_values.const_data_ptr<float>();
    if (one_factor) {
      g.by_column = {&product, 0};
    } else {
      g.by_column = {columns.const_data_ptr<float>() + (by_column ? i * n : 0), by_column ? 1 : 0};
      g.by_row = {rows.const_data_ptr<float>() + (by_row ? i * m : 0), by_row ? 1 : 0};
    }
    gemms.push_back(g);
  }
  run_gemms(gemms);
  return call.out;
}

Tensor hif8_grouped_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                           const Tensor& offs, std::string_view split, at::ScalarType out_dtype,
                           std::optional<bool> truncate_scale) {
  auto call = prepare_hif8_grouped_matmul(x1, x2, x1_scale, x2_scale, offs, split, out_dtype, truncate_scale);
  const bool by_rows = call.split == Split::kM;
  const std::vector<int64_t> ends = offsets_values("hif8_grouped_matmul", offs, by_rows ? x1.size(0) : x1.size(1));
  const Tensor first = x1_scale.contiguous(), second = x2_scale.contiguous();
  const auto scale_at = [](const Tensor& t, size_t group) {
    return t.const_data_ptr<float>()[t.numel() == 1 ? 0 : group];
  };
  const int64_t n = call.out.size(-1), element = static_cast<int64_t>(call.out.element_size());
  auto* out = static_cast<uint8_t*>(call.out.mutable_data_ptr());
  std::vector<float> scales(ends.size());
  std::vector<Gemm> gemms;
  int64_t start = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const int64_t group = static_cast<int64_t>(i), count = ends[i] - start;
    const Tensor a = x1.narrow(by_rows ? 0 : 1, start, count);
    const Tensor b = by_rows ? x2.select(0, group) : x2.narrow(0, start, count);
    const int64_t m = a.size(0);
    scales[i] = scale_product(scale_at(second, i), scale_at(first, i), call.truncate);
    Gemm g{plain_operand(Format::kHiF8, a, 0, 1),
           plain_operand(Format::kHiF8, b, 1, 0),
           m,
           n,
           a.size(1),
           out + (by_rows ? start : group * m) * n * element,
           n,
           float_type(out_dtype)};
    g.by_column = {&scales[i], 0};
    gemms.push_back(g);
    start = ends[i];
  }
  run_gemms(gemms);
  if (by_rows) call.out.slice(0, start).zero_();
  // An empty group is a sum over nothing: zeros, even where its scale is not finite.
  for (size_t i = 0; !by_rows && i < ends.size(); ++i) {
    if (ends[i] == (i == 0 ? 0 : ends[i - 1])) call.out.select(0, static_cast<int64_t>(i)).zero_();
  }
  return call.out;
}

std::tuple<Tensor, Tensor> block_quant(const Tensor& x, int64_t row, int64_t col, std::string_view fmt, double dst_max,
                                       double min_scale) {
  auto call = prepare_block_quant(x, row, col, fmt, dst_max, min_scale);
  const Tensor input = x.contiguous();
  const int64_t cols = input.size(-1), depth = input.size(-2);
  const int64_t row_blocks = call.scale.size(-2), col_blocks = call.scale.size(-1);
  float* scales = call.scale.mutable_data_ptr<float>();
  for_each_range(call.scale.numel(), kGrainElements / (row * col), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t slice = block / (row_blocks * col_blocks), top = block / col_blocks % row_blocks * row;
      const int64_t left = block % col_blocks * col, right = std::min(left + col, cols);
      const int64_t bottom = std::min(top + row, depth);
      const auto line = [&](int64_t r) { return (slice * depth + r) * cols; };
      uint32_t amax = 0;
      for (int64_t r = top; r < bottom; ++r) {
        amax = std::max(amax, kernels().amax_bits(call.input, input.const_data_ptr(), line(r) + left, line(r) + right));
      }
      float scale = float_of(amax) / call.max_value;
      if (min_scale > 0.0) scale = std::min(scale, 1.0f / static_cast<float>(min_scale));
      scales[block] = canonical(scale);
      for (int64_t r = top; r < bottom; ++r) {
        kernels().encode_scaled(call.format, call.input, input.const_data_ptr(), line(r) + left, line(r) + right,
                                scales[block], bytes(call.data));
      }
    }
  });
  return {call.data, call.scale};
}

Tensor block_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                          at::ScalarType out_dtype, std::optional<std::string_view> x1_fmt,
                          std::optional<std::string_view> x2_fmt) {
  const Tensor out = prepare_block_quant_matmul(x1, x2, x1_scale, x2_scale, out_dtype, x1_fmt, x2_fmt);
  const Format fa = format_of("block_quant_matmul", "x1", x1, x1_fmt, false).format;
  const Format fb = format_of("block_quant_matmul", "x2", x2, x2_fmt, false).format;
  const int64_t m = x1.size(0), n = x2.size(1), k = x1.size(1);
  const auto by_element = [](const Tensor& scale, int64_t size, int64_t dim) {
    return scale.size(dim) == size ? scale : scale.repeat_interleave(128, dim).narrow(dim, 0, size);
  };
  const Tensor rows = by_element(x1_scale, m, 0), columns = by_element(x2_scale, n, 1);
  Tensor sum = at::zeros({m, n}, x1.options().dtype(at::kFloat)), partial = at::empty_like(sum);
  for (int64_t k0 = 0; k0 < k; k0 += 128) {
    const int64_t kc = std::min<int64_t>(128, k - k0);
    run_gemms({Gemm{plain_operand(fa, x1.narrow(1, k0, kc), 0, 1), plain_operand(fb, x2.narrow(0, k0, kc), 1, 0), m, n,
                    kc, partial.mutable_data_ptr(), n, FloatType::kFloat32}});
    sum.add_(partial.mul_(rows.select(1, k0 / 128).unsqueeze(1) * columns.select(0, k0 / 128).unsqueeze(0)));
  }
  return out.copy_(sum);
}

}  // namespace npu_lp::cpu
