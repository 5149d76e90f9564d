// The end of a matmul whose scales Fixpipe cannot apply: out = acc * column scale * row scale (+ bias), in fp32 and in
// this order, rounded once to the output's type.
#pragma once

#include "ascend/kernels/float_output.h"
#include "ascend/kernels/row_blocks.h"
#include "ascend/kernels/vector_copy.h"

namespace npu_lp::ascend {

// One value to the whole of a row of scales.
__simd_vf__ inline void spread_scalar(__ubuf__ float* scales, uint32_t pitch) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::RegTensor<float> value;
  Reg::LoadAlign<float, Reg::LoadDist::DIST_BRC_B32>(value, scales);
  const uint16_t steps = static_cast<uint16_t>(pitch / kLanes);
  for (uint16_t i = 0; i < steps; ++i) Reg::StoreAlign(scales + i * kLanes, value, all);
}

template <typename Out>
__simd_vf__ inline void scale_tile(__ubuf__ float* acc, __ubuf__ Out* out, __ubuf__ float* columns,
                                   __ubuf__ float* rows_scale, uint16_t rows, uint32_t pitch, uint32_t row_step) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::MaskReg stored = all, stored2 = all;
  Reg::RegTensor<uint32_t> nan;
  Reg::RegTensor<float> even, odd, even_scale, odd_scale, row_scale;
  Reg::Duplicate(nan, static_cast<uint32_t>(kNaNBits));
  const uint16_t groups = static_cast<uint16_t>((pitch + kGroup - 1) / kGroup);
  uint32_t left = pitch;
  for (uint16_t group = 0; group < groups; ++group) {
    next_masks<Out>(stored, stored2, left);
    Reg::LoadAlign<float, Reg::LoadDist::DIST_DINTLV_B32>(even_scale, odd_scale, columns + group * kGroup);
    for (uint16_t row = 0; row < rows; ++row) {
      Reg::LoadAlign<float, Reg::LoadDist::DIST_BRC_B32>(row_scale, rows_scale + row * row_step);
      Reg::LoadAlign<float, Reg::LoadDist::DIST_DINTLV_B32>(even, odd, acc + row * pitch + group * kGroup);
      Reg::Mul(even, even, even_scale, all);
      Reg::Mul(odd, odd, odd_scale, all);
      Reg::Mul(even, even, row_scale, all);
      Reg::Mul(odd, odd, row_scale, all);
      store_values(out + row * pitch + group * kGroup, even, odd, nan, all, stored, stored2);
    }
  }
}

// The products go back to UB before the bias is added to them: a compiler that sees both makes one fused
// multiply-add, which rounds once instead of twice.
template <typename Out>
__simd_vf__ inline void scale_tile_bias(__ubuf__ float* acc, __ubuf__ Out* out, __ubuf__ float* columns,
                                        __ubuf__ float* rows_scale, __ubuf__ float* bias, uint16_t rows, uint32_t pitch,
                                        uint32_t row_step) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::MaskReg stored = all, stored2 = all;
  Reg::RegTensor<uint32_t> nan;
  Reg::RegTensor<float> even, odd, even_bias, odd_bias, row_scale;
  Reg::Duplicate(nan, static_cast<uint32_t>(kNaNBits));
  const uint16_t steps = static_cast<uint16_t>(pitch / kLanes);
  for (uint16_t row = 0; row < rows; ++row) {
    Reg::LoadAlign<float, Reg::LoadDist::DIST_BRC_B32>(row_scale, rows_scale + row * row_step);
    for (uint16_t i = 0; i < steps; ++i) {
      Reg::LoadAlign(even, acc + row * pitch + i * kLanes);
      Reg::LoadAlign(odd, columns + i * kLanes);
      Reg::Mul(even, even, odd, all);
      Reg::Mul(even, even, row_scale, all);
      Reg::StoreAlign(acc + row * pitch + i * kLanes, even, all);
    }
  }
  wait_for_stores();
  const uint16_t groups = static_cast<uint16_t>((pitch + kGroup - 1) / kGroup);
  uint32_t left = pitch;
  for (uint16_t group = 0; group < groups; ++group) {
    next_masks<Out>(stored, stored2, left);
    Reg::LoadAlign<float, Reg::LoadDist::DIST_DINTLV_B32>(even_bias, odd_bias, bias + group * kGroup);
    for (uint16_t row = 0; row < rows; ++row) {
      Reg::LoadAlign<float, Reg::LoadDist::DIST_DINTLV_B32>(even, odd, acc + row * pitch + group * kGroup);
      Reg::Add(even, even, even_bias, all);
      Reg::Add(odd, odd, odd_bias, all);
      store_values(out + row * pitch + group * kGroup, even, odd, nan, all, stored, stored2);
    }
  }
}

