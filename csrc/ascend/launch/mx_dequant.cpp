#include "ascend/kernels/mx_dequant.h"

#include "ascend/launch/quant_types.h"

namespace npu_lp::ascend {

void launch_mx_dequant_last(Stream stream, Format format, FloatType out_type, const RowTiling& tiling, const void* data,
                            const void* scale, void* out) {
  if (tiling.blocks == 0) return;
  with_float(out_type, [&](auto value) {
    with_target(format, Rounding::kRint, [&](auto from) {
      using Out = typename decltype(value)::type;
      using From = typename decltype(from)::type;
      NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_dequant_last<From, Out>), tiling.blocks, stream, gm(data), gm(scale),
                    gm(out), tiling);
    });
  });
}

void launch_mx_dequant_axis2(Stream stream, Format format, FloatType out_type, const ColumnTiling& tiling,
                             const void* data, const void* scale, void* out) {
  if (tiling.blocks == 0) return;
  with_float(out_type, [&](auto value) {
    with_target(format, Rounding::kRint, [&](auto from) {
      using Out = typename decltype(value)::type;
      using From = typename decltype(from)::type;
      NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_dequant_axis2<From, Out>), tiling.blocks, stream, gm(data), gm(scale),
                    gm(out), tiling);
    });
  });
}

}  // namespace npu_lp::ascend
