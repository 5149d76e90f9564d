// The scalar definition that the kernels are compared with, written from docs/semantics.md with the scalar codecs of
// csrc/formats and nothing of csrc/cpu.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "formats/e8m0.h"
#include "formats/formats.h"
#include "formats/quant_spec.h"

namespace npu_lp::cpu::test {

// Exponent and mantissa bits of bf16, fp16 and fp32.
struct Layout {
  int exponent, mantissa;
};

inline Layout layout_of(FloatType type) {
  switch (type) {
    case FloatType::kBFloat16:
      return {8, 7};
    case FloatType::kFloat16:
      return {5, 10};
    default:
      return {8, 23};
  }
}

inline size_t size_of(FloatType type) {
  return type == FloatType::kFloat32 ? 4 : 2;
}

inline uint32_t stored(FloatType type, const void* x, int64_t index) {
  uint32_t bits = 0;  // little endian, as x86-64 and AArch64 are
  std::memcpy(&bits, static_cast<const uint8_t*>(x) + static_cast<size_t>(index) * size_of(type), size_of(type));
  return bits;
}

// fp32 value of a bf16, fp16 or fp32: always exact.
inline float widened(FloatType type, uint32_t bits) {
  const Layout layout = layout_of(type);
  const uint32_t all_exponent = (1u << layout.exponent) - 1u, sign = bits >> (layout.exponent + layout.mantissa);
  const uint32_t exponent = bits >> layout.mantissa & all_exponent, mantissa = bits & ((1u << layout.mantissa) - 1u);
  const uint32_t sign_bit = sign << 31;
  if (exponent == all_exponent) return float_of(sign_bit | 0x7F800000u | mantissa << (23 - layout.mantissa));
  const int bias = (1 << (layout.exponent - 1)) - 1;
  const double significand = exponent == 0 ? mantissa : mantissa + std::ldexp(1.0, layout.mantissa);
  const double value = std::ldexp(significand, std::max<int>(static_cast<int>(exponent), 1) - bias - layout.mantissa);
  return static_cast<float>(sign != 0 ? -value : value);
}

// One rounding to nearest even; overflow gives Inf, and any NaN the canonical one.
inline uint32_t narrowed(FloatType type, float value) {
  const Layout layout = layout_of(type);
  const uint32_t inf = ((1u << layout.exponent) - 1u) << layout.mantissa;
  if (std::isnan(value)) return inf | 1u << (layout.mantissa - 1);
  const uint32_t sign = (std::signbit(value) ? 1u : 0u) << (layout.exponent + layout.mantissa);
  if (std::isinf(value)) return sign | inf;
  const int least = 2 - (1 << (layout.exponent - 1));
  const int exponent = value == 0.0f ? least : std::max(std::ilogb(value), least);
  const double quanta = std::nearbyint(std::ldexp(std::fabs(static_cast<double>(value)), layout.mantissa - exponent));
  const uint32_t code = (static_cast<uint32_t>(exponent - least) << layout.mantissa) + static_cast<uint32_t>(quanta);
  return sign | std::min(code, inf);
}

// The least byte b with 2^(b-127) >= value, at most 254.
inline uint32_t byte_at_least(float value) {
  uint32_t byte = 0;
  while (byte < 254 && std::ldexp(1.0, static_cast<int>(byte) - 127) < static_cast<double>(value)) ++byte;
  return byte;
}

// Scale rules. amax is the bits of the largest magnitude.
inline uint32_t reference_byte(const QuantSpec& spec, uint32_t amax) {
  const FormatInfo& format = info(spec.format);
  if (amax >= 0x7F800000u) return 255;
  if (spec.rule == ScaleRule::kFloor) {
    return static_cast<uint32_t>(std::max(static_cast<int>(amax >> 23) - format.emax, 0));
  }
  if (spec.rule == ScaleRule::kRceil) {
    float largest = float_of(amax);
    if (largest != 0.0f) largest = std::max(largest, spec.max_low_bound);
    return byte_at_least(largest * (1.0f / format.max_value));
  }
  const bool cut = spec.input == FloatType::kFloat32 && spec.amax_truncates;
  const float largest = cut ? float_of(amax & 0xFFFF0000u)
                            : widened(FloatType::kBFloat16, narrowed(FloatType::kBFloat16, float_of(amax)));
  if (std::isinf(largest)) return 255;
  const float dst = spec.dst_max == 0.0f ? format.max_value : spec.dst_max;
  const float up_above = dst == 6.0f ? 1.5f : dst == 7.0f ? 1.75f : dst == 1.875f ? 1.875f : 0.0f;
  const int field = largest < 0x1p-126f ? 0 : std::ilogb(largest) + 127;
  if (up_above != 0.0f) {
    if (field < 2) return 0;
    const bool up = static_cast<double>(largest) > std::ldexp(static_cast<double>(up_above), field - 127);
    return static_cast<uint32_t>(field - format.emax + (up ? 1 : 0));
  }
  const float quotient = largest * (1.0f / dst);
  return quotient < 0x1p-126f ? 0 : byte_at_least(quotient);
}

// The code of x in a block with this amax and byte; index is x's, in the whole tensor.
inline uint8_t reference_code(const QuantSpec& spec, uint32_t amax, uint32_t byte, float x, int64_t index) {
  if (byte == 255) return 0;
  float multiplier = static_cast<float>(std::ldexp(1.0, 127 - static_cast<int>(byte)));
  if (byte == 0 && spec.rule != ScaleRule::kRceil && spec.underflow != Underflow::kOcp) {
    const uint32_t limit = spec.underflow == Underflow::kFlushEmax ? static_cast<uint32_t>(info(spec.format).emax) : 0u;
    if (amax >> 23 <= limit) multiplier = 0.0f;
  }
  float product = x * multiplier;
  const bool in_bf16 =
      spec.input == FloatType::kBFloat16 && spec.rounding != Rounding::kRint && spec.rounding != Rounding::kStochastic;
  if (in_bf16) product = widened(FloatType::kBFloat16, narrowed(FloatType::kBFloat16, product));
  const double uniform = spec.rounding == Rounding::kStochastic ? uniform_of(spec.seed, index) : 0.0;
  return with_codec(spec.format, [&](auto codec) { return decltype(codec)::encode(product, spec.rounding, uniform); });
}

// Code number `at` of codes that lie one to a byte, or two to a byte with the even one in the low nibble.
inline uint32_t read_code(Format format, const uint8_t* codes, int64_t at) {
  return info(format).bits == 4 ? codes[at / 2] >> (at % 2 * 4) & 15u : codes[at];
}

inline void write_code(Format format, uint8_t* codes, int64_t at, uint32_t code) {
  if (info(format).bits != 4) {
    codes[at] = static_cast<uint8_t>(code);
    return;
  }
  const int shift = static_cast<int>(at % 2 * 4);
  codes[at / 2] = static_cast<uint8_t>((codes[at / 2] & ~(15 << shift)) | code << shift);
}

}  // namespace npu_lp::cpu::test
