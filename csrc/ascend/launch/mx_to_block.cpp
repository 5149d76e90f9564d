#include "ascend/kernels/mx_to_block.h"

#include "ascend/launch/launcher.h"
#include "ascend/launch/quant.h"

namespace npu_lp::ascend {

void launch_mx_to_block(Stream stream, const ToBlockTiling& tiling, const ToBlockTable& table, bool nan_as_number,
                        const void* data, const void* scale, void* out, void* scale_row, void* scale_col,
                        void* changed) {
  if (tiling.blocks == 0) return;
  const uint32_t nan_above = nan_as_number ? 255 : 254;
  if (table.registers == 1) {
    NPU_LP_LAUNCH(vector, mx_to_block<1>, tiling.blocks, stream, gm(data), gm(scale), gm(out), gm(scale_row),
                  gm(scale_col), gm(changed), tiling, table, nan_above);
  } else {
    NPU_LP_LAUNCH(vector, mx_to_block<2>, tiling.blocks, stream, gm(data), gm(scale), gm(out), gm(scale_row),
                  gm(scale_col), gm(changed), tiling, table, nan_above);
  }
}

}  // namespace npu_lp::ascend
