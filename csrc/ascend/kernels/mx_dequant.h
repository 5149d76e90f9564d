// mx_dequant: code times scale in fp32, rounded once to the output's type. mx_dequant_last has its blocks along rows,
// mx_dequant_axis2 along the columns of a batch of matrices.
#pragma once

#include "ascend/kernels/column_blocks.h"
#include "ascend/kernels/float_output.h"
#include "ascend/kernels/vector_copy.h"

namespace npu_lp::ascend {

// Values of 128 codes: the even and the odd ones.
template <typename From>
__simd_callee__ inline void decode(Reg::RegTensor<float>& even, Reg::RegTensor<float>& odd, __ubuf__ uint8_t* codes,
                                   Reg::MaskReg& all) {
  using Code = typename From::Code;
  Reg::RegTensor<uint8_t> spread;
  if constexpr (From::kFp4) {
    Reg::RegTensor<bfloat16_t> values;
    Reg::LoadAlign<uint8_t, Reg::LoadDist::DIST_UNPACK4_B8>(spread, codes);
    Reg::Cast<bfloat16_t, Code, kWidenEven>(values, (Reg::RegTensor<Code>&)spread, all);
    Reg::Cast<float, bfloat16_t, kWidenEven>(even, values, all);
    Reg::Cast<float, bfloat16_t, kWidenOdd>(odd, values, all);
  } else {
    Reg::LoadAlign<uint8_t, Reg::LoadDist::DIST_UNPACK_B8>(spread, codes);
    Reg::Cast<float, Code, kWidenEven>(even, (Reg::RegTensor<Code>&)spread, all);
    Reg::Cast<float, Code, kWidenThird>(odd, (Reg::RegTensor<Code>&)spread, all);
  }
}

// Scale bytes in 32-bit lanes -> their values, as fp32 bits.
__simd_callee__ inline void scale_values(Reg::RegTensor<uint32_t>& byte, Reg::RegTensor<uint32_t>& nan,
                                         Reg::MaskReg& all) {
  Reg::MaskReg chosen;
  Reg::ShiftLefts(byte, byte, static_cast<int16_t>(23), all);
  Reg::Maxs(byte, byte, static_cast<uint32_t>(0x00400000), all);  // byte 0: 2^-127
  Reg::Compares<uint32_t, CMPMODE::EQ>(chosen, byte, static_cast<uint32_t>(kInfBits), all);
  Reg::Select(byte, nan, byte, chosen);
}

template <typename From, typename Out>
__simd_vf__ inline void dequantize_rows(__ubuf__ uint8_t* codes, __ubuf__ uint8_t* scale, __ubuf__ Out* out,
                                        __ubuf__ uint32_t* multiplier, uint32_t elements) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::RegTensor<uint32_t> nan, spread;
  Reg::RegTensor<uint8_t> bytes;
  Reg::Duplicate(nan, static_cast<uint32_t>(kNaNBits));
  const uint16_t scale_steps = static_cast<uint16_t>((elements / kBlockElements + kLanes - 1) / kLanes);
  for (uint16_t i = 0; i < scale_steps; ++i) {
    Reg::LoadAlign<uint8_t, Reg::LoadDist::DIST_UNPACK4_B8>(bytes, scale + i * kLanes);
    Reg::RegTensor<uint32_t>& values = (Reg::RegTensor<uint32_t>&)bytes;
    scale_values(values, nan, all);
    Reg::StoreAlign<uint32_t, Reg::StoreDist::DIST_INTLV_B32>(multiplier + i * kGroup, values, values, all);
  }
  wait_for_stores();
  const uint16_t steps = static_cast<uint16_t>((elements + kGroup - 1) / kGroup);
  Reg::RegTensor<float> even, odd;
  for (uint16_t i = 0; i < steps; ++i) {
    Reg::LoadAlign<uint32_t, Reg::LoadDist::DIST_E2B_B32>(spread, multiplier + i * 8);
    decode<From>(even, odd, codes + i * (kGroup * From::kBits / 8), all);
    Reg::Mul(even, even, (Reg::RegTensor<float>&)spread, all);
    Reg::Mul(odd, odd, (Reg::RegTensor<float>&)spread, all);
    store_values(out + i * kGroup, even, odd, nan, all, all, all);
  }
}

template <typename From, typename Out>
__simd_callee__ inline void dequantize_block(__ubuf__ uint8_t* codes, __ubuf__ Out* out,
                                             Reg::RegTensor<uint32_t>& even_scale, Reg::RegTensor<uint32_t>& odd_scale,
                                             uint32_t pitch, uint16_t rows, Reg::RegTensor<uint32_t>& nan,
                                             Reg::MaskReg& all, Reg::MaskReg& stored, Reg::MaskReg& stored2) {
  Reg::RegTensor<float> even, odd;
  for (uint16_t row = 0; row < rows; ++row) {
    decode<From>(even, odd, codes + row * (pitch * From::kBits / 8), all);
    Reg::Mul(even, even, (Reg::RegTensor<float>&)even_scale, all);
    Reg::Mul(odd, odd, (Reg::RegTensor<float>&)odd_scale, all);
    store_values(out + row * pitch, even, odd, nan, all, stored, stored2);
  }
}

