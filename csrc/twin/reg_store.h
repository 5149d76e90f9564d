// Stores to UB: StoreAlign with every distribution, one or two registers, and StoreUnAlign, which keeps the bytes of
// the last incomplete 32 until the next store or StoreUnAlignPost.
#pragma once

#include <cstdint>
#include <cstring>

#include "twin/reg_lanes.h"
#include "twin/reg_load.h"

namespace npu_lp::twin {

using AscendC::Reg::StoreDist;
using AscendC::Reg::UnalignRegForStore;

template <StoreDist dist, typename T>
constexpr StoreDist resolved() {
  if constexpr (dist != StoreDist::DIST_NORM)
    return dist;
  else
    return sizeof(T) == 1   ? StoreDist::DIST_NORM_B8
           : sizeof(T) == 2 ? StoreDist::DIST_NORM_B16
                            : StoreDist::DIST_NORM_B32;
}

// The lanes [first, last) around all active ones of a mask whose lanes have `width` bytes. An undefined bit is active.
struct ActiveLanes {
  int first;
  int last;
};
ActiveLanes active_lanes(const MaskReg& mask, int width);

// Writes lane i of W as its low N at element i, where the mask's bit of the lane is set.
template <typename W, typename N>
void store_lanes(const void* target, const RegData& src, const MaskReg& mask, Loc loc) {
  constexpr int kCount = kRegBytes / static_cast<int>(sizeof(W));
  VectorRun& run = vector_run();
  run.count_store(1);
  if (!run.compute()) {
    run.store(target, 0, 0, 32, loc);
    return;
  }
  const ActiveLanes active = active_lanes(mask, sizeof(W));
  const uint64_t begin = run.store(target, static_cast<uint32_t>(active.first * sizeof(N)),
                                   static_cast<uint32_t>(active.last * sizeof(N)), 32, loc);
  auto* memory = lanes<N>(run.memory() + begin);
  auto* known = lanes<N>(run.defined() + begin);
  const auto* values = lanes<W>(src.bytes);
  const auto* select = lanes<W>(mask.bits);
  if (active.first == 0 && active.last == kCount && src.all && mask.all) {
    alignas(64) N out[kCount];
    alignas(64) N out_known[kCount];
    for (int i = 0; i < kCount; ++i) {
      const N chosen = lane_mask<N>(static_cast<N>(select[i]));
      out[i] = static_cast<N>((static_cast<N>(values[i]) & chosen) | (memory[i] & static_cast<N>(~chosen)));
      out_known[i] =
          static_cast<N>((static_cast<N>(0x0101010101010101ull) & chosen) | (known[i] & static_cast<N>(~chosen)));
    }
    std::memcpy(run.memory() + begin, out, sizeof out);
    std::memcpy(run.defined() + begin, out_known, sizeof out_known);
    return;
  }
  const auto* source_known = lanes<W>(defined_of(src));
  const auto* select_known = lanes<W>(defined_of(mask));
  for (int i = active.first; i < active.last; ++i) {
    if (!(select_known[i] & 1)) {
      known[i] = 0;  // perhaps written, perhaps not
    } else if (select[i] & 1) {
      memory[i] = static_cast<N>(values[i]);
      known[i] = static_cast<N>(source_known[i]);
    }
  }
}

void store_first(const void* target, const RegData& src, uint32_t bytes, Loc loc);
// 512 bytes: the elements of two registers in turn; no mask.
template <typename W>
void store_interleaved(const void* target, const RegData& src0, const RegData& src1, Loc loc) {
  VectorRun& run = vector_run();
  run.count_store(2);
  const uint64_t begin = run.store(target, 0, 2 * kRegBytes, 32, loc);
  if (!run.compute()) return;
  join_pairs<W>(run.memory() + begin, src0.bytes, src1.bytes);
  if (src0.all && src1.all)
    std::memset(run.defined() + begin, 1, 2 * kRegBytes);
  else
    join_pairs<W>(run.defined() + begin, defined_of(src0), defined_of(src1));
}

template <StoreDist dist, typename T>
void store_one(const void* target, const RegData& src, const MaskReg& mask, Loc loc) {
  constexpr StoreDist kDist = resolved<dist, T>();
  if constexpr (kDist == StoreDist::DIST_NORM_B8)
    store_lanes<uint8_t, uint8_t>(target, src, mask, loc);
  else if constexpr (kDist == StoreDist::DIST_NORM_B16)
    store_lanes<uint16_t, uint16_t>(target, src, mask, loc);
  else if constexpr (kDist == StoreDist::DIST_NORM_B32 && sizeof(T) == 8)
    store_lanes<uint64_t, uint64_t>(target, src, mask, loc);
  else if constexpr (kDist == StoreDist::DIST_NORM_B32)
    store_lanes<uint32_t, uint32_t>(target, src, mask, loc);
  else if constexpr (kDist == StoreDist::DIST_PACK_B16)
    store_lanes<uint16_t, uint8_t>(target, src, mask, loc);
  else if constexpr (kDist == StoreDist::DIST_PACK_B32)
    store_lanes<uint32_t, uint16_t>(target, src, mask, loc);
  else if constexpr (kDist == StoreDist::DIST_PACK_B64)
    store_lanes<uint64_t, uint32_t>(target, src, mask, loc);
  else if constexpr (kDist == StoreDist::DIST_PACK4_B32)
    store_lanes<uint32_t, uint8_t>(target, src, mask, loc);
  else if constexpr (kDist == StoreDist::DIST_FIRST_ELEMENT_B8)
    store_first(target, src, 1, loc);
  else if constexpr (kDist == StoreDist::DIST_FIRST_ELEMENT_B16)
    store_first(target, src, 2, loc);
  else if constexpr (kDist == StoreDist::DIST_FIRST_ELEMENT_B32)
    store_first(target, src, 4, loc);
  else
    static_assert(kDist == StoreDist::DIST_NORM, "StoreAlign of one register: NORM, PACK, PACK4 or FIRST_ELEMENT");
}

template <StoreDist dist>
void store_two(const void* target, const RegData& src0, const RegData& src1, Loc loc) {
  if constexpr (dist == StoreDist::DIST_INTLV_B8)
    store_interleaved<uint8_t>(target, src0, src1, loc);
  else if constexpr (dist == StoreDist::DIST_INTLV_B16)
    store_interleaved<uint16_t>(target, src0, src1, loc);
  else if constexpr (dist == StoreDist::DIST_INTLV_B32)
    store_interleaved<uint32_t>(target, src0, src1, loc);
  else
    static_assert(dist == StoreDist::DIST_INTLV_B8, "StoreAlign of two registers: INTLV_B8, INTLV_B16 or INTLV_B32");
}

void store_unaligned(const void* target, const RegData& src, UnalignRegForStore& kept, uint64_t bytes, Loc loc);
void store_kept(const void* target, UnalignRegForStore& kept, Loc loc);

}  // namespace npu_lp::twin

