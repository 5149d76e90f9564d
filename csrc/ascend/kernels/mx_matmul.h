// Product of two MX matrices, for each batch: out = A B (+ bias), or added to out.
#pragma once

#include "ascend/kernels/block_mmad.h"
#include "ascend/kernels/matmul_schedule.h"

namespace npu_lp::ascend {

template <typename TA, typename TB>
__global__ __cube__ void mx_matmul(GM_ADDR a, GM_ADDR b, GM_ADDR a_scale, GM_ADDR b_scale, GM_ADDR bias, GM_ADDR out,
                                   MatmulTiling tiling) {
  AscendC::InitSocState();
  BatchSchedule schedule;
  schedule.Init(&tiling, kScaleOne);
  BlockMmad<TA, TB, true> block;
  block.Init(a, b, a_scale, b_scale, bias, out, &tiling);
  block.Run(schedule);
}

}  // namespace npu_lp::ascend
