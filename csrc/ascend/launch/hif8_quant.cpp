#include "ascend/kernels/hif8_quant.h"

#include "ascend/kernels/scale_epilogue.h"
#include "ascend/launch/quant_types.h"

namespace npu_lp::ascend {

void launch_hif8_quant(Stream stream, FloatType input, const Hif8Tiling& tiling, const void* x, void* partials,
                       void* data, void* scale) {
  if (tiling.blocks == 0) return;
  with_float(input, [&](auto in) {
    using In = typename decltype(in)::type;
    if (tiling.amax_blocks > 0) {
      NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(hif8_amax<In>), tiling.amax_blocks, stream, gm(x), gm(partials), tiling);
    }
    NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(hif8_quant<In>), tiling.blocks, stream, gm(x), gm(partials), gm(data),
                  gm(scale), tiling);
  });
}

void launch_scale_epilogue(Stream stream, FloatType out_type, const EpilogueTiling& tiling, const void* acc,
                           const void* row_scale, const void* column_scale, const void* bias, void* out) {
  if (tiling.blocks == 0) return;
  with_float(out_type, [&](auto value) {
    using Out = typename decltype(value)::type;
    NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(scale_epilogue<Out>), tiling.blocks, stream, gm(acc), gm(row_scale),
                  gm(column_scale), gm(bias), gm(out), tiling);
  });
}

}  // namespace npu_lp::ascend