namespace AscendC::Reg {

template <typename T = DefaultType, StoreDist dist = StoreDist::DIST_NORM, Register U>
void StoreAlign(T* dstAddr, U& srcReg, MaskReg& mask, Loc loc = Loc::here()) {
  static_assert(kNames<T, typename U::ActualT>, "the pointer's type must be the register's");
  npu_lp::twin::store_one<dist, T>(dstAddr, srcReg, mask, loc);
}
template <typename T = DefaultType, PostLiteral postMode, StoreDist dist = StoreDist::DIST_NORM, Register U>
void StoreAlign(T*& dstAddr, U& srcReg, int32_t postUpdateStride, MaskReg& mask, Loc loc = Loc::here()) {
  static_assert(kNames<T, typename U::ActualT>, "the pointer's type must be the register's");
  static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "StoreAlign with a stride has POST_MODE_UPDATE only");
  npu_lp::twin::store_one<dist, T>(dstAddr, srcReg, mask, loc);
  dstAddr += postUpdateStride;
}
template <typename T = DefaultType, StoreDist dist = StoreDist::DIST_NORM, Register U>
void StoreAlign(T* dstAddr, U& srcReg, AddrReg offset, MaskReg& mask, Loc loc = Loc::here()) {
  StoreAlign<T, dist>(dstAddr + offset.offset, srcReg, mask, loc);
}
template <typename T = DefaultType, StoreDist dist, Register U>
void StoreAlign(T* dstAddr, U& srcReg0, U& srcReg1, MaskReg&, Loc loc = Loc::here()) {
  static_assert(kNames<T, typename U::ActualT>, "the pointer's type must be the registers'");
  npu_lp::twin::store_two<dist>(dstAddr, srcReg0, srcReg1, loc);
}
template <typename T = DefaultType, StoreDist dist, Register U>
void StoreAlign(T* dstAddr, U& srcReg0, U& srcReg1, AddrReg offset, MaskReg& mask, Loc loc = Loc::here()) {
  StoreAlign<T, dist>(dstAddr + offset.offset, srcReg0, srcReg1, mask, loc);
}

// Stores the first postUpdateStride elements of srcReg behind what ureg keeps.
template <typename T = DefaultType, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE, Register U>
void StoreUnAlign(T*& dstAddr, U& srcReg, UnalignRegForStore& ureg, uint32_t postUpdateStride, Loc loc = Loc::here()) {
  static_assert(kNames<T, typename U::ActualT>, "the pointer's type must be the register's");
  static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "StoreUnAlign has POST_MODE_UPDATE only");
  npu_lp::twin::store_unaligned(dstAddr, srcReg, ureg, uint64_t{postUpdateStride} * sizeof(T), loc);
  dstAddr += postUpdateStride;
}
template <typename T, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE>
void StoreUnAlignPost(T*& dstAddr, UnalignRegForStore& ureg, int32_t postUpdateStride, Loc loc = Loc::here()) {
  npu_lp::twin::store_kept(dstAddr, ureg, loc);
  if constexpr (postMode == PostLiteral::POST_MODE_UPDATE) dstAddr += postUpdateStride;
}
template <typename T = DefaultType, Register U>
void Store(T* dstAddr, U& srcReg, uint32_t count, Loc loc = Loc::here()) {
  UnalignRegForStore ureg;
  StoreUnAlign<T>(dstAddr, srcReg, ureg, count, loc);
  StoreUnAlignPost<T>(dstAddr, ureg, 0, loc);
}
template <typename T = DefaultType, Register U>
void Store(T* dstAddr, U& srcReg, Loc loc = Loc::here()) {
  Store<T>(dstAddr, srcReg, uint32_t{npu_lp::twin::kLanes<T>}, loc);
}

}  // namespace AscendC::Reg
