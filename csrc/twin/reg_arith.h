// Arithmetic and logic on registers, element by element. Floats: IEEE with subnormals, one rounding to nearest even,
// NaN results canonical; bf16 and half are computed in fp32 and rounded once. (The documents disagree on whether half
// results saturate with the control register as it is after start-up; here they do not, only Cast does.) Integers wrap.
#pragma once

#include <cmath>
#include <cstdint>

#include "twin/reg_lanes.h"

namespace npu_lp::twin {

template <typename T>
constexpr uint32_t kAddCycles = kIsInt<T> ? 2 : 1;
template <typename T>
constexpr uint32_t kMulCycles = kIsInt<T> ? 2 : 1;
// Exp, Ln, Sqrt, Div: 16 elements a cycle.
template <typename T>
constexpr uint32_t kSlowCycles = kLanes<T> / 16;

template <typename T>
using Wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

struct AddOp {
  template <typename V>
  NPU_LP_LANE V operator()(V a, V b) const {
    if constexpr (kIsInt<V>)
      return static_cast<V>(static_cast<Wide<V>>(a) + static_cast<Wide<V>>(b));
    else
      return one_nan(a + b);
  }
};
struct SubOp {
  template <typename V>
  NPU_LP_LANE V operator()(V a, V b) const {
    if constexpr (kIsInt<V>)
      return static_cast<V>(static_cast<Wide<V>>(a) - static_cast<Wide<V>>(b));
    else
      return one_nan(a - b);
  }
};
struct NegOp {
  template <typename V>
  NPU_LP_LANE V operator()(V a) const {
    if constexpr (kIsInt<V>)
      return static_cast<V>(Wide<V>{0} - static_cast<Wide<V>>(a));
    else
      return one_nan(-a);
  }
};
struct MulOp {
  template <typename V>
  NPU_LP_LANE V operator()(V a, V b) const {
    if constexpr (kIsInt<V>)
      return static_cast<V>(static_cast<Wide<V>>(a) * static_cast<Wide<V>>(b));
    else
      return one_nan(a * b);
  }
};
struct DivOp {
  template <typename V>
  NPU_LP_LANE V operator()(V a, V b) const {
    if constexpr (kIsInt<V>) {
      if (b == 0) return static_cast<V>(-1);
      if constexpr (std::is_signed_v<V>) {
        if (b == static_cast<V>(-1)) return static_cast<V>(Wide<V>{0} - static_cast<Wide<V>>(a));
      }
      return static_cast<V>(a / b);
    } else {
      return one_nan(a / b);
    }
  }
};
// NaN wins; +0 is larger than -0.
struct MaxOp {
  template <typename V>
  NPU_LP_LANE V operator()(V a, V b) const {
    if constexpr (kIsInt<V>) {
      return a > b ? a : b;
    } else {
      const uint32_t larger = pick(a > b, bits_of(a), bits_of(b));
      const uint32_t value = pick(a == b, bits_of(a) & bits_of(b), larger);
      return float_of(pick(is_nan(a) | is_nan(b), kCanonicalNaN, value));
    }
  }
};
struct MinOp {
  template <typename V>
  NPU_LP_LANE V operator()(V a, V b) const {
    if constexpr (kIsInt<V>) {
      return a < b ? a : b;
    } else {
      const uint32_t smaller = pick(a < b, bits_of(a), bits_of(b));
      const uint32_t value = pick(a == b, bits_of(a) | bits_of(b), smaller);
      return float_of(pick(is_nan(a) | is_nan(b), kCanonicalNaN, value));
    }
  }
};

template <typename T, typename S>
NPU_LP_LANE T shift_left(T value, S amount) {
  if (amount < 0 || amount >= static_cast<S>(8 * sizeof(T))) return 0;
  return static_cast<T>(static_cast<Wide<T>>(value) << amount);
}
template <typename T, typename S>
NPU_LP_LANE T shift_right(T value, S amount) {
  if (amount < 0 || amount >= static_cast<S>(8 * sizeof(T))) return std::is_signed_v<T> && value < 0 ? T(-1) : T(0);
  return static_cast<T>(value >> amount);
}

// The mode argument of Div, Exp, ...: a MaskMergeMode, or the address of a struct that holds one.
template <auto mode>
constexpr MaskMergeMode merge_of() {
  if constexpr (std::is_pointer_v<decltype(mode)>)
    return mode->mrgMode;
  else
    return mode;
}

template <typename T, typename U>
struct ActualOf {
  static_assert(kNames<T, ElementOf<U>>, "the named type must be the registers'");
  using type = ElementOf<U>;
};
template <typename T, typename U>
using Actual = typename ActualOf<T, U>::type;

}  // namespace npu_lp::twin

