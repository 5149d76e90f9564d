// mx_quant along the last two axes at once, reading x once: a tile of 64 rows gives the blocks along both.
#pragma once

#include "ascend/kernels/column_blocks.h"
#include "ascend/kernels/vector_copy.h"

namespace npu_lp::ascend {

// The two axes' rules differ in how fp32 and fp16 maxima become bf16 only: the columns' is given as column_bf16_add.
template <typename In, typename To>
__simd_vf__ inline void quantize_both(__ubuf__ In* x, __ubuf__ uint8_t* y_row, __ubuf__ uint8_t* y_col,
                                      __ubuf__ uint8_t* scale_row, __ubuf__ uint8_t* scale_col,
                                      __ubuf__ BitsOf<In>* amax, __ubuf__ uint32_t* multiplier, uint32_t pitch,
                                      uint16_t first, uint16_t second, uint16_t tail_rows, uint32_t keep,
                                      int32_t column_bf16_add, NPU_LP_RULE_PARAMETERS) {
  QuantRule rule = NPU_LP_RULE;
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  const uint32_t elements = (static_cast<uint32_t>(first) + second) * pitch;
  RuleRegisters constants;
  load_rule(constants, rule);
  clear_tails(x, tail_rows, pitch, keep);
  wait_for_stores();
  row_amax(amax, x, elements, all);
  wait_for_stores();
  row_scales<In>(scale_row, multiplier, amax, elements / kBlockElements, constants, rule, all);
  wait_for_stores();
  row_encode<In, To>(y_row, x, multiplier, elements, all);
  rule.bf16_add = column_bf16_add;
  load_rule(constants, rule);
  column_pair<In, To>(x, y_col, scale_col, pitch, first, second, constants, rule, all);
}

template <typename In, typename To>
class MxQuantDual {
 public:
  __aicore__ inline MxQuantDual(AscendC::TPipe& pipe, GM_ADDR x, GM_ADDR y_row, GM_ADDR scale_row, GM_ADDR y_col,
                                GM_ADDR scale_col, const ColumnTiling& tiling, const QuantRule& row_rule,
                                const QuantRule& column_rule)
      : tiling_(tiling),
        rule_(row_rule),
        column_bf16_add_(column_rule.bf16_add),
        scale_pitch_((tiling.inner + kTail - 1) / kTail * 2) {
    x_.SetGlobalBuffer(x);
    y_row_.SetGlobalBuffer(y_row);
    y_col_.SetGlobalBuffer(y_col);
    scale_row_.SetGlobalBuffer(scale_row);
    scale_col_.SetGlobalBuffer(scale_col);
    pipe.InitBuffer(in_, 2, tiling.wide_bytes);
    pipe.InitBuffer(row_out_, 2, tiling.narrow_bytes);
    pipe.InitBuffer(col_out_, 2, tiling.narrow_bytes);
    pipe.InitBuffer(scale_row_out_, 2, tiling.row_scale_bytes);
    pipe.InitBuffer(scale_col_out_, 2, tiling.column_scale_bytes);
    pipe.InitBuffer(amax_, tiling.amax_bytes);
    pipe.InitBuffer(multiplier_, tiling.multiplier_bytes);
  }

  __aicore__ inline void run() {
    const Share share = share_of(tiling_.slices * tiling_.pairs * tiling_.chunks);
    for (uint64_t unit = share.begin; unit < share.end; ++unit) {
      const uint64_t strip = unit / tiling_.chunks;
      tile(strip / tiling_.pairs, strip % tiling_.pairs, unit % tiling_.chunks * tiling_.chunk);
    }
  }

