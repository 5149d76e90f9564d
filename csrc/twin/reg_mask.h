// MaskReg: made from patterns and counts, combined, reordered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "twin/reg_lanes.h"

namespace npu_lp::twin {

// Sets the lowest bit of the lanes [0, count) of T.
template <typename T>
void set_first_lanes(MaskReg& mask, uint32_t count) {
  auto* bits = lanes<Raw<T>>(mask.bits);
  for (uint32_t i = 0; i < static_cast<uint32_t>(kLanes<T>); ++i) bits[i] = i < count ? 1 : 0;
  mask.all = true;
}

template <typename F>
void map_mask(MaskReg& dst, const MaskReg& a, const MaskReg& b, const MaskReg& mask, F f) {
  alignas(64) uint8_t out[kRegBytes];
  for (int i = 0; i < kRegBytes; ++i) out[i] = static_cast<uint8_t>(f(a.bits[i], b.bits[i]) & mask.bits[i]);
  if (a.all && b.all && mask.all) {
    dst.all = true;
  } else {
    alignas(64) uint8_t known[kRegBytes];
    const uint8_t* x = defined_of(a);
    const uint8_t* y = defined_of(b);
    const uint8_t* m = defined_of(mask);
    // A bit that the mask clears is a defined zero.
    for (int i = 0; i < kRegBytes; ++i) known[i] = static_cast<uint8_t>(m[i] & ((x[i] & y[i]) | (mask.bits[i] ^ 1)));
    set_defined(dst, known);
  }
  std::memcpy(dst.bits, out, kRegBytes);
}

// dst[i] = src[from(i)], or a defined zero where from(i) < 0; bits of two source masks are numbered 0 to 511.
template <typename F>
void permute_mask(MaskReg& dst, const MaskReg& src0, const MaskReg& src1, F from) {
  alignas(64) uint8_t out[kRegBytes];
  alignas(64) uint8_t known[kRegBytes];
  for (int i = 0; i < kRegBytes; ++i) {
    const int j = from(i);
    const MaskReg& src = j < kRegBytes ? src0 : src1;
    out[i] = j < 0 ? uint8_t{0} : src.bits[j % kRegBytes];
    known[i] = j < 0 ? uint8_t{1} : defined_of(src)[j % kRegBytes];
  }
  set_defined(dst, known);
  std::memcpy(dst.bits, out, kRegBytes);
}

}  // namespace npu_lp::twin

