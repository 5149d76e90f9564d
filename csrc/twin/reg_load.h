// Loads from UB: LoadAlign with every distribution, one or two registers, and LoadUnAlign. Overloads with a stride use
// the old address and then add the stride, in elements.
#pragma once

#include <cstdint>
#include <cstring>

#include "twin/reg_lanes.h"
#include "twin/text.h"

namespace npu_lp::twin {

using AscendC::Reg::LoadDist;

struct LoadShape {
  uint32_t bytes;      // read from UB
  uint32_t alignment;  // of the address
  int element;         // bytes of what the distribution moves
};

constexpr LoadShape load_shape(LoadDist dist) {
  switch (dist) {
    case LoadDist::DIST_BRC_B8:
      return {1, 1, 1};
    case LoadDist::DIST_BRC_B16:
      return {2, 2, 2};
    case LoadDist::DIST_BRC_B32:
      return {4, 4, 4};
    case LoadDist::DIST_US_B8:
    case LoadDist::DIST_UNPACK_B8:
      return {128, 32, 1};
    case LoadDist::DIST_US_B16:
    case LoadDist::DIST_UNPACK_B16:
      return {128, 32, 2};
    case LoadDist::DIST_UNPACK_B32:
      return {128, 32, 4};
    case LoadDist::DIST_UNPACK4_B8:
      return {64, 32, 1};
    case LoadDist::DIST_DS_B8:
    case LoadDist::DIST_DINTLV_B8:
      return {512, 32, 1};
    case LoadDist::DIST_DS_B16:
    case LoadDist::DIST_DINTLV_B16:
      return {512, 32, 2};
    case LoadDist::DIST_DINTLV_B32:
      return {512, 32, 4};
    case LoadDist::DIST_BLK:
      return {32, 32, 32};
    case LoadDist::DIST_E2B_B16:
      return {16, 16, 2};
    case LoadDist::DIST_E2B_B32:
      return {32, 32, 4};
    default:
      return {256, 32, 1};
  }
}
constexpr bool is_dual(LoadDist dist) {
  return dist == LoadDist::DIST_DINTLV_B8 || dist == LoadDist::DIST_DINTLV_B16 || dist == LoadDist::DIST_DINTLV_B32;
}

// Spreads what was read over a register. Also used on the defined map, where padding is 1.
template <LoadDist dist>
void spread(uint8_t* out, const uint8_t* in, bool padding) {
  constexpr int kElement = load_shape(dist).element;
  if constexpr (dist == LoadDist::DIST_BLK) {
    for (int i = 0; i < kRegBytes; i += 32) std::memcpy(out + i, in, 32);
  } else if constexpr (dist == LoadDist::DIST_NORM) {
    std::memcpy(out, in, kRegBytes);
  } else {
    using W = typename RawOf<kElement>::type;
    using D = Double<W>;
    constexpr int kCount = kRegBytes / kElement;
    const auto* source = lanes<W>(in);
    alignas(64) W values[kCount];
    if constexpr (dist == LoadDist::DIST_BRC_B8 || dist == LoadDist::DIST_BRC_B16 || dist == LoadDist::DIST_BRC_B32) {
      const W value = source[0];
      for (int i = 0; i < kCount; ++i) values[i] = value;
    } else if constexpr (dist == LoadDist::DIST_E2B_B16 || dist == LoadDist::DIST_E2B_B32) {
      constexpr int kBlock = 32 / kElement;
      for (int block = 0; block < 8; ++block) {
        const W value = source[block];
        for (int i = 0; i < kBlock; ++i) values[kBlock * block + i] = value;
      }
    } else if constexpr (dist == LoadDist::DIST_DS_B8 || dist == LoadDist::DIST_DS_B16) {
      const auto* pairs = lanes<D>(in);
      for (int i = 0; i < kCount; ++i) values[i] = static_cast<W>(pairs[i]);
    } else if constexpr (dist == LoadDist::DIST_UNPACK4_B8) {
      const uint32_t pad = padding ? 0x01010100u : 0u;
      alignas(64) uint32_t wide[64];
      for (int i = 0; i < 64; ++i) wide[i] = source[i] | pad;
      std::memcpy(values, wide, kRegBytes);
    } else {
      // US repeats the element, UNPACK puts padding behind it.
      constexpr bool kRepeat = dist == LoadDist::DIST_US_B8 || dist == LoadDist::DIST_US_B16;
      const D pad = padding ? static_cast<D>(static_cast<D>(0x0101010101010101ull) << (8 * kElement)) : D{0};
      alignas(64) D wide[kCount / 2];
      for (int i = 0; i < kCount / 2; ++i) {
        const D value = source[i];
        wide[i] = static_cast<D>(value | (kRepeat ? static_cast<D>(value << (8 * kElement)) : pad));
      }
      std::memcpy(values, wide, kRegBytes);
    }
    std::memcpy(out, values, kRegBytes);
  }
}

template <LoadDist dist>
void load_one(RegData& dst, const void* source, Loc loc) {
  static_assert(dist != LoadDist::DIST_BDINTLV && !is_dual(dist),
                "LoadAlign into one register: NORM, BRC, US, DS, UNPACK, UNPACK4, BLK or E2B");
  constexpr LoadShape kShape = load_shape(dist);
  VectorRun& run = vector_run();
  run.count_load(kShape.bytes > 256 ? 2 : 1, kShape.bytes > 256);
  const uint64_t begin = run.load(source, kShape.bytes, kShape.alignment, loc);
  if (!run.compute()) return;
  spread<dist>(dst.bytes, run.memory() + begin, false);
  const uint8_t* known = run.defined() + begin;
  dst.all = true;
  for (uint32_t i = 0; i < kShape.bytes; i += 256) {
    dst.all = dst.all && std::memcmp(known + i, kAllDefined, std::min<uint32_t>(kShape.bytes, 256)) == 0;
  }
  if (!dst.all) spread<dist>(dst.defined, known, true);
}

template <LoadDist dist>
void load_two(RegData& dst0, RegData& dst1, const void* source, Loc loc) {
  static_assert(is_dual(dist), "LoadAlign into two registers: DINTLV_B8, DINTLV_B16 or DINTLV_B32");
  constexpr LoadShape kShape = load_shape(dist);
  using W = typename RawOf<kShape.element>::type;
  VectorRun& run = vector_run();
  run.count_load(2, true);
  const uint64_t begin = run.load(source, kShape.bytes, kShape.alignment, loc);
  if (!run.compute()) return;
  const uint8_t* data = run.memory() + begin;
  split_pairs<W>(dst0.bytes, dst1.bytes, data);
  const uint8_t* known = run.defined() + begin;
  dst0.all = dst1.all = std::memcmp(known, kAllDefined, 256) == 0 && std::memcmp(known + 256, kAllDefined, 256) == 0;
  if (!dst0.all) {
    split_pairs<W>(dst0.defined, dst1.defined, known);
  }
}

void load_block(AscendC::Reg::UnalignRegForLoad& kept, const void* source, Loc loc);
void load_unaligned(RegData& dst, AscendC::Reg::UnalignRegForLoad& kept, const void* source, Loc loc);

}  // namespace npu_lp::twin

