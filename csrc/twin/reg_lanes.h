// Lane by lane: element types as values, masks as lanes of ones, and the defined maps. The loops write to local arrays,
// which alias nothing, so that the compiler vectorizes them.
#pragma once

#include <cstdint>
#include <cstring>

#include "twin/reg_round.h"
#include "twin/reg_run.h"
#include "twin/reg_types.h"

namespace npu_lp::twin {

using AscendC::Reg::MaskMergeMode;
using AscendC::Reg::MaskReg;

// A lane's bits as the value that is computed with, and back: float for all floats (bf16 and half round once, to
// nearest even), the type itself for integers.
template <typename T>
struct Lane {
  using Value = T;
  NPU_LP_LANE static Value get(Raw<T> bits) { return static_cast<T>(bits); }
  NPU_LP_LANE static Raw<T> put(Value value) { return static_cast<Raw<T>>(value); }
};
template <>
struct Lane<float> {
  using Value = float;
  NPU_LP_LANE static float get(uint32_t bits) { return float_of(bits); }
  NPU_LP_LANE static uint32_t put(float value) { return bits_of(value); }
};
template <>
struct Lane<half> {
  using Value = float;
  NPU_LP_LANE static float get(uint32_t bits) { return widen_half(bits); }
  NPU_LP_LANE static uint32_t put(float value) { return narrow_half(value); }
};
template <>
struct Lane<bfloat16_t> {
  using Value = float;
  NPU_LP_LANE static float get(uint32_t bits) { return widen_bfloat(bits); }
  NPU_LP_LANE static uint32_t put(float value) { return narrow_bfloat(value); }
};
template <typename T>
using ValueOf = typename Lane<T>::Value;

// A scalar operand as the register's element type holds it.
template <typename T, typename S>
T scalar_as(S scalar) {
  if constexpr (std::is_same_v<T, S>)
    return scalar;
  else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<S>)
    return static_cast<T>(static_cast<int64_t>(scalar));
  else if constexpr (std::is_arithmetic_v<S>)
    return static_cast<T>(scalar);
  else
    return static_cast<T>(static_cast<float>(scalar));
}
template <typename T>
Raw<T> raw_of(T value) {
  Raw<T> raw;
  std::memcpy(&raw, &value, sizeof raw);
  return raw;
}

// All ones where the mask's bit for the lane is set.
template <typename W>
NPU_LP_LANE W lane_mask(W bits) {
  return static_cast<W>(-static_cast<W>(bits & 1));
}

// --- The defined maps ---------------------------------------------------------------------------------------------

extern const uint8_t kAllDefined[kRegBytes];

inline const uint8_t* defined_of(const RegDefined& reg) {
  return reg.all ? kAllDefined : reg.defined;
}
// Takes over a map of 256 bytes, of 1 and 0.
void set_defined(RegDefined& reg, const uint8_t* map);
// Lanes of `width` bytes: where the mask is set, defined if all of the operands' lane is; else zero or what dst was.
void taint_lanes(RegData& dst, int width, bool merging, const MaskReg& mask, const RegDefined* a, const RegDefined* b,
                 const RegDefined* c);

template <typename T, MaskMergeMode MODE>
void taint(RegData& dst, const MaskReg& mask, const RegDefined& a, const RegDefined& b, const RegDefined& c) {
  constexpr bool kMerging = MODE == MaskMergeMode::MERGING;
  if (a.all && b.all && c.all && mask.all && (!kMerging || dst.all))
    dst.all = true;
  else
    taint_lanes(dst, sizeof(T), kMerging, mask, &a, &b, &c);
}

// --- Element-wise -------------------------------------------------------------------------------------------------

// Lanes whose mask bit is clear become zero, or stay what they were in MERGING mode.
template <typename T, MaskMergeMode MODE>
void write_lanes(RegData& dst, const uint8_t* bytes, const MaskReg& mask) {
  using W = Raw<T>;
  alignas(64) W out[kLanes<T>];
  const auto* values = lanes<W>(bytes);
  const auto* select = lanes<W>(mask.bits);
  const auto* old = lanes<W>(dst.bytes);
  for (int i = 0; i < kLanes<T>; ++i) {
    const W chosen = lane_mask<W>(select[i]);
    if constexpr (MODE == MaskMergeMode::MERGING)
      out[i] = static_cast<W>((values[i] & chosen) | (old[i] & static_cast<W>(~chosen)));
    else
      out[i] = static_cast<W>(values[i] & chosen);
  }
  std::memcpy(dst.bytes, out, kRegBytes);
}

// Floats of 16 bits are taken two at a time, so that all of the loop has lanes of 32 bits.
template <typename T>
constexpr bool kPaired = sizeof(T) == 2 && kIsFloat<T>;

