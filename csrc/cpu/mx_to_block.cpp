// MXFP4 to 32x32-block FP8 (semantics.md section 4): the tile's byte is its largest row byte less an offset that makes
// room for FP8's range; each row's codes are then shifted by the difference. Exact unless the rows of a tile are far
// apart.
#include <ATen/ATen.h>

#include <atomic>

#include "cpu/parallel.h"
#include "cpu/register.h"
#include "ops/mx_quant.h"

namespace npu_lp::cpu {

namespace {

// The exponent by which FP8's largest binade exceeds FP4's.
int offset_of(Format from, Format to) {
  return info(to).emax - info(from).emax;
}

// The device reads byte 255 (NaN) as the number 255, which loses it; by default the tile becomes NaN instead.
uint32_t tile_byte(uint32_t largest, int offset, bool nan_as_number) {
  if (largest == kNaNScale && !nan_as_number) return kNaNScale;
  return static_cast<uint32_t>(std::max(static_cast<int>(largest) - offset, 0));
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> mx_to_block(const Tensor& data, const Tensor& scale,
                                                       std::string_view fmt_from, std::string_view fmt_to,
                                                       bool nan_as_number) {
  auto call = prepare_mx_to_block(data, scale, fmt_from, fmt_to);
  const Tensor codes_in = data.contiguous(), scales_in = scale.contiguous();
  const auto* codes = static_cast<const uint8_t*>(codes_in.const_data_ptr());
  const auto* scales = static_cast<const uint8_t*>(scales_in.const_data_ptr());
  auto* out = static_cast<uint8_t*>(call.data.mutable_data_ptr());
  call.scale_row.view(at::kByte).zero_();
  call.scale_col.view(at::kByte).zero_();
  auto* by_row = static_cast<uint8_t*>(call.scale_row.mutable_data_ptr());
  auto* by_col = static_cast<uint8_t*>(call.scale_col.mutable_data_ptr());
  const int64_t m = call.data.size(-2), n = call.data.size(-1), slices = call.data.dim() == 3 ? call.data.size(0) : 1;
  const int64_t tiles_m = ceil_div(m, kMxBlock), tiles_n = ceil_div(n, kMxBlock), row_bytes = 2 * ceil_div(tiles_n, 2);
  const int offset = offset_of(call.from, call.to);
  std::atomic<int64_t> inexact{0};
  for_each_range(slices * tiles_m * tiles_n, 32, [&](int64_t begin, int64_t end) {
    int64_t here = 0;
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t slice = tile / (tiles_m * tiles_n), tm = tile / tiles_n % tiles_m, tn = tile % tiles_n;
      const int64_t row_end = std::min((tm + 1) * kMxBlock, m), col_end = std::min((tn + 1) * kMxBlock, n);
      uint32_t largest = 0;
      for (int64_t r = tm * kMxBlock; r < row_end; ++r) {
        largest = std::max<uint32_t>(largest, scales[(slice * m + r) * row_bytes + tn]);
      }
      const uint32_t byte = tile_byte(largest, offset, nan_as_number);
      for (int64_t r = tm * kMxBlock; r < row_end; ++r) {
        by_row[(slice * m + r) * row_bytes + tn] = static_cast<uint8_t>(byte);
        const uint32_t row_byte = scales[(slice * m + r) * row_bytes + tn];
        const int shift = static_cast<int>(row_byte) - static_cast<int>(byte);
        for (int64_t c = tn * kMxBlock; c < col_end; ++c) {
          const int64_t at = (slice * m + r) * n + c;
          const float value = decode(call.from, codes[at / 2] >> (4 * (at % 2)) & 15u);
          if (byte == kNaNScale) {
            out[at] = 0;
            here += row_byte != kNaNScale;  // a number that became NaN
            continue;
          }
          // The device multiplies in bf16 and takes a multiplier below 2^-126 as 0.
          const float shifted = shift < -126 ? value * 0.0f : std::ldexp(value, shift);
          out[at] = with_codec(call.to, [&](auto codec) { return decltype(codec)::encode(shifted); });
          here += static_cast<double>(decode(call.to, out[at])) != std::ldexp(static_cast<double>(value), shift);
        }
      }
      for (int64_t c = tn * kMxBlock; c < col_end; ++c) {
        by_col[((slice * ceil_div(tiles_m, 2) + tm / 2) * n + c) * 2 + tm % 2] = static_cast<uint8_t>(byte);
      }
    }
    inexact += here;
  });
  call.inexact.fill_(inexact.load());
  return {call.data, call.scale_row, call.scale_col, call.inexact};
}

}  // namespace npu_lp::cpu
