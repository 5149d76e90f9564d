// Sign-exponent-mantissa formats of up to 8 bits: what each code means, and how an fp32 value becomes one.
//
//   e4m3, e5m2  OCP 8-bit floating point (OFP8) v1.0, section 5
//   e2m1        OCP Microscaling (MX) v1.0, section 5.3.3
//   e3m2, e2m3  OCP MX v1.0, section 5.3.2 (emulation only: Ascend 950 has no such type)
//   e1m2        Ascend's fp4_e1m2: no special codes, values 0 to 1.75 in steps of 0.25
//
// Encoding is what the device's saturating Cast does (semantics.md section 2.2): one rounding, overflow and Inf to the
// largest finite value, NaN to code 0, signed zero kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "formats/bits.h"

namespace npu_lp {

enum class Rounding {
  kRint,        // to nearest, ties to even
  kRound,       // to nearest, ties away from zero
  kFloor,       // towards minus infinity
  kStochastic,  // up in magnitude with the probability of the fraction; for research, not on the device
};

// MAX_CODE is the largest finite magnitude; codes above it are Inf or NaN (see decode).
template <int EXP_BITS, int MAN_BITS, int BIAS, uint32_t MAX_CODE, bool HAS_INF>
struct MiniFloat {
  static constexpr int kExpBits = EXP_BITS;
  static constexpr int kManBits = MAN_BITS;
  static constexpr int kBits = 1 + EXP_BITS + MAN_BITS;
  static constexpr int kMinExp = 1 - BIAS;  // exponent of the smallest normal, and of every subnormal
  static constexpr uint32_t kMaxCode = MAX_CODE;
  static constexpr int kMaxExp = static_cast<int>(MAX_CODE >> MAN_BITS) - BIAS;  // emax of the OCP MX specification
  static constexpr bool kHasInf = HAS_INF;
  static constexpr uint32_t kMagnitudeMask = (1u << (EXP_BITS + MAN_BITS)) - 1u;

  static float max_value() { return decode(kMaxCode); }

  static float decode(uint32_t code) {
    const uint32_t magnitude = code & kMagnitudeMask;
    const uint32_t sign = (code >> (kBits - 1) & 1u) << 31;
    if (magnitude > kMaxCode) {
      const bool inf = kHasInf && (magnitude & ((1u << MAN_BITS) - 1u)) == 0;
      return float_of(sign | (inf ? kExpMask : kCanonicalNaN));
    }
    const uint32_t exp_field = magnitude >> MAN_BITS;
    const uint32_t mantissa = magnitude & ((1u << MAN_BITS) - 1u);
    const int exponent = exp_field == 0 ? kMinExp : static_cast<int>(exp_field) - BIAS;
    const uint32_t significand = exp_field == 0 ? mantissa : mantissa | (1u << MAN_BITS);
    return float_of(sign | bits_of(static_cast<float>(significand) * pow2(exponent - MAN_BITS)));
  }

  // `uniform` in [0, 1) is the random number of stochastic rounding.
  static uint8_t encode(float value, Rounding rounding = Rounding::kRint, double uniform = 0.0) {
    const uint32_t bits = bits_of(value);
    const uint32_t magnitude = bits & kAbsMask;
    if (magnitude > kExpMask) return 0;
    const uint8_t sign = static_cast<uint8_t>((bits >> 31) << (kBits - 1));
    if (float_of(magnitude) >= max_value()) return static_cast<uint8_t>(sign | kMaxCode);
    // Count quanta of 2^(exponent - mantissa bits) in double, where the count and its fraction are exact.
    const int exponent = std::max(static_cast<int>(magnitude >> 23) - 127, kMinExp);
    const double count = std::ldexp(static_cast<double>(float_of(magnitude)), MAN_BITS - exponent);
    const double whole = std::floor(count);
    const double fraction = count - whole;
    uint32_t quanta = static_cast<uint32_t>(whole);
    switch (rounding) {
      case Rounding::kRint:
        quanta += fraction > 0.5 || (fraction == 0.5 && (quanta & 1u));
        break;
      case Rounding::kRound:
        quanta += fraction >= 0.5;
        break;
      case Rounding::kFloor:
        quanta += sign != 0 && fraction > 0.0;
        break;
      case Rounding::kStochastic:
        quanta += fraction > uniform;
        break;
    }
    // A carry out of the mantissa lands in the exponent field, which is where it belongs.
    const uint32_t code = (static_cast<uint32_t>(exponent - kMinExp) << MAN_BITS) + quanta;
    return static_cast<uint8_t>(sign | std::min(code, kMaxCode));
  }
};

using E4M3 = MiniFloat<4, 3, 7, 0x7E, false>;
using E5M2 = MiniFloat<5, 2, 15, 0x7B, true>;
using E2M1 = MiniFloat<2, 1, 1, 0x7, false>;
using E1M2 = MiniFloat<1, 2, 1, 0x7, false>;
using E3M2 = MiniFloat<3, 2, 3, 0x1F, false>;
using E2M3 = MiniFloat<2, 3, 1, 0x1F, false>;

}  // namespace npu_lp
