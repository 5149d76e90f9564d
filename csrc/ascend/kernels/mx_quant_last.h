// mx_quant along the last axis: [rows, cols] floats -> codes, and scale bytes [rows, ceil(cols / 64), 2].
#pragma once

#include "ascend/kernels/row_blocks.h"
#include "ascend/kernels/vector_copy.h"

namespace npu_lp::ascend {

template <typename In, typename To>
__simd_vf__ inline void quantize_rows(__ubuf__ In* x, __ubuf__ uint8_t* y, __ubuf__ uint8_t* scale,
                                      __ubuf__ BitsOf<In>* amax, __ubuf__ uint32_t* multiplier, uint16_t tail_rows,
                                      uint32_t pitch, uint32_t keep, uint32_t elements, NPU_LP_RULE_PARAMETERS) {
  const QuantRule rule = NPU_LP_RULE;
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  RuleRegisters constants;
  load_rule(constants, rule);
  clear_tails(x, tail_rows, pitch, keep);
  wait_for_stores();
  row_amax(amax, x, elements, all);
  wait_for_stores();
  row_scales<In>(scale, multiplier, amax, elements / kBlockElements, constants, rule, all);
  wait_for_stores();
  row_encode<In, To>(y, x, multiplier, elements, all);
}

template <typename In, typename To>
class MxQuantLast {
 public:
  __aicore__ inline MxQuantLast(AscendC::TPipe& pipe, GM_ADDR x, GM_ADDR y, GM_ADDR scale, const RowTiling& tiling,
                                const QuantRule& rule)
      : tiling_(tiling), rule_(rule), scale_pitch_((tiling.cols + kTail - 1) / kTail * 2) {
    x_.SetGlobalBuffer(x);
    y_.SetGlobalBuffer(y);
    scale_.SetGlobalBuffer(scale);
    pipe.InitBuffer(in_, 2, tiling.wide_bytes);
    pipe.InitBuffer(out_, 2, tiling.narrow_bytes);
    pipe.InitBuffer(scale_out_, 2, tiling.scale_bytes);
    pipe.InitBuffer(amax_, tiling.amax_bytes);
    pipe.InitBuffer(multiplier_, tiling.multiplier_bytes);
  }

  __aicore__ inline void run() {
    const Share share = share_of(tiling_.rows * tiling_.chunks);
    uint64_t row = share.begin / tiling_.chunks;
    uint32_t piece = static_cast<uint32_t>(share.begin % tiling_.chunks);
    for (uint64_t unit = share.begin; unit < share.end;) {
      const uint64_t left = share.end - unit;
      const uint32_t rows = left < tiling_.tile_rows ? static_cast<uint32_t>(left) : tiling_.tile_rows;
      tile(row, static_cast<uint64_t>(piece) * tiling_.chunk, rows);
      unit += rows;
      piece += tiling_.chunks > 1 ? 1 : 0;
      if (piece == tiling_.chunks || tiling_.chunks == 1) {
        piece = 0;
        row += rows;
      }
    }
  }

 private:
  __aicore__ inline void tile(uint64_t row, uint64_t column, uint32_t rows) {
    const uint64_t left = tiling_.cols - column;
    const uint32_t cols = left < tiling_.chunk ? static_cast<uint32_t>(left) : tiling_.chunk;
    const uint32_t pitch = round_up(cols, kTail), elements = rows * pitch;
    const uint64_t first = row * tiling_.cols + column;

    LocalTensor<uint8_t> x = in_.template AllocTensor<uint8_t>();
    copy_in(x, x_[first * sizeof(In)], rows, cols * sizeof(In), tiling_.cols * sizeof(In), pitch * sizeof(In));
    in_.EnQue(x);

    x = in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> y = out_.template AllocTensor<uint8_t>(), scale = scale_out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> amax = amax_.template Get<uint8_t>(), multiplier = multiplier_.template Get<uint8_t>();
    const bool tails = cols != pitch;
    asc_vf_call<quantize_rows<In, To>>(
        (__ubuf__ In*)x.GetPhyAddr(), (__ubuf__ uint8_t*)y.GetPhyAddr(), (__ubuf__ uint8_t*)scale.GetPhyAddr(),
        (__ubuf__ BitsOf<In>*)amax.GetPhyAddr(), (__ubuf__ uint32_t*)multiplier.GetPhyAddr(),
        static_cast<uint16_t>(tails ? rows : 0), pitch, kTail - (pitch - cols), elements, NPU_LP_RULE_ARGUMENTS(rule_));
    in_.FreeTensor(x);
    out_.EnQue(y);
    scale_out_.EnQue(scale);

    y = out_.template DeQue<uint8_t>();
    copy_out(y_[first * To::kBits / 8], y, rows, cols * To::kBits / 8, tiling_.cols * To::kBits / 8,
             pitch * To::kBits / 8);
    out_.FreeTensor(y);
    scale = scale_out_.template DeQue<uint8_t>();
    copy_out_compact(scale_[row * scale_pitch_ + column / kBlockElements], scale, rows, pitch / kBlockElements,
                     scale_pitch_);
    scale_out_.FreeTensor(scale);
  }

  RowTiling tiling_;
  QuantRule rule_;
  uint64_t scale_pitch_;
  GlobalTensor<uint8_t> x_, y_, scale_;
  AscendC::TQue<TPosition::VECIN, 2> in_;
  AscendC::TQue<TPosition::VECOUT, 2> out_, scale_out_;
  AscendC::TBuf<TPosition::VECCALC> amax_, multiplier_;
};

template <typename In, typename To>
__global__ __vector__ void mx_quant_last(GM_ADDR x, GM_ADDR y, GM_ADDR scale, RowTiling tiling, QuantRule rule) {
  AscendC::TPipe pipe;
  AscendC::SetCtrlSpr<60, 60>(0);  // after TPipe, which resets the register: casts follow their own SatMode
  MxQuantLast<In, To>(pipe, x, y, scale, tiling, rule).run();
}

}  // namespace npu_lp::ascend
