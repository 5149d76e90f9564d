// The kernels of hif8_quant: hif8_amax leaves partial maxima in `partials`, hif8_quant makes scales and codes of them.
#pragma once

#include "ascend/kernels/hif8_columns.h"
#include "ascend/kernels/hif8_rows.h"

namespace npu_lp::ascend {

template <typename In>
__global__ __vector__ void hif8_amax(GM_ADDR x, GM_ADDR partials, Hif8Tiling tiling) {
  AscendC::TPipe pipe;
  if (tiling.by_columns != 0) {
    Hif8AmaxColumns<In>(pipe, x, partials, tiling).run();
  } else {
    Hif8AmaxRows<In>(pipe, x, partials, tiling).run();
  }
}

template <typename In>
__global__ __vector__ void hif8_quant(GM_ADDR x, GM_ADDR partials, GM_ADDR y, GM_ADDR scale, Hif8Tiling tiling) {
  AscendC::TPipe pipe;
  AscendC::SetCtrlSpr<60, 60>(0);  // after TPipe, which resets the register: casts follow their own SatMode
  if (tiling.by_columns != 0) {
    Hif8QuantColumns<In>(pipe, x, partials, y, scale, tiling).run();
  } else {
    Hif8QuantRows<In>(pipe, x, partials, y, scale, tiling).run();
  }
}

}  // namespace npu_lp::ascend
