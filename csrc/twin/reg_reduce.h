// Reductions of a register, or of each of its 32-byte blocks. Lanes that the mask leaves out do not take part; if none
// does, MAX gives the type's lowest value, MIN its largest, SUM 0. A NaN wins MAX and MIN. Sums add neighbours, then
// neighbours of the sums, and so on.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "twin/reg_arith.h"

namespace npu_lp::twin {

using AscendC::ReduceType;

template <typename A>
ValueOf<A> extreme(bool lowest) {
  if constexpr (kIsInt<A>)
    return lowest ? std::numeric_limits<A>::lowest() : std::numeric_limits<A>::max();
  else if constexpr (std::is_same_v<A, half>)
    return lowest ? -65504.0f : 65504.0f;
  else
    return lowest ? std::numeric_limits<float>::lowest() : std::numeric_limits<float>::max();
}

template <typename V>
struct Reduced {
  V value;
  int index;  // of the first lane that has it; MAX and MIN
};

template <ReduceType type, typename A>
Reduced<ValueOf<A>> reduce_extreme(const uint8_t* bytes, const uint8_t* bits, int count) {
  using V = ValueOf<A>;
  Reduced<V> best{extreme<A>(type == ReduceType::MAX), 0};
  bool any = false;
  for (int i = 0; i < count; ++i) {
    if (!(lanes<Raw<A>>(bits)[i] & 1)) continue;
    const V value = Lane<A>::get(lanes<Raw<A>>(bytes)[i]);
    V next;
    if constexpr (type == ReduceType::MAX)
      next = any ? MaxOp{}(best.value, value) : value;
    else
      next = any ? MinOp{}(best.value, value) : value;
    const bool first_nan = next != next && best.value == best.value;
    if (!any || next != best.value) {
      if (next == next || first_nan || !any) best.index = i;
    }
    best.value = next;
    any = true;
  }
  return best;
}

// A tree of additions; D is the type of the sum, as wide as A or twice that.
template <typename D, typename A>
ValueOf<D> reduce_sum(const uint8_t* bytes, const uint8_t* bits, int count) {
  using V = ValueOf<D>;
  V sums[kRegBytes];
  for (int i = 0; i < count; ++i) {
    const bool active = lanes<Raw<A>>(bits)[i] & 1;
    sums[i] = active ? static_cast<V>(Lane<A>::get(lanes<Raw<A>>(bytes)[i])) : V{};
  }
  for (; count > 1; count /= 2) {
    for (int i = 0; i < count / 2; ++i) {
      // Each partial sum is a value of D.
      sums[i] = Lane<D>::get(Lane<D>::put(AddOp{}(sums[2 * i], sums[2 * i + 1])));
    }
  }
  return sums[0];
}

// Whether a result from `count` lanes of `width` bytes is defined.
bool defined_lanes(const RegData& src, const MaskReg& mask, int first_byte, int width, int count);

template <ReduceType type, typename D, typename A>
constexpr bool kReducible = type == ReduceType::SUM
                                ? (kOneOf<A, half, float, int32_t, uint32_t>&& std::is_same_v<D, A>) ||
                                      (std::is_same_v<A, int16_t> && std::is_same_v<D, int32_t>) ||
                                      (std::is_same_v<A, uint16_t> && std::is_same_v<D, uint32_t>)
                                : std::is_same_v<D, A>&& kOneOf<A, half, float, int16_t, uint16_t, int32_t, uint32_t>;

// Writes the results to the lowest lanes of dst, zero above.
template <typename D>
void write_results(RegData& dst, const Raw<D>* results, const bool* known, int count) {
  alignas(64) Raw<D> out[kLanes<D>] = {};
  alignas(64) uint8_t map[kRegBytes];
  std::memset(map, 1, sizeof map);
  for (int i = 0; i < count; ++i) {
    out[i] = results[i];
    std::memset(map + i * sizeof(D), known[i] ? 1 : 0, sizeof(D));
  }
  set_defined(dst, map);
  std::memcpy(dst.bytes, out, kRegBytes);
}

}  // namespace npu_lp::twin

namespace AscendC::Reg {

// MAX and MIN also write the index of the first such lane, as bits, to lane 1.
template <ReduceType type = ReduceType::SUM, typename T = DefaultType, typename U = DefaultType,
          MaskMergeMode mode = MaskMergeMode::ZEROING, Register S, Register V>
void Reduce(S& dstReg, const V& srcReg, const MaskReg& mask) {
  using namespace npu_lp::twin;
  using D = Actual<T, S>;
  using A = Actual<U, V>;
  static_assert(mode == MaskMergeMode::ZEROING, "Reduce has ZEROING only");
  static_assert(kReducible<type, D, A>, "Reduce does not have these element types");
  VectorRun& run = vector_run();
  run.count(1, true);
  if (!run.compute()) return;
  const bool good = defined_lanes(srcReg, mask, 0, sizeof(A), kLanes<A>);
  const bool known[2] = {good, good};
  if constexpr (type == ReduceType::SUM) {
    const Raw<D> sum = Lane<D>::put(reduce_sum<D, A>(srcReg.bytes, mask.bits, kLanes<A>));
    write_results<D>(dstReg, &sum, known, 1);
  } else {
    const auto best = reduce_extreme<type, A>(srcReg.bytes, mask.bits, kLanes<A>);
    const Raw<D> results[2] = {Lane<A>::put(best.value), static_cast<Raw<D>>(best.index)};
    write_results<D>(dstReg, results, known, 2);
  }
}

// One result for each 32 bytes of src.
template <ReduceType type = ReduceType::SUM, typename T = DefaultType, typename U = DefaultType,
          MaskMergeMode mode = MaskMergeMode::ZEROING, Register S, Register V>
void ReduceDataBlock(S& dstReg, const V& srcReg, const MaskReg& mask) {
  using namespace npu_lp::twin;
  using D = Actual<T, S>;
  using A = Actual<U, V>;
  static_assert(mode == MaskMergeMode::ZEROING, "ReduceDataBlock has ZEROING only");
  static_assert(kReducible<type, D, A>, "ReduceDataBlock does not have these element types");
  constexpr int kCount = 32 / static_cast<int>(sizeof(A));
  VectorRun& run = vector_run();
  run.count(1, true);
  if (!run.compute()) return;
  Raw<D> results[8];
  bool known[8];
  for (int block = 0; block < 8; ++block) {
    const uint8_t* bytes = srcReg.bytes + 32 * block;
    const uint8_t* bits = mask.bits + 32 * block;
    known[block] = defined_lanes(srcReg, mask, 32 * block, sizeof(A), kCount);
    if constexpr (type == ReduceType::SUM)
      results[block] = Lane<D>::put(reduce_sum<D, A>(bytes, bits, kCount));
    else
      results[block] = Lane<A>::put(reduce_extreme<type, A>(bytes, bits, kCount).value);
  }
  write_results<D>(dstReg, results, known, 8);
}

}  // namespace AscendC::Reg