namespace AscendC::Reg {

// Two registers. ALLOWED: the element types that the instruction has.
#define NPU_LP_REG_BINARY(NAME, OP, CYCLES, ALLOWED)                                    \
  template <typename T = DefaultType, auto mode = MaskMergeMode::ZEROING, Register U>   \
  void NAME(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask) {                         \
    using namespace npu_lp::twin;                                                       \
    using A = Actual<T, U>;                                                             \
    static_assert(ALLOWED, #NAME " does not have this element type");                   \
    VectorRun& run = vector_run();                                                      \
    run.count(CYCLES);                                                                  \
    if (run.compute()) map2<A, merge_of<mode>()>(dstReg, srcReg0, srcReg1, mask, OP{}); \
  }
NPU_LP_REG_BINARY(Add, AddOp, kAddCycles<A>, kIsInt<A> || kIsFloat<A>)
NPU_LP_REG_BINARY(Sub, SubOp, kAddCycles<A>, kIsInt<A> || kIsFloat<A>)
NPU_LP_REG_BINARY(Mul, MulOp, kMulCycles<A>, sizeof(A) > 1 && (kIsInt<A> || kIsFloat<A>))
NPU_LP_REG_BINARY(Div, DivOp, kSlowCycles<A>, sizeof(A) > 1 && (kIsInt<A> || (kOneOf<A, half, float>)))
NPU_LP_REG_BINARY(Max, MaxOp, 1, kIsInt<A> || kIsFloat<A>)
NPU_LP_REG_BINARY(Min, MinOp, 1, kIsInt<A> || kIsFloat<A>)
#undef NPU_LP_REG_BINARY

// A register and a scalar.
#define NPU_LP_REG_SCALAR(NAME, OP, CYCLES, ALLOWED)                                                       \
  template <typename T = DefaultType, typename U, MaskMergeMode mode = MaskMergeMode::ZEROING, Register S> \
  void NAME(S& dstReg, S& srcReg, U scalarValue, MaskReg& mask) {                                          \
    using namespace npu_lp::twin;                                                                          \
    using A = Actual<T, S>;                                                                                \
    static_assert(ALLOWED, #NAME " does not have this element type");                                      \
    VectorRun& run = vector_run();                                                                         \
    run.count(CYCLES);                                                                                     \
    if (!run.compute()) return;                                                                            \
    const ValueOf<A> scalar = Lane<A>::get(raw_of(scalar_as<A>(scalarValue)));                             \
    map1<A, mode>(dstReg, srcReg, mask, [scalar](ValueOf<A> value) { return OP{}(value, scalar); });       \
  }
NPU_LP_REG_SCALAR(Adds, AddOp, kAddCycles<A>, kIsInt<A> || kIsFloat<A>)
NPU_LP_REG_SCALAR(Muls, MulOp, kMulCycles<A>, sizeof(A) > 1 && (kIsInt<A> || (kOneOf<A, half, float>)))
NPU_LP_REG_SCALAR(Maxs, MaxOp, 1, kIsInt<A> || kIsFloat<A>)
NPU_LP_REG_SCALAR(Mins, MinOp, 1, kIsInt<A> || kIsFloat<A>)
#undef NPU_LP_REG_SCALAR

#define NPU_LP_REG_SHIFT(NAME, FUNCTION)                                                                     \
  template <typename T = DefaultType, typename U, MaskMergeMode mode = MaskMergeMode::ZEROING, Register S>   \
  void NAME##s(S& dstReg, S& srcReg, U scalarValue, MaskReg& mask) {                                         \
    using namespace npu_lp::twin;                                                                            \
    using A = Actual<T, S>;                                                                                  \
    static_assert(kIsInt<A> && std::is_integral_v<U>, #NAME "s shifts integers by an int16_t");              \
    VectorRun& run = vector_run();                                                                           \
    run.count();                                                                                             \
    if (!run.compute()) return;                                                                              \
    const int amount = static_cast<int16_t>(scalarValue);                                                    \
    map1<A, mode>(dstReg, srcReg, mask, [amount](A value) { return FUNCTION(value, amount); });              \
  }                                                                                                          \
  template <typename T = DefaultType, typename U = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, \
            Register S, Register V>                                                                          \
    requires(sizeof(typename S::ActualT) == sizeof(typename V::ActualT))                                     \
  void NAME(S& dstReg, S& srcReg0, V& srcReg1, MaskReg& mask) {                                              \
    using namespace npu_lp::twin;                                                                            \
    using A = Actual<T, S>;                                                                                  \
    using B = Actual<U, V>;                                                                                  \
    static_assert(kIsInt<A> && kIsInt<B> && std::is_signed_v<B>, #NAME " shifts integers by signed ones");   \
    VectorRun& run = vector_run();                                                                           \
    run.count();                                                                                             \
    if (!run.compute()) return;                                                                              \
    map_bits2<A, mode>(dstReg, srcReg0, srcReg1, mask, [](Raw<A> value, Raw<B> amount) {                     \
      return FUNCTION(static_cast<A>(value), static_cast<B>(amount));                                        \
    });                                                                                                      \
  }
NPU_LP_REG_SHIFT(ShiftLeft, shift_left)
NPU_LP_REG_SHIFT(ShiftRight, shift_right)
#undef NPU_LP_REG_SHIFT

#define NPU_LP_REG_BITS(NAME, EXPRESSION)                                                                \
  template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, Register U>           \
  void NAME(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask) {                                          \
    using namespace npu_lp::twin;                                                                        \
    using A = Actual<T, U>;                                                                              \
    static_assert(kIsInt<A>, #NAME " takes integer registers; cast the references");                     \
    VectorRun& run = vector_run();                                                                       \
    run.count();                                                                                         \
    if (run.compute())                                                                                   \
      map_bits2<A, mode>(dstReg, srcReg0, srcReg1, mask, [](Raw<A> a, Raw<A> b) { return EXPRESSION; }); \
  }
NPU_LP_REG_BITS(And, a& b)
NPU_LP_REG_BITS(Or, a | b)
NPU_LP_REG_BITS(Xor, a ^ b)
#undef NPU_LP_REG_BITS

template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, Register U>
void Not(U& dstReg, U& srcReg, MaskReg& mask) {
  using namespace npu_lp::twin;
  using A = Actual<T, U>;
  VectorRun& run = vector_run();
  run.count();
  if (run.compute()) map_bits2<A, mode>(dstReg, srcReg, srcReg, mask, [](Raw<A> a, Raw<A>) { return ~a; });
}

template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, Register U>
void Abs(U& dstReg, U& srcReg, MaskReg& mask) {
  using namespace npu_lp::twin;
  using A = Actual<T, U>;
  static_assert((kIsInt<A> && std::is_signed_v<A>) || kOneOf<A, half, float>, "Abs does not have this element type");
  constexpr Raw<A> kSign = static_cast<Raw<A>>(Raw<A>{1} << (8 * sizeof(A) - 1));
  VectorRun& run = vector_run();
  run.count();
  if (!run.compute()) return;
  map_bits2<A, mode>(dstReg, srcReg, srcReg, mask, [](Raw<A> a, Raw<A>) -> Raw<A> {
    if constexpr (kIsInt<A>)
      return a & kSign ? static_cast<Raw<A>>(Raw<A>{0} - a) : a;
    else
      return static_cast<Raw<A>>(a & static_cast<Raw<A>>(~kSign));
  });
}

#define NPU_LP_REG_UNARY(NAME, EXPRESSION, CYCLES, ALLOWED)                                                   \
  template <typename T = DefaultType, auto mode = MaskMergeMode::ZEROING, Register U>                         \
  void NAME(U& dstReg, U& srcReg, MaskReg& mask) {                                                            \
    using namespace npu_lp::twin;                                                                             \
    using A = Actual<T, U>;                                                                                   \
    static_assert(ALLOWED, #NAME " does not have this element type");                                         \
    VectorRun& run = vector_run();                                                                            \
    run.count(CYCLES);                                                                                        \
    if (run.compute())                                                                                        \
      map1<A, merge_of<mode>()>(dstReg, srcReg, mask, [](ValueOf<A> a) -> ValueOf<A> { return EXPRESSION; }); \
  }
NPU_LP_REG_UNARY(Exp, one_nan(std::exp(a)), kSlowCycles<A>, (kOneOf<A, half, float>))
NPU_LP_REG_UNARY(Sqrt, one_nan(std::sqrt(a)), kSlowCycles<A>, (kOneOf<A, half, float>))
NPU_LP_REG_UNARY(Ln, one_nan(std::log(a)), kSlowCycles<A>, (kOneOf<A, half, float>))
NPU_LP_REG_UNARY(Relu, MaxOp{}(a, ValueOf<A>{}), 1, (kOneOf<A, half, float, int32_t>))
NPU_LP_REG_UNARY(Neg, NegOp{}(a), 1, (kOneOf<A, int8_t, int16_t, int32_t, half, float>))
#undef NPU_LP_REG_UNARY

}  // namespace AscendC::Reg
