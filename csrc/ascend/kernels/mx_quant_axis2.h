// mx_quant along any axis but the last: a batch of matrices [depth, inner] with blocks along depth -> codes, and scale
// bytes [ceil(depth / 64), inner, 2].
#pragma once

#include "ascend/kernels/column_blocks.h"
#include "ascend/kernels/vector_copy.h"

namespace npu_lp::ascend {

// A tile of up to 64 rows.
template <typename In, typename To>
__simd_vf__ inline void quantize_columns(__ubuf__ In* x, __ubuf__ uint8_t* y, __ubuf__ uint8_t* scale, uint32_t pitch,
                                         uint16_t first, uint16_t second, uint16_t tail_rows, uint32_t keep,
                                         NPU_LP_RULE_PARAMETERS) {
  const QuantRule rule = NPU_LP_RULE;
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  RuleRegisters constants;
  load_rule(constants, rule);
  clear_tails(x, tail_rows, pitch, keep);
  wait_for_stores();
  column_pair<In, To>(x, y, scale, pitch, first, second, constants, rule, all);
}

// One pair of blocks in UB, `rows` (up to 64) by `cols`.
template <typename In, typename To>
__aicore__ inline void quantize_pair(const LocalTensor<uint8_t>& x, const LocalTensor<uint8_t>& y,
                                     const LocalTensor<uint8_t>& scale, uint32_t rows, uint32_t cols,
                                     const QuantRule& rule) {
  const uint32_t pitch = round_up(cols, kTail);
  const uint32_t first = rows < kBlockElements ? rows : kBlockElements;
  asc_vf_call<quantize_columns<In, To>>(
      (__ubuf__ In*)x.GetPhyAddr(), (__ubuf__ uint8_t*)y.GetPhyAddr(), (__ubuf__ uint8_t*)scale.GetPhyAddr(), pitch,
      static_cast<uint16_t>(first), static_cast<uint16_t>(rows - first),
      static_cast<uint16_t>(cols != pitch ? rows : 0), kTail - (pitch - cols), NPU_LP_RULE_ARGUMENTS(rule));
}

template <typename In, typename To>
class MxQuantAxis2 {
 public:
  __aicore__ inline MxQuantAxis2(AscendC::TPipe& pipe, GM_ADDR x, GM_ADDR y, GM_ADDR scale, const ColumnTiling& tiling,
                                 const QuantRule& rule)
      : tiling_(tiling), rule_(rule) {
    x_.SetGlobalBuffer(x);
    y_.SetGlobalBuffer(y);
    scale_.SetGlobalBuffer(scale);
    pipe.InitBuffer(in_, 2, tiling.wide_bytes);
    pipe.InitBuffer(out_, 2, tiling.narrow_bytes);
    pipe.InitBuffer(scale_out_, 2, tiling.column_scale_bytes);
  }

  __aicore__ inline void run() {
    const uint64_t strips = (tiling_.pairs + tiling_.tile_pairs - 1) / tiling_.tile_pairs;
    const Share share = share_of(tiling_.slices * strips * tiling_.chunks);
    for (uint64_t unit = share.begin; unit < share.end; ++unit) {
      const uint64_t strip = unit / tiling_.chunks;
      tile(strip / strips, strip % strips * tiling_.tile_pairs, unit % tiling_.chunks * tiling_.chunk);
    }
  }

 private:
  __aicore__ inline void tile(uint64_t slice, uint64_t pair, uint64_t column) {
    const uint64_t left = tiling_.inner - column, down = tiling_.depth - pair * kTail;
    const uint32_t cols = left < tiling_.chunk ? static_cast<uint32_t>(left) : tiling_.chunk;
    const uint32_t full = tiling_.tile_pairs * kTail, rows = down < full ? static_cast<uint32_t>(down) : full;
    const uint32_t pitch = round_up(cols, kTail), pairs = (rows + kTail - 1) / kTail;
    const uint64_t first = (slice * tiling_.depth + pair * kTail) * tiling_.inner + column;

    LocalTensor<uint8_t> x = in_.template AllocTensor<uint8_t>();
    copy_in(x, x_[first * sizeof(In)], rows, cols * sizeof(In), tiling_.inner * sizeof(In), pitch * sizeof(In));
    in_.EnQue(x);

    x = in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> y = out_.template AllocTensor<uint8_t>(), scale = scale_out_.template AllocTensor<uint8_t>();
    for (uint32_t i = 0; i < pairs; ++i) {
      const uint32_t here = rows - i * kTail < kTail ? rows - i * kTail : kTail;
      quantize_pair<In, To>(x[i * kTail * pitch * sizeof(In)], y[i * kTail * pitch * To::kBits / 8],
                            scale[i * pitch * 2], here, cols, rule_);
    }
    in_.FreeTensor(x);
    out_.EnQue(y);
    scale_out_.EnQue(scale);

    y = out_.template DeQue<uint8_t>();
    copy_out(y_[first * To::kBits / 8], y, rows, cols * To::kBits / 8, tiling_.inner * To::kBits / 8,
             pitch * To::kBits / 8);
    out_.FreeTensor(y);
    scale = scale_out_.template DeQue<uint8_t>();
    copy_out(scale_[((slice * tiling_.pairs + pair) * tiling_.inner + column) * 2], scale, pairs, cols * 2,
             tiling_.inner * 2, pitch * 2);
    scale_out_.FreeTensor(scale);
  }

  ColumnTiling tiling_;
  QuantRule rule_;
  GlobalTensor<uint8_t> x_, y_, scale_;
  AscendC::TQue<TPosition::VECIN, 2> in_;
  AscendC::TQue<TPosition::VECOUT, 2> out_, scale_out_;
};

template <typename In, typename To>
__global__ __vector__ void mx_quant_axis2(GM_ADDR x, GM_ADDR y, GM_ADDR scale, ColumnTiling tiling, QuantRule rule) {
  AscendC::TPipe pipe;
  AscendC::SetCtrlSpr<60, 60>(0);  // after TPipe, which resets the register: casts follow their own SatMode
  MxQuantAxis2<In, To>(pipe, x, y, scale, tiling, rule).run();
}

}  // namespace npu_lp::ascend
