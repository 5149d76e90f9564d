// HiF8 quantization on tensors, and the epilogue that applies fp32 scales to finished sums.
#include <ATen/ATen.h>

#include "ascend/host/epilogue.h"
#include "ascend/host/ops.h"
#include "ascend/host/runtime.h"
#include "ascend/launch/quant.h"
#include "ops/hif8.h"

namespace npu_lp::ascend {

std::tuple<Tensor, Tensor> hif8_quant(const Tensor& x, double dst_max, std::string_view granularity) {
  const char* op = "hif8_quant";
  const HiF8QuantCall call = prepare_hif8_quant(x, dst_max, granularity);
  if (x.numel() == 0) {  // the largest magnitude of nothing is 0
    call.scale.zero_();
    return {call.data, call.scale};
  }
  const Tensor input = x.contiguous();
  const ScalesAlong along = call.granularity == Granularity::kTensor  ? ScalesAlong::kTensor
                            : call.granularity == Granularity::kToken ? ScalesAlong::kRows
                                                                      : ScalesAlong::kColumns;
  const int64_t cols = input.dim() > 0 ? input.size(-1) : 1, rows = input.dim() > 1 ? input.size(-2) : 1;
  const Hif8Tiling tiling =
      hif8_tiling(call.input, along, input.numel() / (rows * cols), rows, cols, call.inverse_max, core_counts().vector);
  const Tensor partials = at::empty({hif8_partials(tiling)}, call.scale.options());
  enqueue(op, {input, partials, call.data, call.scale},
          [type = call.input, tiling, from = input.const_data_ptr(), partial_data = partials.mutable_data_ptr(),
           data = call.data.mutable_data_ptr(), scale = call.scale.mutable_data_ptr()](Stream stream) {
            launch_hif8_quant(stream, type, tiling, from, partial_data, data, scale);
          });
  return {call.data, call.scale};
}

void scale_epilogue(const char* op, const Tensor& acc, const Tensor& columns, const Tensor& rows, const Tensor& bias,
                    const Tensor& out) {
  const auto index = [](const Tensor& scale) {
    if (!scale.defined()) return ScaleIndex{false, 0, 0};
    const int64_t step = scale.size(1) == 1 ? 0 : 1;
    return ScaleIndex{true, scale.size(0) == 1 ? 0 : scale.size(1), step};
  };
  const FloatType type = float_type(out.scalar_type());
  const EpilogueTiling tiling = epilogue_tiling(type, acc.size(0), acc.size(1), acc.size(2), index(rows),
                                                index(columns), bias.defined(), core_counts().vector);
  const auto data = [](const Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; };
  enqueue(op, {acc, columns, rows, bias, out},
          [type, tiling, from = data(acc), row_data = data(rows), column_data = data(columns), bias_data = data(bias),
           to = out.mutable_data_ptr()](Stream stream) {
            launch_scale_epilogue(stream, type, tiling, from, row_data, column_data, bias_data, to);
          });
}

}  // namespace npu_lp::ascend
