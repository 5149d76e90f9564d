#include "ascend/kernels/mx_quant_dual.h"

#include "ascend/launch/quant_types.h"

namespace npu_lp::ascend {

void launch_mx_quant_dual(Stream stream, const QuantSpec& spec, const ColumnTiling& tiling, const void* x,
                          void* data_row, void* scale_row, void* data_col, void* scale_col) {
  if (tiling.blocks == 0) return;
  QuantSpec columns = spec;
  columns.amax_truncates = false;
  const QuantRule row_rule = quant_rule(spec), column_rule = quant_rule(columns);
  with_float(spec.input, [&](auto in) {
    with_target(spec.format, spec.rounding, [&](auto to) {
      using In = typename decltype(in)::type;
      using To = typename decltype(to)::type;
      NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_quant_dual<In, To>), tiling.blocks, stream, gm(x), gm(data_row),
                    gm(scale_row), gm(data_col), gm(scale_col), tiling, row_rule, column_rule);
    });
  });
}

}  // namespace npu_lp::ascend
