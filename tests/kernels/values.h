// Inputs that find faults: each row of a tensor gets one kind of values.
#pragma once

#include <cmath>
#include <cstdint>

#include "buffer.h"
#include "reference.h"
#include "source.h"

namespace npu_lp::cpu::test {

enum class Kind { kNormal, kBits, kWide, kSmall, kTies, kEdges, kSpecial, kZeros, kCount };

// A point halfway between two codes of the format, or at one, scaled by 2^exponent.
inline double tie(Source& from, Format format, int exponent) {
  const auto magnitude = [&](uint32_t code) { return static_cast<double>(decode(format, code)); };
  const uint32_t codes = format == Format::kHiF8   ? 0x6E
                         : info(format).bits == 4  ? 7
                         : format == Format::kE4M3 ? 0x7E
                                                   : 0x7B;
  const uint32_t code =
      static_cast<uint32_t>(from.below(format == Format::kE3M2 || format == Format::kE2M3 ? 0x1F : codes));
  const double low = magnitude(code), high = magnitude(code + 1);
  return std::ldexp(from.one_in(4) ? low : (low + high) / 2, exponent);
}

// n stored values of one kind, for a quantizer to this format. Ties are then multiplied by a scale that is no power of
// two, if one is given: their quotients lie at a tie or one fp32 beside it.
inline void fill(Source& from, Format format, FloatType type, void* x, int64_t first, int64_t n, float scale = 0.0f) {
  const Kind kind = static_cast<Kind>(from.below(static_cast<uint64_t>(Kind::kCount)));
  const int exponent = static_cast<int>(type == FloatType::kFloat16 ? from.between(-20, 10) : from.between(-126, 120));
  // The scale byte is 0 near 2^-127, or that times 2^emax, where the rules have their own cases.
  const int edge = type != FloatType::kFloat16 && from.one_in(2)
                       ? static_cast<int>(from.between(-136, -124)) + (from.one_in(2) ? info(format).emax : 0)
                       : exponent;
  const int least = type == FloatType::kFloat16 ? -14 : -126, most = type == FloatType::kFloat16 ? 15 : 127;
  const double maximum = static_cast<double>(info(format).max_value);
  const auto finite = [&](double value) { return narrowed(type, static_cast<float>(value)); };
  const auto sign = [&] { return from.one_in(2) ? -1.0 : 1.0; };
  const uint32_t exponent_bits = finite(HUGE_VAL), sign_bit = finite(-0.0);
  int64_t above = 0, beside = 0;
  for (int64_t i = first; i < first + n; ++i) {
    uint32_t bits = 0;
    switch (kind) {
      case Kind::kBits:
        bits = static_cast<uint32_t>(from.bits());
        break;
      case Kind::kWide:
        bits = finite(sign() * std::ldexp(1.0 + from.uniform(), static_cast<int>(from.between(least - 12, most - 1))));
        break;
      case Kind::kSmall:  // subnormals, and the few binades above them
        bits = finite(sign() * std::ldexp(from.uniform(), static_cast<int>(from.between(least - 4, least + 24))));
        break;
      case Kind::kTies:  // and their neighbours
        bits = scale != 0.0f ? finite(sign() * tie(from, format, 0) * static_cast<double>(scale))
                             : finite(sign() * tie(from, format, exponent));
        if ((bits & ~sign_bit) != 0) bits += static_cast<uint32_t>(from.between(-1, 1));
        break;
      case Kind::kEdges:  // where the scale byte changes: powers of two, the format's maximum times them, 6 and 7
        // The largest of a block must often be the edge itself: neighbours above it are allowed in some runs only.
        // An fp32 may also be where cutting it to bf16 differs from rounding it.
        if ((i - first) % 16 == 0) {
          above = from.between(-2, 2);
          beside = type == FloatType::kFloat32 ? from.pick<int64_t>({0, 0, 0x8000, 0xC000}) : 0;
        }
        bits = finite(from.pick({1.0, maximum, 1.5, 1.75, 1.875, 3.0}) * std::ldexp(1.0, edge));
        if (bits > 1) bits += static_cast<uint32_t>(from.between(-2, above) + beside);
        break;
      default:
        bits = finite(from.normal());
    }
    if (kind == Kind::kSpecial && from.one_in(40)) {
      bits = (from.one_in(2) ? exponent_bits : exponent_bits | static_cast<uint32_t>(from.bits())) |
             (from.one_in(2) ? sign_bit : 0);
    }
    if (kind == Kind::kZeros && !from.one_in(50)) bits = from.one_in(2) ? sign_bit : 0;
    std::memcpy(static_cast<uint8_t*>(x) + static_cast<size_t>(i) * size_of(type), &bits, size_of(type));
  }
}

// Sizes around what kernels treat apart: 1, vectors, blocks, chunks.
inline int64_t ragged(Source& from, int64_t most) {
  const int64_t near = from.pick<int64_t>({1, 8, 16, 32, 48, 64, 96, 128, 240, 256, 384, 512});
  const int64_t size = from.one_in(2) ? from.between(1, 40) : near + from.between(-2, 2);
  return std::min(std::max<int64_t>(size, 1), most);
}

}  // namespace npu_lp::cpu::test