 private:
  __aicore__ inline void tile(uint64_t slice, uint64_t pair, uint64_t column) {
    const uint64_t left = tiling_.inner - column, down = tiling_.depth - pair * kTail;
    const uint32_t cols = left < tiling_.chunk ? static_cast<uint32_t>(left) : tiling_.chunk;
    const uint32_t rows = down < kTail ? static_cast<uint32_t>(down) : kTail, pitch = round_up(cols, kTail);
    const uint32_t upper = rows < kBlockElements ? rows : kBlockElements;
    const uint64_t row = slice * tiling_.depth + pair * kTail, first = row * tiling_.inner + column;

    LocalTensor<uint8_t> x = in_.template AllocTensor<uint8_t>();
    copy_in(x, x_[first * sizeof(In)], rows, cols * sizeof(In), tiling_.inner * sizeof(In), pitch * sizeof(In));
    in_.EnQue(x);

    x = in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> y_row = row_out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> y_col = col_out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> scale_row = scale_row_out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> scale_col = scale_col_out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> amax = amax_.template Get<uint8_t>(), multiplier = multiplier_.template Get<uint8_t>();
    asc_vf_call<quantize_both<In, To>>(
        (__ubuf__ In*)x.GetPhyAddr(), (__ubuf__ uint8_t*)y_row.GetPhyAddr(), (__ubuf__ uint8_t*)y_col.GetPhyAddr(),
        (__ubuf__ uint8_t*)scale_row.GetPhyAddr(), (__ubuf__ uint8_t*)scale_col.GetPhyAddr(),
        (__ubuf__ BitsOf<In>*)amax.GetPhyAddr(), (__ubuf__ uint32_t*)multiplier.GetPhyAddr(), pitch,
        static_cast<uint16_t>(upper), static_cast<uint16_t>(rows - upper),
        static_cast<uint16_t>(cols != pitch ? rows : 0), kTail - (pitch - cols), column_bf16_add_,
        NPU_LP_RULE_ARGUMENTS(rule_));
    in_.FreeTensor(x);
    row_out_.EnQue(y_row);
    scale_row_out_.EnQue(scale_row);
    col_out_.EnQue(y_col);
    scale_col_out_.EnQue(scale_col);

    const uint32_t row_bytes = cols * To::kBits / 8, ub_pitch = pitch * To::kBits / 8;
    const uint64_t gm_pitch = tiling_.inner * To::kBits / 8;
    y_row = row_out_.template DeQue<uint8_t>();
    copy_out(y_row_[first * To::kBits / 8], y_row, rows, row_bytes, gm_pitch, ub_pitch);
    row_out_.FreeTensor(y_row);
    scale_row = scale_row_out_.template DeQue<uint8_t>();
    copy_out_compact(scale_row_[row * scale_pitch_ + column / kBlockElements], scale_row, rows, pitch / kBlockElements,
                     scale_pitch_);
    scale_row_out_.FreeTensor(scale_row);
    y_col = col_out_.template DeQue<uint8_t>();
    copy_out(y_col_[first * To::kBits / 8], y_col, rows, row_bytes, gm_pitch, ub_pitch);
    col_out_.FreeTensor(y_col);
    scale_col = scale_col_out_.template DeQue<uint8_t>();
    copy_out(scale_col_[((slice * tiling_.pairs + pair) * tiling_.inner + column) * 2], scale_col, 1, cols * 2, 0, 0);
    scale_col_out_.FreeTensor(scale_col);
  }

  ColumnTiling tiling_;
  QuantRule rule_;
  int32_t column_bf16_add_;
  uint64_t scale_pitch_;
  GlobalTensor<uint8_t> x_, y_row_, y_col_, scale_row_, scale_col_;
  AscendC::TQue<TPosition::VECIN, 2> in_;
  AscendC::TQue<TPosition::VECOUT, 2> row_out_, col_out_, scale_row_out_, scale_col_out_;
  AscendC::TBuf<TPosition::VECCALC> amax_, multiplier_;
};

template <typename In, typename To>
__global__ __vector__ void mx_quant_dual(GM_ADDR x, GM_ADDR y_row, GM_ADDR scale_row, GM_ADDR y_col, GM_ADDR scale_col,
                                         ColumnTiling tiling, QuantRule row_rule, QuantRule column_rule) {
  AscendC::TPipe pipe;
  AscendC::SetCtrlSpr<60, 60>(0);  // after TPipe, which resets the register: casts follow their own SatMode
  MxQuantDual<In, To>(pipe, x, y_row, scale_row, y_col, scale_col, tiling, row_rule, column_rule).run();
}

}  // namespace npu_lp::ascend
