// Blocks of 32 along the columns of a tile in UB: 128 columns at a time, two blocks (64 rows) at a time, since the
// scale bytes of two blocks are neighbours: [column, block].
#pragma once

#include "ascend/kernels/row_blocks.h"

namespace npu_lp::ascend {

// Largest magnitudes, as fp32 bits, of the even and the odd ones of 128 columns over `rows` rows.
template <typename In>
__simd_callee__ inline void column_amax(Reg::RegTensor<int32_t>& even, Reg::RegTensor<int32_t>& odd, __ubuf__ In* x,
                                        uint32_t pitch, uint16_t rows, Reg::MaskReg& all) {
  using Bits = BitsOf<In>;
  __ubuf__ Bits* bits = (__ubuf__ Bits*)x;
  Reg::RegTensor<Bits> magnitude;
  Reg::Duplicate(magnitude, static_cast<Bits>(kAbsBits<In>));
  if constexpr (sizeof(In) == 2) {
    Reg::RegTensor<Bits> largest, values;
    Reg::Duplicate(largest, static_cast<Bits>(0));
    for (uint16_t row = 0; row < rows; ++row) {
      Reg::LoadAlign(values, bits + row * pitch);
      Reg::And(values, values, magnitude, all);
      Reg::Max(largest, largest, values, all);
    }
    Reg::Cast<float, In, kWidenEven>((Reg::RegTensor<float>&)even, (Reg::RegTensor<In>&)largest, all);
    Reg::Cast<float, In, kWidenOdd>((Reg::RegTensor<float>&)odd, (Reg::RegTensor<In>&)largest, all);
  } else {
    Reg::RegTensor<Bits> first, second;
    Reg::RegTensor<Bits>& largest_even = (Reg::RegTensor<Bits>&)even;
    Reg::RegTensor<Bits>& largest_odd = (Reg::RegTensor<Bits>&)odd;
    Reg::Duplicate(largest_even, static_cast<Bits>(0));
    Reg::Duplicate(largest_odd, static_cast<Bits>(0));
    for (uint16_t row = 0; row < rows; ++row) {
      Reg::LoadAlign<Bits, Reg::LoadDist::DIST_DINTLV_B32>(first, second, bits + row * pitch);
      Reg::And(first, first, magnitude, all);
      Reg::And(second, second, magnitude, all);
      Reg::Max(largest_even, largest_even, first, all);
      Reg::Max(largest_odd, largest_odd, second, all);
    }
  }
}

// Bytes of two blocks by two columns in one word: (column, block) = (even, 0), (even, 1), (odd, 0), (odd, 1).
__simd_callee__ inline void store_pairs(__ubuf__ uint8_t* scale, Reg::RegTensor<int32_t>& even0,
                                        Reg::RegTensor<int32_t>& odd0, Reg::RegTensor<int32_t>& even1,
                                        Reg::RegTensor<int32_t>& odd1, Reg::MaskReg& all, Reg::MaskReg& stored) {
  Reg::ShiftLefts(even1, even1, static_cast<int16_t>(8), all);
  Reg::ShiftLefts(odd0, odd0, static_cast<int16_t>(16), all);
  Reg::ShiftLefts(odd1, odd1, static_cast<int16_t>(24), all);
  Reg::Or(even0, even0, even1, all);
  Reg::Or(odd0, odd0, odd1, all);
  Reg::Or(even0, even0, odd0, all);
  Reg::StoreAlign((__ubuf__ int32_t*)scale, even0, stored);
}

// One row of scales: rows 0..31 (first) and 32..63 (second) of the tile; `second` is 0 where the depth ends before.
template <typename In, typename To>
__simd_callee__ inline void column_pair(__ubuf__ In* x, __ubuf__ uint8_t* y, __ubuf__ uint8_t* scale, uint32_t pitch,
                                        uint16_t first, uint16_t second, RuleRegisters& constants,
                                        const QuantRule& rule, Reg::MaskReg& all) {
  const uint16_t groups = static_cast<uint16_t>((pitch + kGroup - 1) / kGroup);
  const uint32_t y_pitch = pitch * To::kBits / 8;
  uint32_t lanes = pitch / 2;
  for (uint16_t group = 0; group < groups; ++group) {
    Reg::MaskReg stored = Reg::UpdateMask<uint32_t>(lanes);
    __ubuf__ In* from = x + group * kGroup;
    __ubuf__ uint8_t* to = y + group * (kGroup * To::kBits / 8);
    Reg::RegTensor<int32_t> even, odd, even0, odd0, even1, odd1;
    Reg::RegTensor<uint32_t> even_by0, odd_by0, even_by1, odd_by1;
    column_amax(even, odd, from, pitch, first, all);
    scale_of(even0, even_by0, even, constants, rule, all);
    scale_of(odd0, odd_by0, odd, constants, rule, all);
    column_amax(even, odd, from + kBlockElements * pitch, pitch, second, all);
    scale_of(even1, even_by1, even, constants, rule, all);
    scale_of(odd1, odd_by1, odd, constants, rule, all);
    store_pairs(scale + group * (2 * kGroup), even0, odd0, even1, odd1, all, stored);
    prepare_multipliers<In, To>(even_by0, odd_by0, all);
    prepare_multipliers<In, To>(even_by1, odd_by1, all);
    for (uint16_t row = 0; row < first; ++row) {
      encode<In, To>(to + row * y_pitch, from + row * pitch, even_by0, odd_by0, all, stored);
    }
    from += kBlockElements * pitch;
    to += kBlockElements * y_pitch;
    for (uint16_t row = 0; row < second; ++row) {
      encode<In, To>(to + row * y_pitch, from + row * pitch, even_by1, odd_by1, all, stored);
    }
  }
}

}  // namespace npu_lp::ascend