// A tile of up to 64 rows; a word of scales has two columns by two blocks, as store_pairs() wrote it.
template <typename From, typename Out>
__simd_vf__ inline void dequantize_columns(__ubuf__ uint8_t* codes, __ubuf__ uint8_t* scale, __ubuf__ Out* out,
                                           uint32_t pitch, uint16_t first, uint16_t second) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::MaskReg stored = all, stored2 = all;
  Reg::RegTensor<uint32_t> nan, low_byte, word, even0, odd0, even1, odd1;
  Reg::Duplicate(nan, static_cast<uint32_t>(kNaNBits));
  Reg::Duplicate(low_byte, static_cast<uint32_t>(0xFF));
  const uint16_t groups = static_cast<uint16_t>((pitch + kGroup - 1) / kGroup);
  const uint32_t code_bytes = kGroup * From::kBits / 8, lower = kBlockElements * pitch;
  uint32_t left = pitch;
  for (uint16_t group = 0; group < groups; ++group) {
    next_masks<Out>(stored, stored2, left);
    Reg::LoadAlign(word, (__ubuf__ uint32_t*)scale + group * kLanes);
    Reg::And(even0, word, low_byte, all);
    Reg::ShiftRights(even1, word, static_cast<int16_t>(8), all);
    Reg::And(even1, even1, low_byte, all);
    Reg::ShiftRights(odd0, word, static_cast<int16_t>(16), all);
    Reg::And(odd0, odd0, low_byte, all);
    Reg::ShiftRights(odd1, word, static_cast<int16_t>(24), all);
    scale_values(even0, nan, all);
    scale_values(odd0, nan, all);
    scale_values(even1, nan, all);
    scale_values(odd1, nan, all);
    dequantize_block<From>(codes + group * code_bytes, out + group * kGroup, even0, odd0, pitch, first, nan, all,
                           stored, stored2);
    dequantize_block<From>(codes + group * code_bytes + lower * From::kBits / 8, out + group * kGroup + lower, even1,
                           odd1, pitch, second, nan, all, stored, stored2);
  }
}

template <typename From, typename Out>
class MxDequantLast {
 public:
  __aicore__ inline MxDequantLast(AscendC::TPipe& pipe, GM_ADDR codes, GM_ADDR scale, GM_ADDR out,
                                  const RowTiling& tiling)
      : tiling_(tiling), scale_pitch_((tiling.cols + kTail - 1) / kTail * 2) {
    codes_.SetGlobalBuffer(codes);
    scale_.SetGlobalBuffer(scale);
    out_.SetGlobalBuffer(out);
    pipe.InitBuffer(codes_in_, 2, tiling.narrow_bytes);
    pipe.InitBuffer(scale_in_, 2, tiling.scale_bytes);
    pipe.InitBuffer(values_, 2, tiling.wide_bytes);
    pipe.InitBuffer(multiplier_, tiling.multiplier_bytes);
  }

  __aicore__ inline void run() {
    const Share share = share_of(tiling_.rows * tiling_.chunks);
    for (uint64_t unit = share.begin; unit < share.end;) {
      const uint64_t left = share.end - unit;
      const uint32_t rows = left < tiling_.tile_rows ? static_cast<uint32_t>(left) : tiling_.tile_rows;
      tile(unit / tiling_.chunks, unit % tiling_.chunks * tiling_.chunk, rows);
      unit += rows;
    }
  }

 private:
  __aicore__ inline void tile(uint64_t row, uint64_t column, uint32_t rows) {
    const uint64_t left = tiling_.cols - column, first = row * tiling_.cols + column;
    const uint32_t cols = left < tiling_.chunk ? static_cast<uint32_t>(left) : tiling_.chunk;
    const uint32_t pitch = round_up(cols, kTail);

    LocalTensor<uint8_t> codes = codes_in_.template AllocTensor<uint8_t>();
    copy_in(codes, codes_[first * From::kBits / 8], rows, cols * From::kBits / 8, tiling_.cols * From::kBits / 8,
            pitch * From::kBits / 8);
    codes_in_.EnQue(codes);
    LocalTensor<uint8_t> scale = scale_in_.template AllocTensor<uint8_t>();
    copy_in_compact(scale, scale_[row * scale_pitch_ + column / kBlockElements], rows, pitch / kBlockElements,
                    scale_pitch_);
    scale_in_.EnQue(scale);

    codes = codes_in_.template DeQue<uint8_t>();
    scale = scale_in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> out = values_.template AllocTensor<uint8_t>(),
                         multiplier = multiplier_.template Get<uint8_t>();
    asc_vf_call<dequantize_rows<From, Out>>((__ubuf__ uint8_t*)codes.GetPhyAddr(),
                                            (__ubuf__ uint8_t*)scale.GetPhyAddr(), (__ubuf__ Out*)out.GetPhyAddr(),
                                            (__ubuf__ uint32_t*)multiplier.GetPhyAddr(), rows * pitch);
    codes_in_.FreeTensor(codes);
    scale_in_.FreeTensor(scale);
    values_.EnQue(out);

    out = values_.template DeQue<uint8_t>();
    copy_out(out_[first * sizeof(Out)], out, rows, cols * sizeof(Out), tiling_.cols * sizeof(Out), pitch * sizeof(Out));
    values_.FreeTensor(out);
  }

