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

// The lanes of a register as values of V, inactive ones as `neutral`, and room behind them.
template <typename V>
struct Tree {
  alignas(64) V lane[kRegBytes + kRegBytes / 2];
};
template <typename V, typename A>
void load_tree(Tree<V>& tree, const RegData& src, const MaskReg& mask, V neutral) {
  constexpr int kCount = kLanes<A>;
  const auto* in = lanes<Raw<A>>(src.bytes);
  const auto* select = lanes<Raw<A>>(mask.bits);
  for (int i = 0; i < kCount; ++i) {
    const V value = static_cast<V>(Lane<A>::get(in[i]));
    tree.lane[i] = select[i] & 1 ? value : neutral;
  }
  for (int i = kCount; i < kCount + kCount / 2; ++i) tree.lane[i] = neutral;
}
// Combines lane i with its neighbour 1, 2, 4, ... lanes on: lanes at multiples of `group` hold the results of groups.
template <int COUNT, int GROUP, typename V, typename F>
void reduce_tree(Tree<V>& tree, F f) {
  Tree<V> next;
  for (int step = 1; step < GROUP; step *= 2) {
    for (int i = 0; i < COUNT; ++i) next.lane[i] = f(tree.lane[i], tree.lane[i + step]);
    for (int i = 0; i < COUNT; ++i) tree.lane[i] = next.lane[i];
  }
}

// What takes no part in MAX or MIN.
template <ReduceType type, typename A>
ValueOf<A> neutral() {
  if constexpr (kIsInt<A>)
    return extreme<A>(type == ReduceType::MAX);
  else
    return type == ReduceType::MAX ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
}
template <ReduceType type>
using ExtremeOp = std::conditional_t<type == ReduceType::MAX, MaxOp, MinOp>;

// Whether any of `count` lanes from byte `first` takes part.
template <typename A>
bool any_active(const MaskReg& mask, int first, int count) {
  for (int i = 0; i < count; ++i) {
    if (lanes<Raw<A>>(mask.bits + first)[i] & 1) return true;
  }
  return false;
}
// A result of MAX or MIN of floats; infinite, it may stand for no lane at all.
template <ReduceType type, typename A>
ValueOf<A> settled(ValueOf<A> value, const MaskReg& mask, int first, int count) {
  if constexpr (!kIsInt<A>) {
    if (value == neutral<type, A>() && !any_active<A>(mask, first, count)) return extreme<A>(type == ReduceType::MAX);
  }
  return value;
}
template <typename A>
int first_index(const RegData& src, const MaskReg& mask, ValueOf<A> value) {
  const auto* in = lanes<Raw<A>>(src.bytes);
  const auto* select = lanes<Raw<A>>(mask.bits);
  for (int i = 0; i < kLanes<A>; ++i) {
    const ValueOf<A> lane = Lane<A>::get(in[i]);
    if ((select[i] & 1) && (lane == value || (lane != lane && value != value))) return i;
  }
  return 0;
}

// Each partial sum is a value of D.
template <typename D>
struct SumOp {
  NPU_LP_LANE ValueOf<D> operator()(ValueOf<D> a, ValueOf<D> b) const {
    return Lane<D>::get(Lane<D>::put(AddOp{}(a, b)));
  }
};

// Whether a result from `count` lanes of `width` bytes is defined.
bool defined_lanes(const RegData& src, const MaskReg& mask, int first_byte, int width, int count);

template <ReduceType type, typename D, typename A>
constexpr bool kReducible =
    type == ReduceType::SUM ? (kOneOf<A, half, float, int32_t, uint32_t> && std::is_same_v<D, A>) ||
                                  (std::is_same_v<A, int16_t> && std::is_same_v<D, int32_t>) ||
                                  (std::is_same_v<A, uint16_t> && std::is_same_v<D, uint32_t>)
                            : std::is_same_v<D, A> && kOneOf<A, half, float, int16_t, uint16_t, int32_t, uint32_t>;

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
  Tree<ValueOf<D>> tree;
  if constexpr (type == ReduceType::SUM) {
    load_tree<ValueOf<D>, A>(tree, srcReg, mask, ValueOf<D>{});
    reduce_tree<kLanes<A>, kLanes<A>>(tree, SumOp<D>{});
    const Raw<D> sum = static_cast<Raw<D>>(Lane<D>::put(tree.lane[0]));
    write_results<D>(dstReg, &sum, known, 1);
  } else {
    load_tree<ValueOf<D>, A>(tree, srcReg, mask, neutral<type, A>());
    reduce_tree<kLanes<A>, kLanes<A>>(tree, ExtremeOp<type>{});
    const ValueOf<A> best = settled<type, A>(tree.lane[0], mask, 0, kLanes<A>);
    const Raw<D> results[2] = {static_cast<Raw<D>>(Lane<A>::put(best)),
                               static_cast<Raw<D>>(first_index<A>(srcReg, mask, best))};
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
  Tree<ValueOf<D>> tree;
  if constexpr (type == ReduceType::SUM) {
    load_tree<ValueOf<D>, A>(tree, srcReg, mask, ValueOf<D>{});
    reduce_tree<kLanes<A>, kCount>(tree, SumOp<D>{});
  } else {
    load_tree<ValueOf<D>, A>(tree, srcReg, mask, neutral<type, A>());
    reduce_tree<kLanes<A>, kCount>(tree, ExtremeOp<type>{});
  }
  for (int block = 0; block < 8; ++block) {
    ValueOf<D> value = tree.lane[block * kCount];
    if constexpr (type != ReduceType::SUM) value = settled<type, A>(value, mask, 32 * block, kCount);
    known[block] = defined_lanes(srcReg, mask, 32 * block, sizeof(A), kCount);
    results[block] = static_cast<Raw<D>>(Lane<D>::put(value));
  }
  write_results<D>(dstReg, results, known, 8);
}

}  // namespace AscendC::Reg
