// Blocks of 32 along the rows of a tile in UB. The rows have a pitch of a multiple of 64 elements, so that a row's
// scale bytes come in whole pairs, and the tile is one run of blocks however short its rows are. What lies between a
// row's end and the next row is zeroed first: a block of zeros has byte 0, which is also the pad byte of an odd pair.
#pragma once

#include "ascend/kernels/quant_registers.h"

namespace npu_lp::ascend {

constexpr uint32_t kTail = 64;  // elements: the last of a row that may need zeros

// A QuantRule as arguments of a vector function, which takes no structures.
#define NPU_LP_RULE_PARAMETERS                                                                                  \
  float factor, int32_t bf16_add, int32_t bf16_mask, int32_t low_bound, int32_t carry, int32_t carry_subnormal, \
      int32_t carry_end, int32_t emax, int32_t zero_below, int32_t flush_below
#define NPU_LP_RULE \
  {factor, bf16_add, bf16_mask, low_bound, carry, carry_subnormal, carry_end, emax, zero_below, flush_below}
#define NPU_LP_RULE_ARGUMENTS(rule)                                                                         \
  (rule).factor, (rule).bf16_add, (rule).bf16_mask, (rule).low_bound, (rule).carry, (rule).carry_subnormal, \
      (rule).carry_end, (rule).emax, (rule).zero_below, (rule).flush_below

__simd_callee__ inline void wait_for_stores() {
  Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>();
}

// Zeros in the last 64 elements of each row, `keep` excepted.
template <typename In>
__simd_callee__ inline void clear_tails(__ubuf__ In* x, uint16_t rows, uint32_t pitch, uint32_t keep) {
  using Bits = BitsOf<In>;
  __ubuf__ Bits* last = (__ubuf__ Bits*)x + (pitch - kTail);
  uint32_t kept = keep, tail = kTail;
  Reg::MaskReg keep_mask = Reg::UpdateMask<Bits>(kept);
  Reg::MaskReg tail_mask = Reg::UpdateMask<Bits>(tail);
  Reg::RegTensor<Bits> zero, values;
  Reg::Duplicate(zero, static_cast<Bits>(0));
  for (uint16_t row = 0; row < rows; ++row) {
    Reg::LoadAlign(values, last + row * pitch);
    Reg::Select(values, values, zero, keep_mask);
    Reg::StoreAlign(last + row * pitch, values, tail_mask);
  }
}

// Largest magnitudes of blocks, 8 blocks a step.
template <typename In>
__simd_callee__ inline void row_amax(__ubuf__ BitsOf<In>* amax, __ubuf__ In* x, uint32_t elements, Reg::MaskReg& all) {
  using Bits = BitsOf<In>;
  constexpr uint32_t kStep = 256;
  const uint16_t steps = static_cast<uint16_t>((elements + kStep - 1) / kStep);
  __ubuf__ Bits* bits = (__ubuf__ Bits*)x;
  Reg::RegTensor<Bits> magnitude, even, odd;
  Reg::Duplicate(magnitude, static_cast<Bits>(kAbsBits<In>));
  if constexpr (sizeof(In) == 2) {
    Reg::UnalignRegForStore pending;
    for (uint16_t i = 0; i < steps; ++i) {
      Reg::LoadAlign<Bits, Reg::LoadDist::DIST_DINTLV_B16>(even, odd, bits + i * kStep);
      Reg::And(even, even, magnitude, all);
      Reg::And(odd, odd, magnitude, all);
      Reg::Max(even, even, odd, all);
      Reg::ReduceDataBlock<Reg::ReduceType::MAX>(even, even, all);
      Reg::StoreUnAlign(amax, even, pending, 8);
    }
    Reg::StoreUnAlignPost(amax, pending, 0);
  } else {
    uint32_t eight = 8;
    Reg::MaskReg results = Reg::UpdateMask<Bits>(eight);
    Reg::RegTensor<Bits> even2, odd2;
    for (uint16_t i = 0; i < steps; ++i) {
      Reg::LoadAlign<Bits, Reg::LoadDist::DIST_DINTLV_B32>(even, odd, bits + i * kStep);
      Reg::LoadAlign<Bits, Reg::LoadDist::DIST_DINTLV_B32>(even2, odd2, bits + i * kStep + kGroup);
      Reg::And(even, even, magnitude, all);
      Reg::And(odd, odd, magnitude, all);
      Reg::And(even2, even2, magnitude, all);
      Reg::And(odd2, odd2, magnitude, all);
      Reg::Max(even, even, odd, all);
      Reg::Max(even2, even2, odd2, all);
      Reg::DeInterleave(odd, odd2, even, even2);
      Reg::Max(even, odd, odd2, all);
      Reg::ReduceDataBlock<Reg::ReduceType::MAX>(even, even, all);
      Reg::StoreAlign(amax + i * 8, even, results);
    }
  }
}

// 64 stored magnitudes as fp32 bits.
template <typename In>
__simd_callee__ inline void load_amax(Reg::RegTensor<int32_t>& bits, __ubuf__ BitsOf<In>* amax, Reg::MaskReg& all) {
  if constexpr (sizeof(In) == 4) {
    Reg::LoadAlign((Reg::RegTensor<uint32_t>&)bits, amax);
  } else {
    Reg::RegTensor<uint16_t> packed;
    Reg::LoadAlign<uint16_t, Reg::LoadDist::DIST_UNPACK_B16>(packed, amax);
    Reg::Cast<float, In, kWidenEven>((Reg::RegTensor<float>&)bits, (Reg::RegTensor<In>&)packed, all);
  }
}

// Scale bytes of `count` blocks, and their multipliers, each twice: a load that spreads 8 words over a register then
// covers the 4 blocks of 128 elements.
template <typename In>
__simd_callee__ inline void row_scales(__ubuf__ uint8_t* scale, __ubuf__ uint32_t* multiplier,
                                       __ubuf__ BitsOf<In>* amax, uint32_t count, RuleRegisters& constants,
                                       const QuantRule& rule, Reg::MaskReg& all) {
  const uint16_t steps = static_cast<uint16_t>((count + kLanes - 1) / kLanes);
  Reg::RegTensor<int32_t> bits, byte;
  Reg::RegTensor<uint32_t> multipliers, packed;
  for (uint16_t i = 0; i < steps; ++i) {
    load_amax<In>(bits, amax + i * kLanes, all);
    scale_of(byte, multipliers, bits, constants, rule, all);
    Reg::StoreAlign<uint8_t, Reg::StoreDist::DIST_PACK4_B32>(scale + i * kLanes, (Reg::RegTensor<uint8_t>&)byte, all);
    pack_multipliers<In>(packed, multipliers, all);
    Reg::StoreAlign<uint32_t, Reg::StoreDist::DIST_INTLV_B32>(multiplier + i * kGroup, packed, packed, all);
  }
}

template <typename In, typename To>
__simd_callee__ inline void row_encode(__ubuf__ uint8_t* y, __ubuf__ In* x, __ubuf__ uint32_t* multiplier,
                                       uint32_t elements, Reg::MaskReg& all) {
  const uint16_t steps = static_cast<uint16_t>((elements + kGroup - 1) / kGroup);
  Reg::RegTensor<uint32_t> first, second;
  for (uint16_t i = 0; i < steps; ++i) {
    load_multipliers<In, To>(first, second, multiplier + i * 8);
    encode<In, To>(y + i * (kGroup * To::kBits / 8), x + i * kGroup, first, second, all, all);
  }
}

}  // namespace npu_lp::ascend
