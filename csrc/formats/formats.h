// The table of element formats. A new format is a codec in this folder and a line here.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/hif8.h"
#include "formats/minifloat.h"

namespace npu_lp {

enum class Format : uint8_t { kE4M3, kE5M2, kE2M1, kE1M2, kE3M2, kE2M3, kHiF8 };

struct FormatInfo {
  Format format;
  std::string_view name;
  int bits;         // stored bits per element: 4 means two per byte, even index in the low nibble
  int emax;         // exponent of the largest finite value
  float max_value;  // largest finite value
  bool is_mx;       // takes a shared e8m0 scale
  bool on_npu;      // Ascend 950 has the type; the others are for research on the CPU
};

constexpr FormatInfo kFormats[] = {
    {Format::kE4M3, "e4m3", 8, 8, 448.0f, true, true},     {Format::kE5M2, "e5m2", 8, 15, 57344.0f, true, true},
    {Format::kE2M1, "e2m1", 4, 2, 6.0f, true, true},       {Format::kE1M2, "e1m2", 4, 0, 1.75f, true, true},
    {Format::kE3M2, "e3m2", 8, 4, 28.0f, true, false},     {Format::kE2M3, "e2m3", 8, 2, 7.5f, true, false},
    {Format::kHiF8, "hif8", 8, 15, 32768.0f, false, true},
};

constexpr const FormatInfo& info(Format format) {
  return kFormats[static_cast<size_t>(format)];
}

// Calls f with the codec type of an MX format, so that a kernel written once is compiled for each.
template <typename F>
auto with_codec(Format format, F&& f) {
  switch (format) {
    case Format::kE5M2:
      return f(E5M2{});
    case Format::kE2M1:
      return f(E2M1{});
    case Format::kE1M2:
      return f(E1M2{});
    case Format::kE3M2:
      return f(E3M2{});
    case Format::kE2M3:
      return f(E2M3{});
    default:
      return f(E4M3{});
  }
}

inline float decode(Format format, uint32_t code) {
  if (format == Format::kHiF8) return HiF8::decode(code);
  return with_codec(format, [code](auto codec) { return decltype(codec)::decode(code); });
}

}  // namespace npu_lp