template <typename Out>
class ScaleEpilogue {
 public:
  __aicore__ inline ScaleEpilogue(AscendC::TPipe& pipe, GM_ADDR acc, GM_ADDR row_scale, GM_ADDR column_scale,
                                  GM_ADDR bias, GM_ADDR out, const EpilogueTiling& tiling)
      : tiling_(tiling) {
    acc_.SetGlobalBuffer(acc);
    row_scale_.SetGlobalBuffer(row_scale);
    column_scale_.SetGlobalBuffer(column_scale);
    bias_.SetGlobalBuffer(bias);
    out_.SetGlobalBuffer(out);
    pipe.InitBuffer(acc_in_, 2, tiling.acc_bytes);
    pipe.InitBuffer(row_in_, 2, tiling.row_scale_bytes);
    pipe.InitBuffer(column_in_, 1, tiling.column_bytes);
    if (tiling.has_bias != 0) pipe.InitBuffer(bias_in_, 1, tiling.column_bytes);
    pipe.InitBuffer(values_, 2, tiling.out_bytes);
  }

  // Tiles go down the rows first, so that the scales of a chunk of columns are loaded once.
  __aicore__ inline void run() {
    const uint64_t strips = (tiling_.rows + tiling_.tile_rows - 1) / tiling_.tile_rows;
    const Share share = share_of(tiling_.slices * tiling_.chunks * strips);
    LocalTensor<uint8_t> columns, bias;
    for (uint64_t unit = share.begin; unit < share.end; ++unit) {
      const uint64_t strip = unit % strips, slice = unit / strips / tiling_.chunks;
      const uint64_t column = unit / strips % tiling_.chunks * tiling_.chunk, left = tiling_.cols - column;
      const uint32_t cols = left < tiling_.chunk ? static_cast<uint32_t>(left) : tiling_.chunk;
      if (unit == share.begin || strip == 0) {
        if (unit != share.begin) free_columns(columns, bias);
        load_columns(columns, bias, slice, column, cols);
      }
      tile(columns, bias, slice, strip * tiling_.tile_rows, column, cols);
    }
    if (share.begin != share.end) free_columns(columns, bias);
  }

 private:
  static constexpr uint32_t kFloat = sizeof(float);

  __aicore__ inline void load_columns(LocalTensor<uint8_t>& columns, LocalTensor<uint8_t>& bias, uint64_t slice,
                                      uint64_t column, uint32_t cols) {
    const uint64_t first = slice * tiling_.column_slice + column * tiling_.column_step;
    columns = column_in_.template AllocTensor<uint8_t>();
    copy_in(columns, column_scale_[first * kFloat], 1, (tiling_.column_step == 0 ? 1 : cols) * kFloat, 0, 0);
    column_in_.EnQue(columns);
    columns = column_in_.template DeQue<uint8_t>();
    if (tiling_.column_step == 0) {
      asc_vf_call<spread_scalar>((__ubuf__ float*)columns.GetPhyAddr(), round_up(cols, kTail));
    }
    if (tiling_.has_bias == 0) return;
    bias = bias_in_.template AllocTensor<uint8_t>();
    copy_in(bias, bias_[column * kFloat], 1, cols * kFloat, 0, 0);
    bias_in_.EnQue(bias);
    bias = bias_in_.template DeQue<uint8_t>();
  }