namespace AscendC::Reg {

template <typename T = DefaultType, LoadDist dist = LoadDist::DIST_NORM, Register U>
void LoadAlign(U& dstReg, T* srcAddr, Loc loc = Loc::here()) {
  static_assert(kNames<T, typename U::ActualT>, "the pointer's type must be the register's");
  npu_lp::twin::load_one<dist>(dstReg, srcAddr, loc);
}
template <typename T = DefaultType, PostLiteral postMode, LoadDist dist = LoadDist::DIST_NORM, Register U>
void LoadAlign(U& dstReg, T*& srcAddr, int32_t postUpdateStride, Loc loc = Loc::here()) {
  static_assert(kNames<T, typename U::ActualT>, "the pointer's type must be the register's");
  static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "LoadAlign with a stride has POST_MODE_UPDATE only");
  npu_lp::twin::load_one<dist>(dstReg, srcAddr, loc);
  srcAddr += postUpdateStride;
}
template <typename T = DefaultType, LoadDist dist = LoadDist::DIST_NORM, Register U>
void LoadAlign(U& dstReg, T* srcAddr, AddrReg offset, Loc loc = Loc::here()) {
  LoadAlign<T, dist>(dstReg, srcAddr + offset.offset, loc);
}

template <typename T = DefaultType, LoadDist dist, Register U>
void LoadAlign(U& dstReg0, U& dstReg1, T* srcAddr, Loc loc = Loc::here()) {
  static_assert(kNames<T, typename U::ActualT>, "the pointer's type must be the registers'");
  npu_lp::twin::load_two<dist>(dstReg0, dstReg1, srcAddr, loc);
}
template <typename T = DefaultType, PostLiteral postMode, LoadDist dist, Register U>
void LoadAlign(U& dstReg0, U& dstReg1, T*& srcAddr, int32_t postUpdateStride, Loc loc = Loc::here()) {
  static_assert(kNames<T, typename U::ActualT>, "the pointer's type must be the registers'");
  static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "LoadAlign with a stride has POST_MODE_UPDATE only");
  npu_lp::twin::load_two<dist>(dstReg0, dstReg1, srcAddr, loc);
  srcAddr += postUpdateStride;
}
template <typename T = DefaultType, LoadDist dist, Register U>
void LoadAlign(U& dstReg0, U& dstReg1, T* srcAddr, AddrReg offset, Loc loc = Loc::here()) {
  LoadAlign<T, dist>(dstReg0, dstReg1, srcAddr + offset.offset, loc);
}

