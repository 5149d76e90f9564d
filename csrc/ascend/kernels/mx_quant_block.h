// mx_quant_block: one scale for a tile of 32x32, written for every row of the tile (along axis -1) and for every column
// (along axis -2), so that the same codes serve matmuls over either.
#pragma once

#include "ascend/kernels/column_blocks.h"
#include "ascend/kernels/vector_copy.h"

namespace npu_lp::ascend {

constexpr uint32_t kTileRow = 32;         // bytes in UB of a row's scales: up to 1024 columns
constexpr uint32_t kSpread = 2 * kLanes;  // words of one set of multipliers, each twice

// Largest magnitude of each column over `rows` rows, in the order of the columns.
template <typename In>
__simd_callee__ inline void store_column_amax(__ubuf__ BitsOf<In>* amax, __ubuf__ In* x, uint32_t pitch, uint16_t rows,
                                              Reg::MaskReg& all) {
  using Bits = BitsOf<In>;
  constexpr uint32_t kWidth = 256 / sizeof(In);
  __ubuf__ Bits* bits = (__ubuf__ Bits*)x;
  Reg::RegTensor<Bits> magnitude, largest, values;
  Reg::Duplicate(magnitude, static_cast<Bits>(kAbsBits<In>));
  const uint16_t groups = static_cast<uint16_t>((pitch + kWidth - 1) / kWidth);
  for (uint16_t group = 0; group < groups; ++group) {
    Reg::Duplicate(largest, static_cast<Bits>(0));
    for (uint16_t row = 0; row < rows; ++row) {
      Reg::LoadAlign(values, bits + group * kWidth + row * pitch);
      Reg::And(values, values, magnitude, all);
      Reg::Max(largest, largest, values, all);
    }
    Reg::StoreAlign(amax + group * kWidth, largest, all);
  }
}

// Rows of codes with the multipliers of a row of tiles.
template <typename In, typename To>
__simd_callee__ inline void encode_tiles(__ubuf__ uint8_t* y, __ubuf__ In* x, __ubuf__ uint32_t* multiplier,
                                         uint32_t pitch, uint16_t rows, Reg::MaskReg& all) {
  const uint16_t groups = static_cast<uint16_t>((pitch + kGroup - 1) / kGroup);
  const uint32_t y_pitch = pitch * To::kBits / 8;
  uint32_t lanes = pitch / 2;
  Reg::RegTensor<uint32_t> first, second;
  for (uint16_t group = 0; group < groups; ++group) {
    Reg::MaskReg stored = Reg::UpdateMask<uint32_t>(lanes);
    load_multipliers<In, To>(first, second, multiplier + group * 8);
    for (uint16_t row = 0; row < rows; ++row) {
      encode<In, To>(y + group * (kGroup * To::kBits / 8) + row * y_pitch, x + group * kGroup + row * pitch, first,
                     second, all, stored);
    }
  }
}

// Working memory. `amax`: two rows of `columns` column maxima, then two of tiles; `multiplier`: two sets of
// multipliers, one of scale words, each kSpread long, then two rows of scale bytes.
template <typename In, typename To>
__simd_vf__ inline void quantize_tiles(__ubuf__ In* x, __ubuf__ uint8_t* y, __ubuf__ uint8_t* scale_row,
                                       __ubuf__ uint8_t* scale_col, __ubuf__ BitsOf<In>* amax,
                                       __ubuf__ uint32_t* multiplier, uint32_t columns, uint32_t pitch, uint16_t first,
                                       uint16_t second, uint16_t tail_rows, uint32_t keep, NPU_LP_RULE_PARAMETERS) {
  const QuantRule rule = NPU_LP_RULE;
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  RuleRegisters constants;
  load_rule(constants, rule);
  __ubuf__ In* lower = x + kBlockElements * pitch;
  __ubuf__ BitsOf<In>* tile_amax = amax + 2 * columns;
  __ubuf__ uint32_t* words = multiplier + 2 * kSpread;
  __ubuf__ uint8_t* bytes = (__ubuf__ uint8_t*)(multiplier + 3 * kSpread);

  clear_tails(x, tail_rows, pitch, keep);
  wait_for_stores();
  store_column_amax(amax, x, pitch, first, all);
  store_column_amax(amax + columns, lower, pitch, second, all);
  wait_for_stores();
  row_amax(tile_amax, (__ubuf__ In*)amax, pitch, all);
  row_amax(tile_amax + kLanes, (__ubuf__ In*)(amax + columns), pitch, all);
  wait_for_stores();

  Reg::RegTensor<int32_t> bits, byte, byte2;
  Reg::RegTensor<uint32_t> multipliers, multipliers2;
  load_amax<In>(bits, tile_amax, all);
  scale_of(byte, multipliers, bits, constants, rule, all);
  load_amax<In>(bits, tile_amax + kLanes, all);
  scale_of(byte2, multipliers2, bits, constants, rule, all);
  Reg::StoreAlign<uint8_t, Reg::StoreDist::DIST_PACK4_B32>(bytes, (Reg::RegTensor<uint8_t>&)byte, all);
  Reg::StoreAlign<uint8_t, Reg::StoreDist::DIST_PACK4_B32>(bytes + kLanes, (Reg::RegTensor<uint8_t>&)byte2, all);
  Reg::ShiftLefts(byte2, byte2, static_cast<int16_t>(8), all);
  Reg::Or(byte, byte, byte2, all);
  Reg::ShiftLefts(byte2, byte, static_cast<int16_t>(16), all);
  Reg::Or(byte, byte, byte2, all);
  Reg::StoreAlign<int32_t, Reg::StoreDist::DIST_INTLV_B32>((__ubuf__ int32_t*)words, byte, byte, all);
  Reg::RegTensor<uint32_t> packed;
  pack_multipliers<In>(packed, multipliers, all);
  Reg::StoreAlign<uint32_t, Reg::StoreDist::DIST_INTLV_B32>(multiplier, packed, packed, all);
  pack_multipliers<In>(packed, multipliers2, all);
  Reg::StoreAlign<uint32_t, Reg::StoreDist::DIST_INTLV_B32>(multiplier + kSpread, packed, packed, all);
  wait_for_stores();

  uint32_t row_bytes = kTileRow;
  Reg::MaskReg row_mask = Reg::UpdateMask<uint8_t>(row_bytes);
  Reg::RegTensor<uint8_t> tile_bytes;
  Reg::LoadAlign(tile_bytes, bytes);
  for (uint16_t row = 0; row < first; ++row) Reg::StoreAlign(scale_row + row * kTileRow, tile_bytes, row_mask);
  Reg::LoadAlign(tile_bytes, bytes + kLanes);
  for (uint16_t row = 0; row < second; ++row) {
    Reg::StoreAlign(scale_row + (kBlockElements + row) * kTileRow, tile_bytes, row_mask);
  }
  const uint16_t groups = static_cast<uint16_t>((pitch + kGroup - 1) / kGroup);
  for (uint16_t group = 0; group < groups; ++group) {
    Reg::LoadAlign<uint32_t, Reg::LoadDist::DIST_E2B_B32>(multipliers, words + group * 8);
    Reg::StoreAlign((__ubuf__ uint32_t*)scale_col + group * kLanes, multipliers, all);
  }
  encode_tiles<In, To>(y, x, multiplier, pitch, first, all);
  encode_tiles<In, To>(y + kBlockElements * pitch * To::kBits / 8, lower, multiplier + kSpread, pitch, second, all);
}

template <typename In, typename To>
class MxQuantBlock {
 public:
  __aicore__ inline MxQuantBlock(AscendC::TPipe& pipe, GM_ADDR x, GM_ADDR y, GM_ADDR scale_row, GM_ADDR scale_col,
                                 const ColumnTiling& tiling, const QuantRule& rule)
      : tiling_(tiling), rule_(rule), scale_pitch_((tiling.inner + kTail - 1) / kTail * 2) {
    x_.SetGlobalBuffer(x);
    y_.SetGlobalBuffer(y);
    scale_row_.SetGlobalBuffer(scale_row);
    scale_col_.SetGlobalBuffer(scale_col);
    pipe.InitBuffer(in_, 2, tiling.wide_bytes);
    pipe.InitBuffer(out_, 2, tiling.narrow_bytes);
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
    LocalTensor<uint8_t> y = out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> scale_row = scale_row_out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> scale_col = scale_col_out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> amax = amax_.template Get<uint8_t>(), multiplier = multiplier_.template Get<uint8_t>();
    asc_vf_call<quantize_tiles<In, To>>(
        (__ubuf__ In*)x.GetPhyAddr(), (__ubuf__ uint8_t*)y.GetPhyAddr(), (__ubuf__ uint8_t*)scale_row.GetPhyAddr(),
        (__ubuf__ uint8_t*)scale_col.GetPhyAddr(), (__ubuf__ BitsOf<In>*)amax.GetPhyAddr(),
        (__ubuf__ uint32_t*)multiplier.GetPhyAddr(), round_up(pitch, 256u), pitch, static_cast<uint16_t>(upper),
        static_cast<uint16_t>(rows - upper), static_cast<uint16_t>(cols != pitch ? rows : 0), kTail - (pitch - cols),
        NPU_LP_RULE_ARGUMENTS(rule_));
    in_.FreeTensor(x);
    out_.EnQue(y);
    scale_row_out_.EnQue(scale_row);
    scale_col_out_.EnQue(scale_col);

    y = out_.template DeQue<uint8_t>();
    copy_out(y_[first * To::kBits / 8], y, rows, cols * To::kBits / 8, tiling_.inner * To::kBits / 8,
             pitch * To::kBits / 8);
    out_.FreeTensor(y);
    scale_row = scale_row_out_.template DeQue<uint8_t>();
    copy_out(scale_row_[row * scale_pitch_ + column / kBlockElements], scale_row, rows, pitch / kBlockElements,
             scale_pitch_, kTileRow);
    scale_row_out_.FreeTensor(scale_row);
    scale_col = scale_col_out_.template DeQue<uint8_t>();
    copy_out(scale_col_[((slice * tiling_.pairs + pair) * tiling_.inner + column) * 2], scale_col, 1, cols * 2, 0, 0);
    scale_col_out_.FreeTensor(scale_col);
  }

  ColumnTiling tiling_;
  QuantRule rule_;
  uint64_t scale_pitch_;
  GlobalTensor<uint8_t> x_, y_, scale_row_, scale_col_;
  AscendC::TQue<TPosition::VECIN, 2> in_;
  AscendC::TQue<TPosition::VECOUT, 2> out_, scale_row_out_, scale_col_out_;
  AscendC::TBuf<TPosition::VECCALC> amax_, multiplier_;
};

template <typename In, typename To>
__global__ __vector__ void mx_quant_block(GM_ADDR x, GM_ADDR y, GM_ADDR scale_row, GM_ADDR scale_col,
                                          ColumnTiling tiling, QuantRule rule) {
  AscendC::TPipe pipe;
  AscendC::SetCtrlSpr<60, 60>(0);  // after TPipe, which resets the register: casts follow their own SatMode
  MxQuantBlock<In, To>(pipe, x, y, scale_row, scale_col, tiling, rule).run();
}

}  // namespace npu_lp::ascend
