// mx_to_block on tensors: checked, made contiguous, tiled, launched; the cores' counts summed.
#include <ATen/ATen.h>

#include "ascend/host/ops.h"
#include "ascend/host/runtime.h"
#include "ascend/launch/quant.h"
#include "ascend/tiling/to_block_tiling.h"
#include "ops/mx_quant.h"

namespace npu_lp::ascend {

std::tuple<Tensor, Tensor, Tensor, Tensor> mx_to_block(const Tensor& data, const Tensor& scale,
                                                       std::string_view fmt_from, std::string_view fmt_to,
                                                       bool nan_as_number) {
  const MxToBlockCall call = prepare_mx_to_block(data, scale, fmt_from, fmt_to);
  if (call.data.numel() == 0) return {call.data, call.scale_row, call.scale_col, call.inexact.zero_()};
  const Tensor codes = data.contiguous(), scales = scale.contiguous();
  const int64_t slices = call.data.dim() == 3 ? call.data.size(0) : 1;
  const ToBlockTiling tiling = mx_to_block_tiling(slices, call.data.size(-2), call.data.size(-1), core_counts().vector);
  const Tensor changed = at::empty({tiling.blocks, kToBlockCounters}, data.options().dtype(at::kInt));
  enqueue("mx_to_block", {codes, scales, call.data, call.scale_row, call.scale_col, changed},
          [tiling, table = mx_to_block_table(call.from, call.to), nan_as_number, from = codes.const_data_ptr(),
           scale_data = scales.const_data_ptr(), out = call.data.mutable_data_ptr(),
           scale_row = call.scale_row.mutable_data_ptr(), scale_col = call.scale_col.mutable_data_ptr(),
           counts = changed.mutable_data_ptr()](Stream stream) {
            launch_mx_to_block(stream, tiling, table, nan_as_number, from, scale_data, out, scale_row, scale_col,
                               counts);
          });
  return {call.data, call.scale_row, call.scale_col, changed.sum(at::kLong)};
}

}  // namespace npu_lp::ascend
