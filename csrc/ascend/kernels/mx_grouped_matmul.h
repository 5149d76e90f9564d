// Products of the groups of two MX matrices. Split m: rows of A, each group with a B of its own; rows after the last
// group become zeros. Split k: ranges of K, each with a result of its own; that of an empty group is zeros.
#pragma once

#include "ascend/kernels/block_mmad.h"
#include "ascend/kernels/matmul_schedule.h"

namespace npu_lp::ascend {

// offsets: the groups' ends, int64, ascending.
template <typename TA, typename TB>
__global__ __cube__ void mx_grouped_matmul(GM_ADDR a, GM_ADDR b, GM_ADDR a_scale, GM_ADDR b_scale, GM_ADDR offsets,
                                           GM_ADDR out, MatmulTiling tiling) {
  AscendC::InitSocState();
  GroupSchedule schedule;
  schedule.Init(&tiling, offsets, a_scale, b_scale);
  BlockMmad<TA, TB, true> block;
  block.Init(a, b, a_scale, b_scale, nullptr, out, &tiling);
  block.Run(schedule);
}

}  // namespace npu_lp::ascend