// Keeps the 32-byte block around srcAddr, from which the next LoadUnAlign takes its first bytes.
template <typename T>
void LoadUnAlignPre(UnalignRegForLoad& ureg, T* srcAddr, Loc loc = Loc::here()) {
  npu_lp::twin::load_block(ureg, srcAddr, loc);
}
template <typename T = DefaultType, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE, Register U>
void LoadUnAlign(U& dstReg, UnalignRegForLoad& ureg, T*& srcAddr, uint32_t postUpdateStride, Loc loc = Loc::here()) {
  static_assert(kNames<T, typename U::ActualT>, "the pointer's type must be the register's");
  static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "LoadUnAlign with a stride has POST_MODE_UPDATE only");
  npu_lp::twin::load_unaligned(dstReg, ureg, srcAddr, loc);
  srcAddr += postUpdateStride;
}
template <typename T = DefaultType, Register U>
void LoadUnAlign(U& dstReg, UnalignRegForLoad& ureg, T* srcAddr, Loc loc = Loc::here()) {
  static_assert(kNames<T, typename U::ActualT>, "the pointer's type must be the register's");
  npu_lp::twin::load_unaligned(dstReg, ureg, srcAddr, loc);
}
template <typename T>
void LoadUnAlignPre(UnalignRegForLoad& ureg, T* srcAddr, AddrReg& areg, Loc loc = Loc::here()) {
  npu_lp::twin::load_block(ureg, srcAddr + areg.offset, loc);
}
template <typename T = DefaultType, Register U>
void LoadUnAlign(U& dstReg, UnalignRegForLoad& ureg, T*& srcAddr, AddrReg& areg, uint32_t, Loc loc = Loc::here()) {
  LoadUnAlign<T>(dstReg, ureg, srcAddr + areg.offset, loc);
}
// Both steps in one call.
template <typename T = DefaultType, Register U>
void Load(U& dstReg, T* srcAddr, Loc loc = Loc::here()) {
  UnalignRegForLoad ureg;
  LoadUnAlignPre<T>(ureg, srcAddr, loc);
  LoadUnAlign<T>(dstReg, ureg, srcAddr, loc);
}

template <typename T>
AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0) {
  return {index0 * stride0};
}
template <typename T>
AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0, uint16_t index1, uint32_t stride1) {
  return {index0 * stride0 + index1 * stride1};
}
template <typename T>
AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0, uint16_t index1, uint32_t stride1, uint16_t index2,
                      uint32_t stride2) {
  return {index0 * stride0 + index1 * stride1 + index2 * stride2};
}
template <typename T>
AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0, uint16_t index1, uint32_t stride1, uint16_t index2,
                      uint32_t stride2, uint16_t index3, uint32_t stride3) {
  return {index0 * stride0 + index1 * stride1 + index2 * stride2 + index3 * stride3};
}

template <MemType src, MemType dst>
void LocalMemBar() {
  npu_lp::twin::vector_run().barrier((src == MemType::VEC_STORE || src == MemType::VEC_ALL) &&
                                     (dst == MemType::VEC_LOAD || dst == MemType::VEC_ALL));
}

}  // namespace AscendC::Reg
