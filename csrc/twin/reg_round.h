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

// |value| < 2^23 is rounded to an integer, larger values are integers already; the sign of zero stays.
template <RoundMode MODE>
float round_to_integer(float value) {
  const uint32_t sign = bits_of(value) & 0x80000000u;
  const float magnitude = float_of(bits_of(value) & kAbsMask);
  const bool integral = !(magnitude < 8388608.0f);
  const float small = integral ? 0.0f : magnitude;
  const float whole = static_cast<float>(static_cast<int32_t>(small));
  const float fraction = small - whole;  // exact
  bool up;
  if constexpr (MODE == RoundMode::CAST_RINT)
    up = (fraction > 0.5f) | ((fraction == 0.5f) & ((static_cast<int32_t>(small) & 1) != 0));
  else if constexpr (MODE == RoundMode::CAST_ROUND)
    up = fraction >= 0.5f;
  else if constexpr (MODE == RoundMode::CAST_FLOOR)
    up = (sign != 0) & (fraction > 0.0f);
  else if constexpr (MODE == RoundMode::CAST_CEIL)
    up = (sign == 0) & (fraction > 0.0f);
  else
    up = false;
  const float rounded = whole + (up ? 1.0f : 0.0f);
  return integral ? value : float_of(bits_of(rounded) | sign);
}

// What to add to a magnitude below the bits that are kept, so that cutting them off rounds.
template <RoundMode MODE>
uint32_t rounding_addend(uint32_t magnitude, int dropped, uint32_t sign) {
  const uint32_t below_half = (1u << (dropped - 1)) - 1u;
  const uint32_t all = (1u << dropped) - 1u;
  if constexpr (MODE == RoundMode::CAST_RINT)
    return below_half + ((magnitude >> dropped) & 1u);
  else if constexpr (MODE == RoundMode::CAST_ROUND)
    return below_half + 1u;
  else if constexpr (MODE == RoundMode::CAST_FLOOR)
    return sign ? all : 0u;
  else if constexpr (MODE == RoundMode::CAST_CEIL)
    return sign ? 0u : all;
  else
    return 0u;  // CAST_TRUNC; CAST_ODD sets the last bit afterwards
}

// The magnitude of a float that is no NaN, as code of a format with EXP exponent bits, MAN mantissa bits and a bias.
// May be larger than the format's largest code: the caller saturates.
template <int EXP, int MAN, int BIAS, RoundMode MODE>
uint32_t narrow_magnitude(float value) {
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
    const float smallest = float_of(static_cast<uint32_t>(128 - BIAS) << 23);
    const bool is_small = float_of(magnitude) < smallest;
    const float scale = float_of(static_cast<uint32_t>(127 + BIAS - 1 + MAN) << 23);
    const float count = (is_small ? float_of(magnitude) : 0.0f) * scale;  // exact: a power of two
    uint32_t quanta;
    if constexpr (MODE == RoundMode::CAST_ODD) {
      quanta = static_cast<uint32_t>(static_cast<int32_t>(count));
      quanta |= static_cast<float>(static_cast<int32_t>(quanta)) != count;
    } else {
      const float rounded = float_of(bits_of(round_to_integer<MODE>(float_of(bits_of(count) | sign << 31))) & kAbsMask);
      quanta = static_cast<uint32_t>(static_cast<int32_t>(rounded));
    }
    return is_small ? quanta : normal;
  }
}

inline bool is_nan(float value) {
  return (bits_of(value) & kAbsMask) > kExpMask;
}

// An 8-bit or 4-bit float. MAX: largest finite code; above it `inf_code`, which is MAX to saturate.
template <int EXP, int MAN, int BIAS, uint32_t MAX, RoundMode MODE>
uint32_t narrow_small(float value, uint32_t inf_code, uint32_t nan_code) {
  const uint32_t sign = bits_of(value) >> 31 << (EXP + MAN);
  const uint32_t code = narrow_magnitude<EXP, MAN, BIAS, MODE>(value);
  const uint32_t limited = code > MAX ? inf_code : code;
  return is_nan(value) ? nan_code : sign | limited;
}

// fp32 to fp16 or bf16. Saturating: Inf and what is too large become the largest finite value, NaN becomes 0.
template <int EXP, int MAN, RoundMode MODE>
uint16_t narrow_16(float value, bool saturate) {
  constexpr int kBias = (1 << (EXP - 1)) - 1;
  constexpr uint32_t kInf = ((1u << EXP) - 1u) << MAN;
  constexpr uint32_t kNaN = kInf | 1u << (MAN - 1);
  const uint32_t bits = bits_of(value);
  const uint32_t sign = bits >> 31 << 15;
  const uint32_t code = narrow_magnitude<EXP, MAN, kBias, MODE>(value);
  // Towards zero, a finite value never becomes Inf.
  const bool inward = MODE == RoundMode::CAST_TRUNC || MODE == RoundMode::CAST_ODD ||
                      (MODE == RoundMode::CAST_FLOOR && sign == 0) || (MODE == RoundMode::CAST_CEIL && sign != 0);
  const bool is_inf = (bits & kAbsMask) == kExpMask;
  const uint32_t overflow = saturate || (inward && !is_inf) ? kInf - 1u : kInf;
  const uint32_t limited = code >= kInf ? overflow : code;
  return static_cast<uint16_t>(is_nan(value) ? (saturate ? 0u : kNaN) : sign | limited);
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
inline uint8_t narrow_hif8(const HiF8Table& table, float value, bool saturate) {
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
