// The numbers behind Cast and Truncate: rounding to integers and to narrower floats in each of the device's modes. Free
// of branches on data, so that lanes vectorize; csrc/formats holds the plain definitions that tests compare with.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "formats/bits.h"
#include "twin/enums.h"

namespace npu_lp::twin {

using AscendC::RoundMode;

// Loops over lanes vectorize only when all of their body is in place, which -O2 would not do by itself.
#define NPU_LP_LANE [[gnu::always_inline]] inline

// condition ? a : b, in a form that the vectorizer takes at -O2.
NPU_LP_LANE uint32_t pick(bool condition, uint32_t a, uint32_t b) {
  const uint32_t chosen = 0u - static_cast<uint32_t>(condition);
  return (a & chosen) | (b & ~chosen);
}
// Magnitudes of floats compare as signed integers, which every instruction set can.
NPU_LP_LANE bool less(uint32_t magnitude, uint32_t limit) {
  return static_cast<int32_t>(magnitude) < static_cast<int32_t>(limit);
}

NPU_LP_LANE bool is_nan(float value) {
  return less(kExpMask, bits_of(value) & kAbsMask);
}
// Any NaN becomes the canonical one.
NPU_LP_LANE float one_nan(float value) {
  return float_of(pick(is_nan(value), kCanonicalNaN, bits_of(value)));
}

// A float below 2^31 that is not negative, to an integer; `sign` is that of the number rounded.
template <RoundMode MODE>
NPU_LP_LANE uint32_t round_count(float count, uint32_t sign) {
  const int32_t whole = static_cast<int32_t>(count);
  const float fraction = count - static_cast<float>(whole);  // exact
  const uint32_t up = 0u - static_cast<uint32_t>(fraction > 0.0f);
  uint32_t more;
  if constexpr (MODE == RoundMode::CAST_RINT)
    more = pick(fraction == 0.5f, static_cast<uint32_t>(whole), static_cast<uint32_t>(fraction > 0.5f));
  else if constexpr (MODE == RoundMode::CAST_ROUND)
    more = fraction >= 0.5f;
  else if constexpr (MODE == RoundMode::CAST_FLOOR)
    more = up & sign;
  else if constexpr (MODE == RoundMode::CAST_CEIL)
    more = up & ~sign;
  else if constexpr (MODE == RoundMode::CAST_ODD)
    more = up & ~static_cast<uint32_t>(whole);
  else
    more = 0;
  return static_cast<uint32_t>(whole) + (more & 1u);
}

// |value| < 2^23 is rounded to an integer, larger values are integers already; the sign of zero stays.
template <RoundMode MODE>
NPU_LP_LANE float round_to_integer(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & kAbsMask;
  const bool fractional = less(magnitude, 0x4B000000u);
  const float small = float_of(pick(fractional, magnitude, 0u));
  const float rounded = static_cast<float>(static_cast<int32_t>(round_count<MODE>(small, bits >> 31)));
  return float_of(pick(fractional, bits_of(rounded) | (bits & 0x80000000u), bits));
}

// What to add to a magnitude below the bits that are kept, so that cutting them off rounds.
template <RoundMode MODE>
NPU_LP_LANE uint32_t rounding_addend(uint32_t magnitude, int dropped, uint32_t sign) {
  const uint32_t below_half = (1u << (dropped - 1)) - 1u;
  const uint32_t all = (1u << dropped) - 1u;
  if constexpr (MODE == RoundMode::CAST_RINT)
    return below_half + ((magnitude >> dropped) & 1u);
  else if constexpr (MODE == RoundMode::CAST_ROUND)
    return below_half + 1u;
  else if constexpr (MODE == RoundMode::CAST_FLOOR)
    return all & (0u - sign);
  else if constexpr (MODE == RoundMode::CAST_CEIL)
    return all & (sign - 1u);
  else
    return 0u;  // CAST_TRUNC; CAST_ODD sets the last bit afterwards
}

// The magnitude of a float that is no NaN, as code of a format with EXP exponent bits, MAN mantissa bits and a bias.
// May be larger than the format's largest code: the caller saturates.
template <int EXP, int MAN, int BIAS, RoundMode MODE>
NPU_LP_LANE uint32_t narrow_magnitude(float value) {
  constexpr int kDropped = 23 - MAN;
  const uint32_t bits = bits_of(value);
  const uint32_t sign = bits >> 31;
  const uint32_t magnitude = bits & kAbsMask;
  uint32_t normal = (magnitude + rounding_addend<MODE>(magnitude, kDropped, sign)) >> kDropped;
  if constexpr (MODE == RoundMode::CAST_ODD) normal |= (magnitude & ((1u << kDropped) - 1u)) != 0;
  if constexpr (BIAS == 127) {
    return normal;  // the exponents are fp32's, subnormals included
  } else {
    normal -= static_cast<uint32_t>(127 - BIAS) << MAN;
    // Below the smallest normal the code counts quanta of 2^(1 - BIAS - MAN).
    const bool is_small = less(magnitude, static_cast<uint32_t>(128 - BIAS) << 23);
    const float scale = float_of(static_cast<uint32_t>(127 + BIAS - 1 + MAN) << 23);
    const float count = float_of(pick(is_small, magnitude, 0u)) * scale;  // exact: a power of two
    return pick(is_small, round_count<MODE>(count, sign), normal);
  }
}

// An 8-bit or 4-bit float. MAX: largest finite code; above it `inf_code`, which is MAX to saturate.
template <int EXP, int MAN, int BIAS, uint32_t MAX, RoundMode MODE>
NPU_LP_LANE uint32_t narrow_small(float value, uint32_t inf_code, uint32_t nan_code) {
  const uint32_t sign = bits_of(value) >> 31 << (EXP + MAN);
  const uint32_t code = narrow_magnitude<EXP, MAN, BIAS, MODE>(value);
  return pick(is_nan(value), nan_code, sign | pick(less(MAX, code), inf_code, code));
}

// fp32 to fp16 or bf16. Saturating: Inf and what is too large become the largest finite value, NaN becomes 0.
template <int EXP, int MAN, RoundMode MODE>
NPU_LP_LANE uint32_t narrow_16(float value, bool saturate) {
  constexpr int kBias = (1 << (EXP - 1)) - 1;
  constexpr uint32_t kInf = ((1u << EXP) - 1u) << MAN;
  constexpr uint32_t kNaN = kInf | 1u << (MAN - 1);
  const uint32_t bits = bits_of(value);
  const uint32_t sign = bits >> 31 << 15;
  const uint32_t code = narrow_magnitude<EXP, MAN, kBias, MODE>(value);
  // Towards zero, a finite value never becomes Inf.
  const bool inward = (MODE == RoundMode::CAST_TRUNC) | (MODE == RoundMode::CAST_ODD) |
                      ((MODE == RoundMode::CAST_FLOOR) & (sign == 0)) | ((MODE == RoundMode::CAST_CEIL) & (sign != 0));
  const bool is_inf = (bits & kAbsMask) == kExpMask;
  const uint32_t overflow = kInf - static_cast<uint32_t>(saturate | (inward & !is_inf));
  const uint32_t limited = pick(less(code, kInf), code, overflow);
  return pick(is_nan(value), saturate ? 0u : kNaN, sign | limited);
}

// fp16 and bf16 in lanes of 32 bits, as csrc/formats/bits.h defines them.
NPU_LP_LANE float widen_half(uint32_t bits) {
  const uint32_t magnitude = (bits & 0x7FFFu) << 13;
  const uint32_t finite = bits_of(float_of(magnitude) * 0x1p112f);
  return float_of((bits & 0x8000u) << 16 | pick(less(magnitude, 0x0F800000u), finite, magnitude | kExpMask));
}
NPU_LP_LANE uint32_t narrow_half(float value) {
  return narrow_16<5, 10, RoundMode::CAST_RINT>(value, false);
}
NPU_LP_LANE float widen_bfloat(uint32_t bits) {
  return float_of(bits << 16);
}
NPU_LP_LANE uint32_t narrow_bfloat(float value) {
  const uint32_t bits = bits_of(value);
  return pick(is_nan(value), 0x7FC0u, (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// Float to an integer type: NaN gives 0, Inf the limits; what does not fit is clamped or cut to the low bits.
template <typename I, RoundMode MODE>
I narrow_to_integer(float value, bool saturate) {
  using Limits = std::numeric_limits<I>;
  const float rounded = round_to_integer<MODE>(value);
  if (rounded != rounded) return 0;
  if (std::isinf(rounded)) return rounded > 0 ? Limits::max() : Limits::lowest();
  const double exact = static_cast<double>(rounded);
  if (saturate) {
    if (exact >= static_cast<double>(Limits::max())) return Limits::max();
    if (exact <= static_cast<double>(Limits::lowest())) return Limits::lowest();
  }
  if (std::fabs(exact) >= 9223372036854775808.0) return 0;  // its low bits are zeros
  return static_cast<I>(static_cast<int64_t>(exact));
}

// An integer to a float with P bits of significand (24: fp32, 11: fp16).
template <int P, RoundMode MODE>
float widen_integer(int64_t value) {
  const uint32_t sign = value < 0;
  uint64_t magnitude = sign ? 0u - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  int dropped = 0;
  while ((magnitude >> dropped) >> P) ++dropped;
  uint64_t kept = magnitude >> dropped;
  const uint64_t rest = magnitude & ((uint64_t{1} << dropped) - 1);
  const uint64_t half_way = dropped ? uint64_t{1} << (dropped - 1) : 1;
  if constexpr (MODE == RoundMode::CAST_RINT)
    kept += rest > half_way || (rest == half_way && (kept & 1));
  else if constexpr (MODE == RoundMode::CAST_ROUND)
    kept += rest >= half_way;
  else if constexpr (MODE == RoundMode::CAST_FLOOR)
    kept += sign && rest;
  else if constexpr (MODE == RoundMode::CAST_CEIL)
    kept += !sign && rest;
  const float result = std::ldexp(static_cast<float>(kept), dropped);
  return sign ? -result : result;
}

// HiFloat8. Ties away from zero depends on sign, exponent and four mantissa bits only: a table of what csrc/formats
// says.
struct HiF8Table {
  uint8_t saturating[4096];
  uint8_t plain[4096];
};
const HiF8Table& hif8_table();
NPU_LP_LANE uint8_t narrow_hif8(const HiF8Table& table, float value, bool saturate) {
  const uint32_t magnitude = bits_of(value) & kAbsMask;
  const uint32_t index = magnitude >> 19;
  const uint8_t code = saturate ? table.saturating[index] : table.plain[index];
  const uint8_t sign = static_cast<uint8_t>(bits_of(value) >> 31 << 7);
  const uint8_t nan = saturate ? 0u : 0x80u;
  return magnitude > kExpMask ? nan : code == 0 ? code : static_cast<uint8_t>(sign | code);
}

// What the codes of 8-bit and 4-bit floats mean.
struct DecodeTables {
  float e4m3[256];
  float e5m2[256];
  float hif8[256];
  uint16_t e2m1[16];  // bf16
  uint16_t e1m2[16];
};
const DecodeTables& decode_tables();

}  // namespace npu_lp::twin
