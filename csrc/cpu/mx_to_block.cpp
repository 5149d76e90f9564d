// MXFP4 to 32x32-block FP8 (semantics.md section 4): the tile's byte is its largest row byte less an offset that makes
// room for FP8's range; each row's codes are then shifted by the difference. Exact unless the rows of a tile are far
// apart.
#include <ATen/ATen.h>

#include <atomic>

#include "cpu/memory.h"
#include "cpu/parallel.h"
#include "cpu/register.h"
#include "ops/mx_quant.h"

namespace npu_lp::cpu {

namespace {

constexpr int64_t kGrainElements = 65536;  // below this, starting a thread costs more than it saves

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> mx_to_block(const Tensor& data, const Tensor& scale,
                                                       std::string_view fmt_from, std::string_view fmt_to,
                                                       bool nan_as_number) {
  auto call = prepare_mx_to_block(data, scale, fmt_from, fmt_to);
  const Tensor codes = data.contiguous(), scales = scale.contiguous();
  const int64_t m = call.data.size(-2), n = call.data.size(-1), slices = call.data.dim() == 3 ? call.data.size(0) : 1;
  const int64_t strips = ceil_div(m, kMxBlock);
  const int64_t row_scales = m * 2 * ceil_div(ceil_div(n, kMxBlock), 2), column_scales = n * 2 * ceil_div(strips, 2);
  std::atomic<int64_t> inexact{0};
  for_each_range(slices * strips, kGrainElements / (kMxBlock * std::max<int64_t>(n, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t slice = task / strips, strip = task % strips;
                     const ToBlockArgs args{call.from,
                                            call.to,
                                            nan_as_number,
                                            static_cast<const uint8_t*>(codes.const_data_ptr()) + slice * m * n / 2,
                                            static_cast<const uint8_t*>(scales.const_data_ptr()) + slice * row_scales,
                                            m,
                                            n,
                                            bytes(call.data) + slice * m * n,
                                            bytes(call.scale_row) + slice * row_scales,
                                            bytes(call.scale_col) + slice * column_scales};
                     inexact += kernels().mx_to_block(args, strip, strip + 1);
                   }
                 });
  call.inexact.fill_(inexact.load());
  return {call.data, call.scale_row, call.scale_col, call.inexact};
}

}  // namespace npu_lp::cpu
