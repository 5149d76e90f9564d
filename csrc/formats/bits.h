// Bit views of IEEE floats, and the exact widenings that every codec here starts from.
// Nothing in csrc/formats depends on torch or on a backend.
#pragma once

#include <cstdint>
#include <cstring>

namespace npu_lp {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

constexpr uint32_t kAbsMask = 0x7FFFFFFFu;
constexpr uint32_t kExpMask = 0x7F800000u;
constexpr uint32_t kCanonicalNaN = 0x7FC00000u;

// Any NaN becomes the canonical one; numbers stay.
inline float canonical(float value) {
  return value == value ? value : float_of(kCanonicalNaN);
}

// 2^exponent for a normal fp32 exponent, built from bits.
inline float pow2(int exponent) {
  return float_of(static_cast<uint32_t>(exponent + 127) << 23);
}

inline float widen_bf16(uint16_t bits) {
  return float_of(static_cast<uint32_t>(bits) << 16);
}

// fp16 -> fp32 without a table or a branch: the multiplication by 2^112 re-biases the exponent and normalizes
// subnormals in one exact step; Inf and NaN get their exponent field filled afterwards.
inline float widen_fp16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7FFFu) << 13;
  const uint32_t finite = bits_of(float_of(magnitude) * pow2(112));
  const uint32_t special = magnitude | kExpMask;
  return float_of(sign | (magnitude >= 0x0F800000u ? special : finite));
}

// fp32 -> bf16, round to nearest even, every NaN to 0x7FC0.
inline uint16_t narrow_bf16(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & kAbsMask) > kExpMask) return 0x7FC0u;
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// fp32 -> fp16, round to nearest even, overflow to Inf, every NaN to 0x7E00.
inline uint16_t narrow_fp16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & kAbsMask;
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  if (magnitude > kExpMask) return 0x7E00u;
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 65520: the tie that rounds to 2^16
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the fp16 quantum is fixed at 2^-24: adding 0.5 aligns it with fp32's last bit, and the adder rounds.
    const float shifted = float_of(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_of(shifted) - 0x3F000000u));
  }
  const uint32_t rounded = magnitude + 0x0FFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace npu_lp
