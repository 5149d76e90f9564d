// Register code that the vector kernels share: from amax to a scale byte and a multiplier, and from floats to codes.
//
// Elements are handled 128 at a time, mostly as two registers of fp32: the even elements and the odd ones. That is what
// a widening Cast makes of a register of 16-bit floats and a de-interleaving load of fp32, and what two narrowing Casts
// put back in order.
#pragma once

#include <type_traits>

#include "ascend/tiling/quant_params.h"
#include "kernel_operator.h"

namespace npu_lp::ascend {

namespace Reg = AscendC::Reg;
using AscendC::CMPMODE;
using AscendC::RoundMode;

constexpr uint32_t kLanes = 64;          // of 32 bits
constexpr uint32_t kGroup = 128;         // elements encoded at once
constexpr uint32_t kBlockElements = 32;  // of a shared scale
constexpr int32_t kInfBits = 0x7F800000;
constexpr int32_t kNaNBits = 0x7FC00000;

// Casts. Traits stand at namespace scope: inside a template they crash g++ 12.
template <Reg::RegLayout LAYOUT, Reg::SatMode SAT, RoundMode ROUND>
inline constexpr Reg::CastTrait kCast = {LAYOUT, SAT, Reg::MaskMergeMode::ZEROING, ROUND};
inline constexpr Reg::CastTrait kWidenEven = {Reg::RegLayout::ZERO, Reg::SatMode::UNKNOWN, Reg::MaskMergeMode::ZEROING,
                                              RoundMode::UNKNOWN};
inline constexpr Reg::CastTrait kWidenOdd = {Reg::RegLayout::ONE, Reg::SatMode::UNKNOWN, Reg::MaskMergeMode::ZEROING,
                                             RoundMode::UNKNOWN};
inline constexpr Reg::CastTrait kWidenThird = {Reg::RegLayout::TWO, Reg::SatMode::UNKNOWN, Reg::MaskMergeMode::ZEROING,
                                               RoundMode::UNKNOWN};

// Targets of encode(): element types and, of FP4, a rounding.
struct ToE4M3 {
  using Code = fp8_e4m3fn_t;
  static constexpr bool kFp4 = false;
  static constexpr uint32_t kBits = 8;
  static constexpr RoundMode kRound = RoundMode::CAST_RINT;
};
struct ToE5M2 {
  using Code = fp8_e5m2_t;
  static constexpr bool kFp4 = false;
  static constexpr uint32_t kBits = 8;
  static constexpr RoundMode kRound = RoundMode::CAST_RINT;
};
struct ToHiF8 {
  using Code = hifloat8_t;
  static constexpr bool kFp4 = false;
  static constexpr uint32_t kBits = 8;
  static constexpr RoundMode kRound = RoundMode::CAST_ROUND;
};
template <RoundMode ROUND>
struct ToE2M1 {
  using Code = fp4x2_e2m1_t;
  static constexpr bool kFp4 = true;
  static constexpr uint32_t kBits = 4;
  static constexpr RoundMode kRound = ROUND;
};
template <RoundMode ROUND>
struct ToE1M2 {
  using Code = fp4x2_e1m2_t;
  static constexpr bool kFp4 = true;
  static constexpr uint32_t kBits = 4;
  static constexpr RoundMode kRound = ROUND;
};

// bf16 is multiplied as bf16, like in the device's own kernels. A product by a power of two is exact there too, unless
// it is subnormal, which shows in FP4's floor mode only (semantics of the floor of a product that underflows to -0).
template <typename In>
constexpr bool kMultiplyBf16 = std::is_same_v<In, bfloat16_t>;

// FP4 of other inputs takes its 128 elements as two registers in order, since that is how two registers of fp32 become
// one of bf16 in the fewest steps.
template <typename In, typename To>
constexpr bool kInOrder = To::kFp4 && !kMultiplyBf16<In>;

// Unsigned integers of the width of a float type: magnitudes compare like these.
template <typename In>
using BitsOf = std::conditional_t<sizeof(In) == 2, uint16_t, uint32_t>;
template <typename In>
constexpr uint32_t kAbsBits = sizeof(In) == 2 ? 0x7FFFu : 0x7FFFFFFFu;

// The even and the odd ones of 128 elements, as fp32.
template <typename In>
__simd_callee__ inline void load_pair(Reg::RegTensor<float>& even, Reg::RegTensor<float>& odd, __ubuf__ In* x,
                                      Reg::MaskReg& all) {
  if constexpr (sizeof(In) == 4) {
    Reg::LoadAlign<float, Reg::LoadDist::DIST_DINTLV_B32>(even, odd, x);
  } else {
    Reg::RegTensor<In> both;
    Reg::LoadAlign(both, x);
    Reg::Cast<float, In, kWidenEven>(even, both, all);
    Reg::Cast<float, In, kWidenOdd>(odd, both, all);
  }
}

// The first and the last 64 of 128 elements.
template <typename In>
__simd_callee__ inline void load_in_order(Reg::RegTensor<float>& low, Reg::RegTensor<float>& high, __ubuf__ In* x,
                                          Reg::MaskReg& all) {
  if constexpr (sizeof(In) == 4) {
    Reg::LoadAlign(low, x);
    Reg::LoadAlign(high, x + kLanes);
  } else {
    Reg::RegTensor<uint16_t> first, last;
    Reg::LoadAlign<uint16_t, Reg::LoadDist::DIST_UNPACK_B16>(first, (__ubuf__ uint16_t*)x);
    Reg::LoadAlign<uint16_t, Reg::LoadDist::DIST_UNPACK_B16>(last, (__ubuf__ uint16_t*)x + kLanes);
    Reg::Cast<float, In, kWidenEven>(low, (Reg::RegTensor<In>&)first, all);
    Reg::Cast<float, In, kWidenEven>(high, (Reg::RegTensor<In>&)last, all);
  }
}

// Two registers of fp32 in order -> one of bf16, rounded to odd: a later rounding to fewer bits then rounds only once.
__simd_callee__ inline void to_bf16_odd(Reg::RegTensor<uint16_t>& values, Reg::RegTensor<float>& low,
                                        Reg::RegTensor<float>& high, Reg::MaskReg& all) {
  Reg::RegTensor<uint16_t> sticky;
  Reg::DeInterleave(sticky, values, (Reg::RegTensor<uint16_t>&)low, (Reg::RegTensor<uint16_t>&)high);
  Reg::Mins(sticky, sticky, static_cast<uint16_t>(1), all);
  Reg::Or(values, values, sticky, all);
}

// Multipliers as scale_of() gives them, of even and odd elements, into the form that encode() takes.
template <typename In, typename To>
__simd_callee__ inline void prepare_multipliers(Reg::RegTensor<uint32_t>& even, Reg::RegTensor<uint32_t>& odd,
                                                Reg::MaskReg& all) {
  if constexpr (kMultiplyBf16<In>) {
    Reg::ShiftRights(even, even, static_cast<int16_t>(16), all);
    Reg::Or(even, even, odd, all);
  } else if constexpr (kInOrder<In, To>) {
    Reg::Interleave(even, odd, even, odd);
  }
}

// The same in two steps, where even and odd elements have the same multipliers: before they are stored, and after they
// were loaded into the lanes of 128 elements.
template <typename In>
__simd_callee__ inline void pack_multipliers(Reg::RegTensor<uint32_t>& packed, Reg::RegTensor<uint32_t>& multipliers,
                                             Reg::MaskReg& all) {
  if constexpr (kMultiplyBf16<In>) {
    Reg::ShiftRights(packed, multipliers, static_cast<int16_t>(16), all);
    Reg::Or(packed, packed, multipliers, all);
  } else {
    packed = multipliers;
  }
}

template <typename In, typename To>
__simd_callee__ inline void load_multipliers(Reg::RegTensor<uint32_t>& first, Reg::RegTensor<uint32_t>& second,
                                             __ubuf__ uint32_t* multiplier) {
  Reg::LoadAlign<uint32_t, Reg::LoadDist::DIST_E2B_B32>(first, multiplier);
  if constexpr (kInOrder<In, To>) {
    Reg::Interleave(first, second, first, first);
  } else if constexpr (!kMultiplyBf16<In>) {
    second = first;
  }
}

// Codes of 128 bf16 values in order, with 64 lanes of `stored` at most: two elements a lane.
template <typename To>
__simd_callee__ inline void store_fp4(__ubuf__ uint8_t* y, Reg::RegTensor<bfloat16_t>& values, Reg::MaskReg& all,
                                      Reg::MaskReg& stored) {
  Reg::RegTensor<typename To::Code> codes;
  Reg::Cast<typename To::Code, bfloat16_t, kCast<Reg::RegLayout::ZERO, Reg::SatMode::UNKNOWN, To::kRound>>(codes,
                                                                                                           values, all);
  Reg::StoreAlign<uint8_t, Reg::StoreDist::DIST_PACK4_B32>(y, (Reg::RegTensor<uint8_t>&)codes, stored);
}

template <typename To>
__simd_callee__ inline void store_fp8(__ubuf__ uint8_t* y, Reg::RegTensor<float>& even, Reg::RegTensor<float>& odd,
                                      Reg::MaskReg& all, Reg::MaskReg& stored) {
  Reg::RegTensor<typename To::Code> low, high;
  Reg::Cast<typename To::Code, float, kCast<Reg::RegLayout::ZERO, Reg::SatMode::SAT, To::kRound>>(low, even, all);
  Reg::Cast<typename To::Code, float, kCast<Reg::RegLayout::ONE, Reg::SatMode::SAT, To::kRound>>(high, odd, all);
  Reg::RegTensor<uint8_t> codes;
  Reg::Or(codes, (Reg::RegTensor<uint8_t>&)low, (Reg::RegTensor<uint8_t>&)high, all);
  Reg::StoreAlign<uint16_t, Reg::StoreDist::DIST_PACK_B32>((__ubuf__ uint16_t*)y, (Reg::RegTensor<uint16_t>&)codes,
                                                           stored);
}

// Codes of 128 elements times their multipliers. `stored` has a lane of 32 bits for each two elements to be written.
template <typename In, typename To>
__simd_callee__ inline void encode(__ubuf__ uint8_t* y, __ubuf__ In* x, Reg::RegTensor<uint32_t>& first,
                                   Reg::RegTensor<uint32_t>& second, Reg::MaskReg& all, Reg::MaskReg& stored) {
  Reg::RegTensor<float> even, odd;
  if constexpr (kMultiplyBf16<In>) {
    Reg::RegTensor<bfloat16_t> values;
    Reg::LoadAlign(values, x);
    Reg::Mul(values, values, (Reg::RegTensor<bfloat16_t>&)first, all);
    if constexpr (To::kFp4) {
      store_fp4<To>(y, values, all, stored);
    } else {
      Reg::Cast<float, bfloat16_t, kWidenEven>(even, values, all);
      Reg::Cast<float, bfloat16_t, kWidenOdd>(odd, values, all);
      store_fp8<To>(y, even, odd, all, stored);
    }
  } else if constexpr (To::kFp4) {
    Reg::RegTensor<uint16_t> values;
    load_in_order(even, odd, x, all);
    Reg::Mul(even, even, (Reg::RegTensor<float>&)first, all);
    Reg::Mul(odd, odd, (Reg::RegTensor<float>&)second, all);
    to_bf16_odd(values, even, odd, all);
    store_fp4<To>(y, (Reg::RegTensor<bfloat16_t>&)values, all, stored);
  } else {
    load_pair(even, odd, x, all);
    Reg::Mul(even, even, (Reg::RegTensor<float>&)first, all);
    Reg::Mul(odd, odd, (Reg::RegTensor<float>&)second, all);
    store_fp8<To>(y, even, odd, all, stored);
  }
}

// Constants of scale_of(), loaded once per vector function.
struct RuleRegisters {
  Reg::RegTensor<int32_t> zero, lowest_bit, bf16_mask, carry, carry_subnormal, largest, nan_byte, nan;
};

__simd_callee__ inline void load_rule(RuleRegisters& registers, const QuantRule& rule) {
  Reg::Duplicate(registers.zero, static_cast<int32_t>(0));
  Reg::Duplicate(registers.lowest_bit, static_cast<int32_t>(rule.bf16_add & 1));
  Reg::Duplicate(registers.bf16_mask, rule.bf16_mask);
  Reg::Duplicate(registers.carry, rule.carry);
  Reg::Duplicate(registers.carry_subnormal, rule.carry_subnormal);
  Reg::Duplicate(registers.largest, static_cast<int32_t>(254));
  Reg::Duplicate(registers.nan_byte, static_cast<int32_t>(255));
  Reg::Duplicate(registers.nan, kNaNBits);
}

// amax (fp32 bits, no sign) -> scale byte and multiplier (fp32 bits), 64 at a time. See QuantRule.
__simd_callee__ inline void scale_of(Reg::RegTensor<int32_t>& byte, Reg::RegTensor<uint32_t>& multiplier,
                                     Reg::RegTensor<int32_t>& amax, RuleRegisters& constants, const QuantRule& rule,
                                     Reg::MaskReg& all) {
  Reg::MaskReg chosen, special;
  Reg::RegTensor<int32_t> seen, value, carry;
  Reg::Mins(seen, amax, kInfBits, all);
  Reg::ShiftRights(value, seen, static_cast<int16_t>(16), all);
  Reg::And(value, value, constants.lowest_bit, all);
  Reg::Add(seen, seen, value, all);
  Reg::Adds(seen, seen, rule.bf16_add, all);
  Reg::And(seen, seen, constants.bf16_mask, all);
  Reg::Compares<int32_t, CMPMODE::GE>(special, seen, kInfBits, all);

  Reg::Maxs(value, seen, rule.low_bound, all);
  Reg::Compares<int32_t, CMPMODE::EQ>(chosen, seen, static_cast<int32_t>(0), all);
  Reg::Select(value, constants.zero, value, chosen);
  Reg::Muls((Reg::RegTensor<float>&)value, (Reg::RegTensor<float>&)value, rule.factor, all);
  Reg::Compares<int32_t, CMPMODE::LT>(chosen, value, static_cast<int32_t>(0x00800000), all);
  Reg::Select(carry, constants.carry_subnormal, constants.carry, chosen);
  Reg::Compares<int32_t, CMPMODE::GE>(chosen, value, rule.carry_end, all);
  Reg::Select(carry, constants.zero, carry, chosen);
  Reg::Add(value, value, carry, all);
  Reg::ShiftRights(value, value, static_cast<int16_t>(23), all);
  Reg::Maxs(value, value, rule.emax, all);
  Reg::Adds(value, value, static_cast<int32_t>(-rule.emax), all);
  Reg::Compares<int32_t, CMPMODE::LT>(chosen, seen, rule.zero_below, all);
  Reg::Select(value, constants.zero, value, chosen);
  Reg::Select(byte, constants.nan_byte, value, special);

  // Bits of 2^(127 - byte); for byte 254 the subnormal 2^-127, whose bits the shift cannot give.
  Reg::Sub(value, constants.largest, byte, all);
  Reg::ShiftLefts(value, value, static_cast<int16_t>(23), all);
  Reg::Maxs(value, value, static_cast<int32_t>(0x00400000), all);
  Reg::Compares<int32_t, CMPMODE::EQ>(chosen, byte, static_cast<int32_t>(255), all);
  Reg::Select(value, constants.nan, value, chosen);
  Reg::Compares<int32_t, CMPMODE::LT>(special, amax, rule.flush_below, all);
  Reg::Compares<int32_t, CMPMODE::EQ>(chosen, byte, static_cast<int32_t>(0), special);
  Reg::Select((Reg::RegTensor<int32_t>&)multiplier, constants.zero, value, chosen);
}

}  // namespace npu_lp::ascend
