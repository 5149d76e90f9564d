// The element types of AscendC as plain values of 1 or 2 bytes, with the code in `bits`, and what the machine needs to
// know of them. Scalar code may convert them to float and back; half and bfloat16_t do so silently, as on the device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "formats/bits.h"
#include "formats/e8m0.h"
#include "formats/hif8.h"
#include "formats/minifloat.h"

struct half {
  uint16_t bits;
  half() = default;
  template <typename A, std::enable_if_t<std::is_arithmetic_v<A>, int> = 0>
  half(A value) : bits(npu_lp::narrow_fp16(static_cast<float>(value))) {}
  operator float() const { return npu_lp::widen_fp16(bits); }
};

struct bfloat16_t {
  uint16_t bits;
  bfloat16_t() = default;
  template <typename A, std::enable_if_t<std::is_arithmetic_v<A>, int> = 0>
  bfloat16_t(A value) : bits(npu_lp::narrow_bf16(static_cast<float>(value))) {}
  operator float() const { return npu_lp::widen_bf16(bits); }
};

struct fp8_e4m3fn_t {
  uint8_t bits;
  fp8_e4m3fn_t() = default;
  explicit fp8_e4m3fn_t(float value) : bits(npu_lp::E4M3::encode(value)) {}
  explicit operator float() const { return npu_lp::E4M3::decode(bits); }
};

struct fp8_e5m2_t {
  uint8_t bits;
  fp8_e5m2_t() = default;
  explicit fp8_e5m2_t(float value) : bits(npu_lp::E5M2::encode(value)) {}
  explicit operator float() const { return npu_lp::E5M2::decode(bits); }
};

struct fp8_e8m0_t {
  uint8_t bits;
  explicit operator float() const { return npu_lp::e8m0_value(bits); }
};

struct hifloat8_t {
  uint8_t bits;
  hifloat8_t() = default;
  explicit hifloat8_t(float value) : bits(npu_lp::HiF8::encode(value, true)) {}
  explicit operator float() const { return npu_lp::HiF8::decode(bits); }
};

// Two elements, the even index in the low nibble. Tensors of these count elements, not bytes.
struct fp4x2_e2m1_t {
  uint8_t bits;
};
struct fp4x2_e1m2_t {
  uint8_t bits;
};

// The device compiler's own names of the same types.
using float8_e4m3_t = fp8_e4m3fn_t;
using float8_e5m2_t = fp8_e5m2_t;
using float8_e8m0_t = fp8_e8m0_t;
using float4_e2m1x2_t = fp4x2_e2m1_t;
using float4_e1m2x2_t = fp4x2_e1m2_t;

namespace npu_lp::twin {

template <typename T>
constexpr bool is_fp4 = std::is_same_v<T, fp4x2_e2m1_t> || std::is_same_v<T, fp4x2_e1m2_t>;

template <typename T>
constexpr bool is_fp8 = std::is_same_v<T, fp8_e4m3fn_t> || std::is_same_v<T, fp8_e5m2_t>;

// Bits of one element, as tensors count them.
template <typename T>
constexpr uint32_t element_bits = is_fp4<T> ? 4 : 8 * sizeof(T);

template <typename T>
constexpr uint64_t bytes_of(uint64_t elements) {
  return elements * element_bits<T> / 8;
}
template <typename T>
constexpr uint64_t elements_of(uint64_t bytes) {
  return bytes * 8 / element_bits<T>;
}

// Elements of a 32-byte block: C0 of a fractal.
template <typename T>
constexpr uint32_t block_elements = 32 * 8 / element_bits<T>;

template <typename T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, float>)
    return "float";
  else if constexpr (std::is_same_v<T, half>)
    return "half";
  else if constexpr (std::is_same_v<T, bfloat16_t>)
    return "bfloat16_t";
  else if constexpr (std::is_same_v<T, fp8_e4m3fn_t>)
    return "fp8_e4m3fn_t";
  else if constexpr (std::is_same_v<T, fp8_e5m2_t>)
    return "fp8_e5m2_t";
  else if constexpr (std::is_same_v<T, fp8_e8m0_t>)
    return "fp8_e8m0_t";
  else if constexpr (std::is_same_v<T, hifloat8_t>)
    return "hifloat8_t";
  else if constexpr (std::is_same_v<T, fp4x2_e2m1_t>)
    return "fp4x2_e2m1_t";
  else if constexpr (std::is_same_v<T, fp4x2_e1m2_t>)
    return "fp4x2_e1m2_t";
  else if constexpr (std::is_unsigned_v<T>)
    return sizeof(T) == 1 ? "uint8_t" : sizeof(T) == 2 ? "uint16_t" : sizeof(T) == 4 ? "uint32_t" : "uint64_t";
  else
    return sizeof(T) == 1 ? "int8_t" : sizeof(T) == 2 ? "int16_t" : sizeof(T) == 4 ? "int32_t" : "int64_t";
}

}  // namespace npu_lp::twin