namespace AscendC::Reg {

template <typename T, MaskPattern mode = MaskPattern::ALL, const RegTrait& regTrait = RegTraitNumOne>
MaskReg CreateMask() {
  using namespace npu_lp::twin;
  constexpr int kCount = kLanes<T>;
  MaskReg mask;
  vector_run().count();
  if constexpr (mode == MaskPattern::M3 || mode == MaskPattern::M4) {
    auto* bits = lanes<Raw<T>>(mask.bits);
    for (int i = 0; i < kCount; ++i) bits[i] = i % (mode == MaskPattern::M3 ? 3 : 4) == 0;
    mask.all = true;
  } else {
    constexpr uint32_t kActive = mode == MaskPattern::ALL     ? kCount
                                 : mode == MaskPattern::VL1   ? 1
                                 : mode == MaskPattern::VL2   ? 2
                                 : mode == MaskPattern::VL3   ? 3
                                 : mode == MaskPattern::VL4   ? 4
                                 : mode == MaskPattern::VL8   ? 8
                                 : mode == MaskPattern::VL16  ? 16
                                 : mode == MaskPattern::VL32  ? 32
                                 : mode == MaskPattern::VL64  ? 64
                                 : mode == MaskPattern::VL128 ? 128
                                 : mode == MaskPattern::H     ? kCount / 2
                                 : mode == MaskPattern::Q     ? kCount / 4
                                                              : 0;
    set_first_lanes<T>(mask, kActive);
  }
  return mask;
}

// The first scalarValue lanes, at most a register's, which are then taken off it.
template <typename T, const RegTrait& regTrait = RegTraitNumOne>
MaskReg UpdateMask(uint32_t& scalarValue) {
  using namespace npu_lp::twin;
  MaskReg mask;
  vector_run().count();
  set_first_lanes<T>(mask, scalarValue);
  scalarValue -= std::min<uint32_t>(scalarValue, kLanes<T>);
  return mask;
}

inline void Not(MaskReg& dst, MaskReg& src, MaskReg& mask) {
  npu_lp::twin::vector_run().count();
  npu_lp::twin::map_mask(dst, src, src, mask, [](uint8_t a, uint8_t) { return a ^ 1; });
}
inline void And(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask) {
  npu_lp::twin::vector_run().count();
  npu_lp::twin::map_mask(dst, src0, src1, mask, [](uint8_t a, uint8_t b) { return a & b; });
}
inline void Or(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask) {
  npu_lp::twin::vector_run().count();
  npu_lp::twin::map_mask(dst, src0, src1, mask, [](uint8_t a, uint8_t b) { return a | b; });
}
inline void Xor(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask) {
  npu_lp::twin::vector_run().count();
  npu_lp::twin::map_mask(dst, src0, src1, mask, [](uint8_t a, uint8_t b) { return a ^ b; });
}
inline void Move(MaskReg& dst, MaskReg& src, MaskReg& mask) {
  npu_lp::twin::vector_run().count();
  npu_lp::twin::map_mask(dst, src, src, mask, [](uint8_t a, uint8_t) { return a; });
}
inline void Move(MaskReg& dst, MaskReg& src) {
  npu_lp::twin::vector_run().count();
  dst = src;
}
inline void Select(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask) {
  using namespace npu_lp::twin;
  vector_run().count();
  alignas(64) uint8_t out[kRegBytes];
  alignas(64) uint8_t known[kRegBytes];
  for (int i = 0; i < kRegBytes; ++i) {
    const MaskReg& src = mask.bits[i] ? src0 : src1;
    out[i] = src.bits[i];
    known[i] = defined_of(src)[i] & defined_of(mask)[i];
  }
  set_defined(dst, known);
  std::memcpy(dst.bits, out, kRegBytes);
}

template <typename T>
void Interleave(MaskReg& dst0, MaskReg& dst1, MaskReg& src0, MaskReg& src1) {
  using namespace npu_lp::twin;
  constexpr int kBits = sizeof(T);  // of one element
  vector_run().count(1, true);
  const MaskReg a = src0;
  const MaskReg b = src1;
  // Element e of the interleaved 512 bits is element e / 2 of a or b.
  const auto from = [](int bit) {
    const int element = bit / kBits;
    return (element % 2) * kRegBytes + element / 2 * kBits + bit % kBits;
  };
  permute_mask(dst0, a, b, from);
  permute_mask(dst1, a, b, [&](int bit) { return from(bit + kRegBytes); });
}

template <typename T>
void DeInterleave(MaskReg& dst0, MaskReg& dst1, MaskReg& src0, MaskReg& src1) {
  using namespace npu_lp::twin;
  constexpr int kBits = sizeof(T);
  vector_run().count(1, true);
  const MaskReg a = src0;
  const MaskReg b = src1;
  permute_mask(dst0, a, b, [](int bit) { return bit / kBits * 2 * kBits + bit % kBits; });
  permute_mask(dst1, a, b, [](int bit) { return (bit / kBits * 2 + 1) * kBits + bit % kBits; });
}

// Every second bit, into one half of dst; the other half is zero.
template <HighLowPart part = HighLowPart::LOWEST>
void Pack(MaskReg& dst, MaskReg& src) {
  using namespace npu_lp::twin;
  constexpr int kFirst = part == HighLowPart::LOWEST ? 0 : kRegBytes / 2;
  vector_run().count(1, true);
  const MaskReg a = src;
  permute_mask(dst, a, a, [](int bit) {
    const int i = bit - kFirst;
    return i < 0 || i >= kRegBytes / 2 ? -1 : 2 * i;
  });
}

// The bits of one half of src, each followed by a zero.
template <HighLowPart part = HighLowPart::LOWEST>
void UnPack(MaskReg& dst, MaskReg& src) {
  using namespace npu_lp::twin;
  constexpr int kFirst = part == HighLowPart::LOWEST ? 0 : kRegBytes / 2;
  vector_run().count(1, true);
  const MaskReg a = src;
  permute_mask(dst, a, a, [](int bit) { return bit % 2 ? -1 : kFirst + bit / 2; });
}

}  // namespace AscendC::Reg
