// Comparisons, which make masks, and Select, which uses them.
#pragma once

#include <cstdint>
#include <cstring>

#include "twin/reg_arith.h"

namespace npu_lp::twin {

// The result's map from the operands': a bit that the mask clears is a defined zero.
void taint_compare(MaskReg& dst, int width, const MaskReg& mask, const RegDefined& a, const RegDefined& b);

template <AscendC::CMPMODE mode, typename V>
bool compare(V a, V b) {
  using AscendC::CMPMODE;
  if constexpr (mode == CMPMODE::LT)
    return a < b;
  else if constexpr (mode == CMPMODE::GT)
    return a > b;
  else if constexpr (mode == CMPMODE::EQ)
    return a == b;
  else if constexpr (mode == CMPMODE::LE)
    return a <= b;
  else if constexpr (mode == CMPMODE::GE)
    return a >= b;
  else
    return a != b;
}

template <typename T, typename F>
void compare_lanes(MaskReg& dst, const RegData& a, const RegData& b, const MaskReg& mask, F f) {
  using W = Raw<T>;
  alignas(64) W out[kLanes<T>];
  const auto* x = lanes<W>(a.bytes);
  const auto* y = lanes<W>(b.bytes);
  const auto* select = lanes<W>(mask.bits);
  for (int i = 0; i < kLanes<T>; ++i) {
    const W bit = f(Lane<T>::get(x[i]), Lane<T>::get(y[i])) ? 1 : 0;
    out[i] = static_cast<W>(bit & select[i] & 1);
  }
  if (a.all && b.all && mask.all)
    dst.all = true;
  else
    taint_compare(dst, sizeof(T), mask, a, b);
  std::memcpy(dst.bits, out, kRegBytes);
}

}  // namespace npu_lp::twin

namespace AscendC::Reg {

template <typename T = DefaultType, CMPMODE mode = CMPMODE::EQ, Register U>
void Compare(MaskReg& dst, U& srcReg0, U& srcReg1, MaskReg& mask) {
  using namespace npu_lp::twin;
  using A = Actual<T, U>;
  static_assert(kIsInt<A> || kIsFloat<A>, "Compare does not have this element type");
  VectorRun& run = vector_run();
  run.count();
  if (run.compute()) {
    compare_lanes<A>(dst, srcReg0, srcReg1, mask, [](ValueOf<A> a, ValueOf<A> b) { return compare<mode>(a, b); });
  }
}

template <typename T = DefaultType, CMPMODE mode = CMPMODE::EQ, Register U, typename S>
void Compares(MaskReg& dst, U& srcReg, S scalarValue, MaskReg& mask) {
  using namespace npu_lp::twin;
  using A = Actual<T, U>;
  static_assert(kIsInt<A> || kIsFloat<A>, "Compares does not have this element type");
  VectorRun& run = vector_run();
  run.count();
  if (!run.compute()) return;
  const ValueOf<A> scalar = Lane<A>::get(raw_of(scalar_as<A>(scalarValue)));
  compare_lanes<A>(dst, srcReg, srcReg, mask, [scalar](ValueOf<A> a, ValueOf<A>) { return compare<mode>(a, scalar); });
}

// srcReg0 where the mask is set, srcReg1 elsewhere.
template <typename T = DefaultType, Register U>
void Select(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask) {
  using namespace npu_lp::twin;
  using A = Actual<T, U>;
  using W = Raw<A>;
  static_assert(kIsInt<A> || kIsFloat<A>, "Select does not have this element type");
  VectorRun& run = vector_run();
  run.count();
  if (!run.compute()) return;
  alignas(64) W out[kLanes<A>];
  const auto* select = lanes<W>(mask.bits);
  const auto mix = [&](uint8_t* to, const uint8_t* a, const uint8_t* b) {
    const auto* x = lanes<W>(a);
    const auto* y = lanes<W>(b);
    for (int i = 0; i < kLanes<A>; ++i) {
      const W chosen = lane_mask<W>(select[i]);
      out[i] = static_cast<W>((x[i] & chosen) | (y[i] & static_cast<W>(~chosen)));
    }
    std::memcpy(to, out, kRegBytes);
  };
  if (srcReg0.all && srcReg1.all && mask.all) {
    dstReg.all = true;
  } else {
    alignas(64) uint8_t known[kRegBytes];
    mix(known, defined_of(srcReg0), defined_of(srcReg1));
    if (!mask.all) {
      auto* lane_known = lanes<W>(known);
      for (int i = 0; i < kLanes<A>; ++i) {
        if (!(lanes<W>(mask.defined)[i] & 1)) lane_known[i] = 0;
      }
    }
    set_defined(dstReg, known);
  }
  mix(dstReg.bytes, srcReg0.bytes, srcReg1.bytes);
}

}  // namespace AscendC::Reg
