// Which conversions the vector unit has: what is not in this table does not compile (Cast's documentation; half to fp8
// or fp4 and fp32 to fp4 do not exist, for one).
#pragma once

#include "twin/reg_types.h"

namespace npu_lp::twin {

using AscendC::RoundMode;
using AscendC::Reg::RegLayout;

struct CastPair {
  bool legal = false;
  int layouts = 0;         // 1: UNKNOWN, 2: ZERO and ONE, 4: ZERO to THREE
  unsigned roundings = 0;  // bit per RoundMode; 0: nothing to round
  bool none_is_rint = false;
  uint32_t rate = 64;  // elements a cycle
};

constexpr unsigned rounding_bit(RoundMode mode) {
  return 1u << static_cast<unsigned>(mode);
}
constexpr unsigned kRint = rounding_bit(RoundMode::CAST_RINT);
constexpr unsigned kRoundAway = rounding_bit(RoundMode::CAST_ROUND);
constexpr unsigned kDirected =
    rounding_bit(RoundMode::CAST_FLOOR) | rounding_bit(RoundMode::CAST_CEIL) | rounding_bit(RoundMode::CAST_TRUNC);
constexpr unsigned kFive = kRint | kRoundAway | kDirected;
constexpr unsigned kSix = kFive | rounding_bit(RoundMode::CAST_ODD);

template <typename D, typename S>
constexpr CastPair cast_pair() {
  constexpr bool kToFp4 = is_fp4<D>;
  constexpr bool kFromFp4 = is_fp4<S>;
  const auto is = [](bool d, bool s) { return d && s; };
  constexpr auto d_is = []<typename T>(T*) { return std::is_same_v<D, T>; };
  constexpr auto s_is = []<typename T>(T*) { return std::is_same_v<S, T>; };
#define NPU_LP_D(T) d_is(static_cast<T*>(nullptr))
#define NPU_LP_S(T) s_is(static_cast<T*>(nullptr))
  // Float to integer.
  if (is(NPU_LP_D(int8_t) || NPU_LP_D(uint8_t), NPU_LP_S(half))) return {true, 2, kFive, true, 64};
  if (is(NPU_LP_D(int16_t), NPU_LP_S(half))) return {true, 1, kFive, false, 64};
  if (is(NPU_LP_D(int32_t), NPU_LP_S(half) || NPU_LP_S(bfloat16_t))) return {true, 2, kFive, false, 64};
  if (is(NPU_LP_D(int16_t), NPU_LP_S(float))) return {true, 2, kFive, false, 32};
  if (is(NPU_LP_D(int32_t), NPU_LP_S(float))) return {true, 1, kFive, false, 32};
  // Float to float.
  if (is(NPU_LP_D(half), NPU_LP_S(hifloat8_t))) return {true, 2, 0, false, 64};
  if (is(NPU_LP_D(float), NPU_LP_S(hifloat8_t) || is_fp8<S>)) return {true, 4, 0, false, 32};
  if (is(NPU_LP_D(bfloat16_t), NPU_LP_S(fp8_e8m0_t))) return {true, 2, 0, false, 64};
  if (is(NPU_LP_D(bfloat16_t), kFromFp4)) return {true, 4, 0, false, 64};
  if (is(NPU_LP_D(hifloat8_t), NPU_LP_S(half))) return {true, 2, kRoundAway, false, 64};
  if (is(NPU_LP_D(hifloat8_t), NPU_LP_S(float))) return {true, 4, kRoundAway, false, 32};
  if (is(NPU_LP_D(bfloat16_t), NPU_LP_S(half))) return {true, 1, kFive, false, 64};
  if (is(NPU_LP_D(half), NPU_LP_S(bfloat16_t))) return {true, 1, kFive, false, 64};
  if (is(kToFp4, NPU_LP_S(bfloat16_t))) return {true, 4, kFive, false, 64};
  if (is(NPU_LP_D(fp8_e8m0_t), NPU_LP_S(bfloat16_t))) return {true, 2, 0, false, 64};
  if (is(NPU_LP_D(float), NPU_LP_S(bfloat16_t) || NPU_LP_S(half))) return {true, 2, 0, false, 64};
  if (is(is_fp8<D>, NPU_LP_S(float))) return {true, 4, kRint, false, 32};
  if (is(NPU_LP_D(half), NPU_LP_S(float))) return {true, 2, kSix, true, 64};
  if (is(NPU_LP_D(bfloat16_t), NPU_LP_S(float))) return {true, 2, kFive, false, 64};
  // Integer to float.
  if (is(NPU_LP_D(half), NPU_LP_S(int8_t) || NPU_LP_S(uint8_t))) return {true, 2, 0, false, 64};
  if (is(NPU_LP_D(half), NPU_LP_S(int16_t))) return {true, 1, kFive, true, 64};
  if (is(NPU_LP_D(float), NPU_LP_S(int16_t))) return {true, 2, 0, false, 64};
  if (is(NPU_LP_D(float), NPU_LP_S(int32_t))) return {true, 1, kFive, true, 32};
  // Integer to integer.
  if (is(NPU_LP_D(int16_t), NPU_LP_S(int8_t)) || is(NPU_LP_D(uint16_t), NPU_LP_S(uint8_t))) return {true, 2, 0};
  if (is(NPU_LP_D(int32_t), NPU_LP_S(int8_t)) || is(NPU_LP_D(uint32_t), NPU_LP_S(uint8_t))) return {true, 4, 0};
  if (is(NPU_LP_D(int32_t) || NPU_LP_D(uint32_t), NPU_LP_S(int16_t))) return {true, 2, 0};
  if (is(NPU_LP_D(uint32_t), NPU_LP_S(uint16_t))) return {true, 2, 0};
  if (is(NPU_LP_D(uint8_t), NPU_LP_S(int16_t) || NPU_LP_S(uint16_t))) return {true, 2, 0};
  if (is(NPU_LP_D(uint8_t), NPU_LP_S(int32_t) || NPU_LP_S(uint32_t))) return {true, 4, 0};
  if (is(NPU_LP_D(int16_t) || NPU_LP_D(uint16_t), NPU_LP_S(int32_t) || NPU_LP_S(uint32_t))) return {true, 2, 0};
#undef NPU_LP_D
#undef NPU_LP_S
  return {};
}

constexpr bool layout_fits(int layouts, RegLayout layout) {
  const int index = static_cast<int>(layout);
  return layouts == 1 ? true : index >= 0 && index < layouts;  // of equal widths the layout is not looked at
}

// CAST_NONE means CAST_RINT where the hardware headers say so.
template <typename D, typename S>
constexpr RoundMode effective_rounding(RoundMode mode) {
  return cast_pair<D, S>().none_is_rint && mode == RoundMode::CAST_NONE ? RoundMode::CAST_RINT : mode;
}

}  // namespace npu_lp::twin