  __aicore__ inline void free_columns(LocalTensor<uint8_t>& columns, LocalTensor<uint8_t>& bias) {
    column_in_.FreeTensor(columns);
    if (tiling_.has_bias != 0) bias_in_.FreeTensor(bias);
  }

  __aicore__ inline void tile(const LocalTensor<uint8_t>& columns, const LocalTensor<uint8_t>& bias, uint64_t slice,
                              uint64_t row, uint64_t column, uint32_t cols) {
    const uint64_t down = tiling_.rows - row, first = (slice * tiling_.rows + row) * tiling_.cols + column;
    const uint32_t rows = down < tiling_.tile_rows ? static_cast<uint32_t>(down) : tiling_.tile_rows;
    const uint32_t pitch = round_up(cols, kTail);
    LocalTensor<uint8_t> acc = acc_in_.template AllocTensor<uint8_t>();
    copy_in(acc, acc_[first * kFloat], rows, cols * kFloat, tiling_.cols * kFloat, pitch * kFloat);
    acc_in_.EnQue(acc);
    LocalTensor<uint8_t> row_scale = row_in_.template AllocTensor<uint8_t>();
    if (tiling_.has_row != 0) {
      copy_in(row_scale, row_scale_[(slice * tiling_.row_slice + row * tiling_.row_step) * kFloat], 1,
              (tiling_.row_step == 0 ? 1 : rows) * kFloat, 0, 0);
    }
    row_in_.EnQue(row_scale);

    acc = acc_in_.template DeQue<uint8_t>();
    row_scale = row_in_.template DeQue<uint8_t>();
    if (tiling_.has_row == 0) AscendC::Duplicate(row_scale.template ReinterpretCast<float>(), 1.0f, 8);
    LocalTensor<uint8_t> out = values_.template AllocTensor<uint8_t>();
    if (tiling_.has_bias != 0) {
      asc_vf_call<scale_tile_bias<Out>>((__ubuf__ float*)acc.GetPhyAddr(), (__ubuf__ Out*)out.GetPhyAddr(),
                                        (__ubuf__ float*)columns.GetPhyAddr(), (__ubuf__ float*)row_scale.GetPhyAddr(),
                                        (__ubuf__ float*)bias.GetPhyAddr(), static_cast<uint16_t>(rows), pitch,
                                        tiling_.row_step);
    } else {
      asc_vf_call<scale_tile<Out>>((__ubuf__ float*)acc.GetPhyAddr(), (__ubuf__ Out*)out.GetPhyAddr(),
                                   (__ubuf__ float*)columns.GetPhyAddr(), (__ubuf__ float*)row_scale.GetPhyAddr(),
                                   static_cast<uint16_t>(rows), pitch, tiling_.row_step);
    }
    acc_in_.FreeTensor(acc);
    row_in_.FreeTensor(row_scale);
    values_.EnQue(out);
    out = values_.template DeQue<uint8_t>();
    copy_out(out_[first * sizeof(Out)], out, rows, cols * sizeof(Out), tiling_.cols * sizeof(Out), pitch * sizeof(Out));
    values_.FreeTensor(out);
  }

  EpilogueTiling tiling_;
  GlobalTensor<uint8_t> acc_, row_scale_, column_scale_, bias_, out_;
  AscendC::TQue<TPosition::VECIN, 2> acc_in_, row_in_;
  AscendC::TQue<TPosition::VECIN, 1> column_in_, bias_in_;
  AscendC::TQue<TPosition::VECOUT, 2> values_;
};

template <typename Out>
__global__ __vector__ void scale_epilogue(GM_ADDR acc, GM_ADDR row_scale, GM_ADDR column_scale, GM_ADDR bias,
                                          GM_ADDR out, EpilogueTiling tiling) {
  AscendC::TPipe pipe;
  AscendC::SetCtrlSpr<60, 60>(0);  // after TPipe, which resets the register: casts follow their own SatMode
  ScaleEpilogue<Out>(pipe, acc, row_scale, column_scale, bias, out, tiling).run();
}

}  // namespace npu_lp::ascend
