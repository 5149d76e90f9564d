// What every backend of the ops with fp32 scales starts from: HiF8 (one scale for a tensor, a token or a channel) and
// blocks of fp32 scales (DeepSeek-V3's recipe). Checked arguments and allocated outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/arguments.h"
#include "ops/mx_matmul.h"

namespace npu_lp {

enum class Granularity { kTensor, kToken, kChannel };

struct HiF8QuantCall {
  Granularity granularity;
  FloatType input;
  float inverse_max;  // fl32(1 / dst_max)
  Tensor data;
  Tensor scale;
};

HiF8QuantCall prepare_hif8_quant(const Tensor& x, double dst_max, std::string_view granularity);

// Scale viewed so that it broadcasts against data.
Tensor broadcast_hif8_scale(const char* op, const Tensor& data, const Tensor& scale, std::string_view granularity);

struct HiF8MatmulCall {
  bool truncate;  // cut the product of the two scales to 10 mantissa bits
  Tensor out;
};

// x1 [..., M, K] with a scale of one element or [..., M]; x2 [..., K, N] with one of one element or [..., N].
HiF8MatmulCall prepare_hif8_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                                         const Tensor& x2_scale, const std::optional<Tensor>& bias,
                                         at::ScalarType out_dtype, std::optional<bool> truncate_scale);

struct HiF8GroupedMatmulCall {
  Split split;
  bool truncate;
  Tensor out;
};

// Scales have one element, or one per group.
HiF8GroupedMatmulCall prepare_hif8_grouped_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                                                  const Tensor& x2_scale, const Tensor& offs, std::string_view split,
                                                  at::ScalarType out_dtype, std::optional<bool> truncate_scale);

struct BlockQuantCall {
  Format format;
  FloatType input;
  float max_value;
  Tensor data;
  Tensor scale;
};

BlockQuantCall prepare_block_quant(const Tensor& x, int64_t row, int64_t col, std::string_view fmt, double dst_max,
                                   double min_scale);

// x1 [M, K] with scales [ceil(M/r), ceil(K/128)], x2 [K, N] with scales [ceil(K/128), ceil(N/c)]; r and c are 1 or 128.
Tensor prepare_block_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                                  at::ScalarType out_dtype, std::optional<std::string_view> x1_fmt,
                                  std::optional<std::string_view> x2_fmt);

}  // namespace npu_lp
