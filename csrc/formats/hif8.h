// HiFloat8 (arXiv 2409.16626; semantics.md section 3): a sign, a prefix code D that says how many exponent bits follow,
// a sign-magnitude exponent whose leading 1 is implied, and the mantissa in what is left. Near 1 it has 3 mantissa
// bits, at the ends 1; the denormal prefix gives the powers of two 2^-22 .. 2^-16.
//
//   D      exponent       mantissa bits
//   0000   denormal       value = 2^(M-23), M = 1..7; M = 0 is zero (0x00) and NaN (0x80)
//   0001   0              3
//   001    +-1            3
//   01     +-2..3         3
//   10     +-4..7         2
//   11     +-8..15        1     0x6F and 0xEF (exponent 15, mantissa 1) are +-Inf; the largest finite value is 2^15
//
// Encoding rounds to nearest, ties away from zero, which is the only mode that the training ops use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "formats/bits.h"

namespace npu_lp {

struct HiF8 {
  static constexpr uint32_t kNaN = 0x80u;
  static constexpr uint32_t kInf = 0x6Fu;
  static constexpr uint32_t kMax = 0x6Eu;
  static constexpr float kMaxValue = 32768.0f;

  static float decode(uint32_t code) {
    const uint32_t sign = (code & 0x80u) << 24;
    const uint32_t body = code & 0x7Fu;
    if (body == 0) return float_of(sign ? kCanonicalNaN : 0u);
    if (body == kInf) return float_of(sign | kExpMask);
    if (body < 0x08u) return float_of(sign | bits_of(pow2(static_cast<int>(body) - 23)));
    const Layout layout = layout_of(exponent_bits(body));
    const int field = static_cast<int>(body - layout.first_code) >> layout.man_bits;
    const float significand = 1.0f + static_cast<float>(body & ((1u << layout.man_bits) - 1u)) * pow2(-layout.man_bits);
    return float_of(sign | bits_of(significand * pow2(exponent_of(field, layout.exp_bits))));
  }

  // `saturate`: overflow and Inf give +-32768 and NaN gives 0x00; otherwise they give the Inf and NaN codes.
  static uint8_t encode(float value, bool saturate) {
    const uint32_t bits = bits_of(value);
    const uint32_t magnitude = bits & kAbsMask;
    const uint32_t sign = bits >> 31 << 7;
    if (magnitude > kExpMask) return static_cast<uint8_t>(saturate ? 0u : kNaN);
    if (float_of(magnitude) >= 40960.0f) return static_cast<uint8_t>(sign | (saturate ? kMax : kInf));
    if (float_of(magnitude) < pow2(-23)) return 0;  // zero has no sign here
    int exponent = static_cast<int>(magnitude >> 23) - 127;
    uint32_t mantissa = magnitude & 0x007FFFFFu;
    if (exponent < -15) {
      // Powers of two only: the top mantissa bit decides. 2^-23 itself is the tie that goes up to 2^-22.
      exponent += exponent == -23 || mantissa >= 0x00400000u ? 1 : 0;
      if (exponent < -15) return static_cast<uint8_t>(sign | static_cast<uint32_t>(exponent + 23));
      mantissa = 0;
    }
    const int dropped = 23 - layout_of(bits_for(exponent)).man_bits;
    uint32_t kept = (mantissa + (1u << (dropped - 1))) >> dropped;
    if (kept >> (23 - dropped)) {  // carried into the next binade, where the mantissa is 0 at any width
      kept = 0;
      ++exponent;
    }
    const Layout layout = layout_of(bits_for(exponent));
    const uint32_t field = field_of(exponent, layout.exp_bits);
    return static_cast<uint8_t>(sign | (layout.first_code + (field << layout.man_bits) + kept));
  }

 private:
  struct Layout {
    int exp_bits;  // exponent field, its sign included
    int man_bits;
    uint32_t first_code;
  };

  static Layout layout_of(int exp_bits) {
    constexpr Layout kLayouts[] = {{0, 3, 0x08}, {1, 3, 0x10}, {2, 3, 0x20}, {3, 2, 0x40}, {4, 1, 0x60}};
    return kLayouts[exp_bits];
  }
  static int exponent_bits(uint32_t body) {
    return body >= 0x60u ? 4 : body >= 0x40u ? 3 : body >= 0x20u ? 2 : body >= 0x10u ? 1 : 0;
  }
  static int bits_for(int exponent) {
    const int magnitude = std::abs(exponent);
    return magnitude >= 8 ? 4 : magnitude >= 4 ? 3 : magnitude >= 2 ? 2 : magnitude;
  }
  // field = sign bit, then the exponent's magnitude without its leading 1.
  static int exponent_of(int field, int exp_bits) {
    if (exp_bits == 0) return 0;
    const int leading = 1 << (exp_bits - 1);
    const int magnitude = leading | (field & (leading - 1));
    return field & leading ? -magnitude : magnitude;
  }
  static uint32_t field_of(int exponent, int exp_bits) {
    if (exp_bits == 0) return 0;
    const int leading = 1 << (exp_bits - 1);
    return static_cast<uint32_t>((exponent < 0 ? leading : 0) | (std::abs(exponent) & (leading - 1)));
  }
};

}  // namespace npu_lp
