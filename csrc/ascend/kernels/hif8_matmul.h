// Products of HiF8 matrices. With scale_out, Fixpipe multiplies each result by the product of the two fp32 scales, cut
// to 10 bits of mantissa; without, the plain fp32 sums are stored, for scale_epilogue to finish.
#pragma once

#include "ascend/kernels/block_mmad.h"
#include "ascend/kernels/matmul_schedule.h"

namespace npu_lp::ascend {

__global__ __cube__ inline void hif8_matmul(GM_ADDR a, GM_ADDR b, GM_ADDR a_scale, GM_ADDR b_scale, GM_ADDR out,
                                            MatmulTiling tiling) {
  AscendC::InitSocState();
  OutScales scales;
  scales.Init(a_scale, b_scale, tiling);
  BatchSchedule schedule;
  schedule.Init(&tiling, scales.Bits(0));
  BlockMmad<hifloat8_t, hifloat8_t, false> block;
  block.Init(a, b, nullptr, nullptr, nullptr, out, &tiling);
  block.Run(schedule);
}

__global__ __cube__ inline void hif8_grouped_matmul(GM_ADDR a, GM_ADDR b, GM_ADDR a_scale, GM_ADDR b_scale,
                                                    GM_ADDR offsets, GM_ADDR out, MatmulTiling tiling) {
  AscendC::InitSocState();
  GroupSchedule schedule;
  schedule.Init(&tiling, offsets, a_scale, b_scale);
  BlockMmad<hifloat8_t, hifloat8_t, false> block;
  block.Init(a, b, nullptr, nullptr, nullptr, out, &tiling);
  block.Run(schedule);
}

}  // namespace npu_lp::ascend