  RowTiling tiling_;
  uint64_t scale_pitch_;
  GlobalTensor<uint8_t> codes_, scale_, out_;
  AscendC::TQue<TPosition::VECIN, 2> codes_in_, scale_in_;
  AscendC::TQue<TPosition::VECOUT, 2> values_;
  AscendC::TBuf<TPosition::VECCALC> multiplier_;
};

template <typename From, typename Out>
class MxDequantAxis2 {
 public:
  __aicore__ inline MxDequantAxis2(AscendC::TPipe& pipe, GM_ADDR codes, GM_ADDR scale, GM_ADDR out,
                                   const ColumnTiling& tiling)
      : tiling_(tiling) {
    codes_.SetGlobalBuffer(codes);
    scale_.SetGlobalBuffer(scale);
    out_.SetGlobalBuffer(out);
    pipe.InitBuffer(codes_in_, 2, tiling.narrow_bytes);
    pipe.InitBuffer(scale_in_, 2, tiling.column_scale_bytes);
    pipe.InitBuffer(values_, 2, tiling.wide_bytes);
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
    const uint64_t first = (slice * tiling_.depth + pair * kTail) * tiling_.inner + column;

    LocalTensor<uint8_t> codes = codes_in_.template AllocTensor<uint8_t>();
    copy_in(codes, codes_[first * From::kBits / 8], rows, cols * From::kBits / 8, tiling_.inner * From::kBits / 8,
            pitch * From::kBits / 8);
    codes_in_.EnQue(codes);
    LocalTensor<uint8_t> scale = scale_in_.template AllocTensor<uint8_t>();
    // An odd number of columns ends inside a word of scales: two zeros complete it.
    AscendC::DataCopyPad(scale, scale_[((slice * tiling_.pairs + pair) * tiling_.inner + column) * 2],
                         DataCopyExtParams{1, cols * 2, 0, 0, 0},
                         DataCopyPadExtParams<uint8_t>{true, 0, static_cast<uint8_t>(cols % 2 * 2), 0});
    scale_in_.EnQue(scale);

    codes = codes_in_.template DeQue<uint8_t>();
    scale = scale_in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> out = values_.template AllocTensor<uint8_t>();
    asc_vf_call<dequantize_columns<From, Out>>(
        (__ubuf__ uint8_t*)codes.GetPhyAddr(), (__ubuf__ uint8_t*)scale.GetPhyAddr(), (__ubuf__ Out*)out.GetPhyAddr(),
        pitch, static_cast<uint16_t>(upper), static_cast<uint16_t>(rows - upper));
    codes_in_.FreeTensor(codes);
    scale_in_.FreeTensor(scale);
    values_.EnQue(out);

    out = values_.template DeQue<uint8_t>();
    copy_out(out_[first * sizeof(Out)], out, rows, cols * sizeof(Out), tiling_.inner * sizeof(Out),
             pitch * sizeof(Out));
    values_.FreeTensor(out);
  }

  ColumnTiling tiling_;
  GlobalTensor<uint8_t> codes_, scale_, out_;
  AscendC::TQue<TPosition::VECIN, 2> codes_in_, scale_in_;
  AscendC::TQue<TPosition::VECOUT, 2> values_;
};

template <typename From, typename Out>
__global__ __vector__ void mx_dequant_last(GM_ADDR codes, GM_ADDR scale, GM_ADDR out, RowTiling tiling) {
  AscendC::TPipe pipe;
  AscendC::SetCtrlSpr<60, 60>(0);  // after TPipe, which resets the register: casts follow their own SatMode
  MxDequantLast<From, Out>(pipe, codes, scale, out, tiling).run();
}

template <typename From, typename Out>
__global__ __vector__ void mx_dequant_axis2(GM_ADDR codes, GM_ADDR scale, GM_ADDR out, ColumnTiling tiling) {
  AscendC::TPipe pipe;
  AscendC::SetCtrlSpr<60, 60>(0);  // after TPipe, which resets the register: casts follow their own SatMode
  MxDequantAxis2<From, Out>(pipe, codes, scale, out, tiling).run();
}

}  // namespace npu_lp::ascend