template <typename T, MaskMergeMode MODE, typename F>
void map1(RegData& dst, const RegData& a, const MaskReg& mask, F f) {
  using W = Raw<T>;
  using L = Lane<T>;
  alignas(64) uint8_t out[kRegBytes];
  if constexpr (kPaired<T>) {
    auto* values = lanes<uint32_t>(out);
    const auto* x = lanes<uint32_t>(a.bytes);
    for (int i = 0; i < 64; ++i) values[i] = L::put(f(L::get(x[i] & 0xFFFFu))) | L::put(f(L::get(x[i] >> 16))) << 16;
  } else {
    auto* values = lanes<W>(out);
    const auto* x = lanes<W>(a.bytes);
    for (int i = 0; i < kLanes<T>; ++i) values[i] = L::put(f(L::get(x[i])));
  }
  taint<T, MODE>(dst, mask, a, a, a);
  write_lanes<T, MODE>(dst, out, mask);
}

template <typename T, MaskMergeMode MODE, typename F>
void map2(RegData& dst, const RegData& a, const RegData& b, const MaskReg& mask, F f) {
  using W = Raw<T>;
  using L = Lane<T>;
  alignas(64) uint8_t out[kRegBytes];
  if constexpr (kPaired<T>) {
    auto* values = lanes<uint32_t>(out);
    const auto* x = lanes<uint32_t>(a.bytes);
    const auto* y = lanes<uint32_t>(b.bytes);
    for (int i = 0; i < 64; ++i) {
      values[i] = L::put(f(L::get(x[i] & 0xFFFFu), L::get(y[i] & 0xFFFFu))) |
                  L::put(f(L::get(x[i] >> 16), L::get(y[i] >> 16))) << 16;
    }
  } else {
    auto* values = lanes<W>(out);
    const auto* x = lanes<W>(a.bytes);
    const auto* y = lanes<W>(b.bytes);
    for (int i = 0; i < kLanes<T>; ++i) values[i] = L::put(f(L::get(x[i]), L::get(y[i])));
  }
  taint<T, MODE>(dst, mask, a, b, b);
  write_lanes<T, MODE>(dst, out, mask);
}

// On the bits, whatever the element type.
template <typename T, MaskMergeMode MODE, typename F>
void map_bits2(RegData& dst, const RegData& a, const RegData& b, const MaskReg& mask, F f) {
  using W = Raw<T>;
  alignas(64) uint8_t out[kRegBytes];
  auto* values = lanes<W>(out);
  const auto* x = lanes<W>(a.bytes);
  const auto* y = lanes<W>(b.bytes);
  for (int i = 0; i < kLanes<T>; ++i) values[i] = static_cast<W>(f(x[i], y[i]));
  taint<T, MODE>(dst, mask, a, b, b);
  write_lanes<T, MODE>(dst, out, mask);
}

// One value in all lanes.
template <typename T>
void fill_lanes(uint8_t* bytes, Raw<T> value) {
  auto* out = lanes<Raw<T>>(bytes);
  for (int i = 0; i < kLanes<T>; ++i) out[i] = value;
}

// --- Two registers ------------------------------------------------------------------------------------------------

// The next wider lane.
template <typename W>
using Double = std::conditional_t<sizeof(W) == 1, uint16_t, std::conditional_t<sizeof(W) == 2, uint32_t, uint64_t>>;

// 512 bytes, element by element into two registers in turn, and back.
template <typename W>
void split_pairs(uint8_t* even, uint8_t* odd, const uint8_t* in) {
  static_assert(sizeof(W) <= 4);
  constexpr int kCount = kRegBytes / static_cast<int>(sizeof(W));
  alignas(64) W first[kCount];
  alignas(64) W second[kCount];
  const auto* pairs = lanes<Double<W>>(in);
  for (int i = 0; i < kCount; ++i) first[i] = static_cast<W>(pairs[i]);
  for (int i = 0; i < kCount; ++i) second[i] = static_cast<W>(pairs[i] >> (8 * sizeof(W)));
  std::memcpy(even, first, kRegBytes);
  std::memcpy(odd, second, kRegBytes);
}
template <typename W>
void join_pairs(uint8_t* out, const uint8_t* even, const uint8_t* odd) {
  static_assert(sizeof(W) <= 4);
  constexpr int kCount = kRegBytes / static_cast<int>(sizeof(W));
  alignas(64) Double<W> pairs[kCount];
  const auto* first = lanes<W>(even);
  const auto* second = lanes<W>(odd);
  for (int i = 0; i < kCount; ++i) {
    pairs[i] =
        static_cast<Double<W>>(first[i] | static_cast<Double<W>>(static_cast<Double<W>>(second[i]) << (8 * sizeof(W))));
  }
  std::memcpy(out, pairs, 2 * kRegBytes);
}

}  // namespace npu_lp::twin
