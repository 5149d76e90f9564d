// The ops that training on Ascend 950 does not need: they have no AscendC kernel, and say so. Arguments are checked
// first, as everywhere.
#include <ATen/ATen.h>

#include "ascend/host/ops.h"
#include "ops/hif8.h"

namespace npu_lp::ascend {

void no_kernel(const char* op, std::string_view what) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "npu_lp.", op, ": there is no Ascend kernel for ", what,
      ". The cpu backend has it: pass tensors on the CPU, with npu_lp.backend(\"cpu\") selected.");
}

Tensor hif8_dequant(const Tensor& data, const Tensor& scale, std::string_view granularity, at::ScalarType out_dtype) {
  check_out_dtype("hif8_dequant", out_dtype);
  broadcast_hif8_scale("hif8_dequant", data, scale, granularity);
  no_kernel("hif8_dequant", "this op");
}

std::tuple<Tensor, Tensor> block_quant(const Tensor& x, int64_t row, int64_t col, std::string_view fmt, double dst_max,
                                       double min_scale) {
  prepare_block_quant(x, row, col, fmt, dst_max, min_scale);
  no_kernel("block_quant", "this op");
}

Tensor block_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                          at::ScalarType out_dtype, std::optional<std::string_view> x1_fmt,
                          std::optional<std::string_view> x2_fmt) {
  prepare_block_quant_matmul(x1, x2, x1_scale, x2_scale, out_dtype, x1_fmt, x2_fmt);
  no_kernel("block_quant_matmul", "this op");
}

}  // namespace npu_lp::ascend
