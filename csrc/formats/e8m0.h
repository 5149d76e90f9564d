// e8m0: the shared scale of an MX block. A byte b means 2^(b-127); 255 is NaN (OCP MX v1.0, section 5.4.1).
#pragma once

#include <cstdint>

#include "formats/bits.h"

namespace npu_lp {

constexpr uint32_t kNaNScale = 0xFFu;

// The value of a scale byte. Byte 0 is 2^-127, an fp32 subnormal.
inline float e8m0_value(uint32_t byte) {
  if (byte == kNaNScale) return float_of(kCanonicalNaN);
  return float_of(byte == 0 ? 0x00400000u : byte << 23);
}

// 2^(127-byte): what a block's elements are multiplied by before they are encoded. A power of two, so the product is
// exact unless it is subnormal. Byte 254 gives the subnormal 2^-127.
inline float e8m0_reciprocal(uint32_t byte) {
  if (byte == kNaNScale) return float_of(kCanonicalNaN);
  return e8m0_value(254u - byte);
}

}  // namespace npu_lp
