#include "ascend/kernels/mx_quant_block.h"

#include "ascend/launch/quant_types.h"

namespace npu_lp::ascend {

void launch_mx_quant_block(Stream stream, const QuantSpec& spec, const ColumnTiling& tiling, const void* x, void* data,
                           void* scale_row, void* scale_col) {
  if (tiling.blocks == 0) return;
  const QuantRule rule = quant_rule(spec);
  with_float(spec.input, [&](auto in) {
    with_target(spec.format, spec.rounding, [&](auto to) {
      using In = typename decltype(in)::type;
      using To = typename decltype(to)::type;
      NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_quant_block<In, To>), tiling.blocks, stream, gm(x), gm(data),
                    gm(scale_row), gm(scale_col), tiling, rule);
    });
  });
}

}  // namespace npu_lp::ascend
