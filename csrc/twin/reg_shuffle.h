// What moves lanes without computing: Duplicate, Move, Gather, Interleave, DeInterleave, Pack, UnPack.
#pragma once

#include <cstdint>
#include <cstring>

#include "twin/reg_arith.h"
#include "twin/reg_load.h"

namespace npu_lp::twin {

template <typename W>
void interleave(RegData& dst0, RegData& dst1, const RegData& src0, const RegData& src1) {
  alignas(64) uint8_t out[2 * kRegBytes];
  if (src0.all && src1.all) {
    dst0.all = dst1.all = true;
  } else {
    join_pairs<W>(out, defined_of(src0), defined_of(src1));
    set_defined(dst0, out);
    set_defined(dst1, out + kRegBytes);
  }
  join_pairs<W>(out, src0.bytes, src1.bytes);
  std::memcpy(dst0.bytes, out, kRegBytes);
  std::memcpy(dst1.bytes, out + kRegBytes, kRegBytes);
}
template <typename W>
void deinterleave(RegData& dst0, RegData& dst1, const RegData& src0, const RegData& src1) {
  alignas(64) uint8_t in[2 * kRegBytes];
  if (src0.all && src1.all) {
    dst0.all = dst1.all = true;
  } else {
    alignas(64) uint8_t even[kRegBytes];
    alignas(64) uint8_t odd[kRegBytes];
    std::memcpy(in, defined_of(src0), kRegBytes);
    std::memcpy(in + kRegBytes, defined_of(src1), kRegBytes);
    split_pairs<W>(even, odd, in);
    set_defined(dst0, even);
    set_defined(dst1, odd);
  }
  std::memcpy(in, src0.bytes, kRegBytes);
  std::memcpy(in + kRegBytes, src1.bytes, kRegBytes);
  split_pairs<W>(dst0.bytes, dst1.bytes, in);
}

}  // namespace npu_lp::twin

namespace AscendC::Reg {

template <typename T = DefaultType, typename U, Register S>
  requires(!Register<U>)
void Duplicate(S& dstReg, U scalarValue) {
  using namespace npu_lp::twin;
  using A = Actual<T, S>;
  VectorRun& run = vector_run();
  run.count();
  if (!run.compute()) return;
  const Raw<A> raw = raw_of(scalar_as<A>(scalarValue));
  fill_lanes<A>(dstReg.bytes, raw);
  dstReg.all = true;
}
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U, Register S>
  requires(!Register<U>)
void Duplicate(S& dstReg, U scalarValue, MaskReg& mask) {
  using namespace npu_lp::twin;
  using A = Actual<T, S>;
  VectorRun& run = vector_run();
  run.count();
  if (!run.compute()) return;
  const Raw<A> raw = raw_of(scalar_as<A>(scalarValue));
  RegDefined constant;
  constant.all = true;
  alignas(64) uint8_t values[kRegBytes];
  fill_lanes<A>(values, raw);
  taint<A, mode>(dstReg, mask, constant, constant, constant);
  write_lanes<A, mode>(dstReg, values, mask);
}
// The lowest lane of srcReg everywhere.
template <typename T = DefaultType, HighLowPart pos = HighLowPart::LOWEST, MaskMergeMode mode = MaskMergeMode::ZEROING,
          Register S>
void Duplicate(S& dstReg, S& srcReg, MaskReg& mask) {
  using namespace npu_lp::twin;
  using A = Actual<T, S>;
  static_assert(pos == HighLowPart::LOWEST, "Duplicate of a register takes its lowest lane");
  VectorRun& run = vector_run();
  run.count();
  if (!run.compute()) return;
  const Raw<A> raw = lanes<Raw<A>>(srcReg.bytes)[0];
  alignas(64) uint8_t values[kRegBytes];
  fill_lanes<A>(values, raw);
  RegDefined lane;
  lane.all = std::memcmp(defined_of(srcReg), kAllDefined, sizeof(A)) == 0;
  taint<A, mode>(dstReg, mask, lane, lane, lane);
  write_lanes<A, mode>(dstReg, values, mask);
}

template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::MERGING, Register U>
void Move(U& dstReg, U& srcReg, MaskReg mask) {
  using namespace npu_lp::twin;
  using A = Actual<T, U>;
  static_assert(mode == MaskMergeMode::MERGING, "Move merges: lanes that the mask leaves out keep their value");
  VectorRun& run = vector_run();
  run.count();
  if (run.compute()) map_bits2<A, mode>(dstReg, srcReg, srcReg, mask, [](Raw<A> a, Raw<A>) { return a; });
}
template <typename T = DefaultType, Register U>
void Move(U& dstReg, U& srcReg) {
  static_assert(kNames<T, typename U::ActualT>, "the named type must be the registers'");
  npu_lp::twin::VectorRun& run = npu_lp::twin::vector_run();
  run.count();
  if (run.compute()) dstReg = srcReg;
}

// Lane i is the lane of srcReg that index i names; it is taken modulo their number.
template <typename T = DefaultType, typename U = DefaultType, Register S, Register V>
void Gather(S& dstReg, S& srcReg, V& indexReg) {
  using namespace npu_lp::twin;
  using A = Actual<T, S>;
  using B = Actual<U, V>;
  static_assert(kIsInt<B> && std::is_unsigned_v<B> && sizeof(B) == sizeof(A) && sizeof(A) <= 4,
                "Gather takes an unsigned index of the elements' width, which is 8, 16 or 32 bits");
  using W = Raw<A>;
  VectorRun& run = vector_run();
  run.count(4, true);
  if (!run.compute()) return;
  const auto move = [&](uint8_t* to, const uint8_t* from) {
    alignas(64) W out[kLanes<A>];
    const auto* in = lanes<W>(from);
    const auto* index = lanes<W>(indexReg.bytes);
    for (int i = 0; i < kLanes<A>; ++i) out[i] = in[index[i] % kLanes<A>];
    std::memcpy(to, out, kRegBytes);
  };
  const bool known = srcReg.all && indexReg.all;
  alignas(64) uint8_t map[kRegBytes];
  if (!known) {
    alignas(64) uint8_t source[kRegBytes];
    move(source, defined_of(srcReg));
    const uint8_t* index = defined_of(indexReg);
    for (int i = 0; i < kRegBytes; i += sizeof(A)) {
      const bool good = std::memcmp(index + i, kAllDefined, sizeof(A)) == 0;
      for (size_t b = 0; b < sizeof(A); ++b) map[i + b] = good ? source[i + b] : uint8_t{0};
    }
  }
  move(dstReg.bytes, srcReg.bytes);
  dstReg.all = known;
  if (!known) set_defined(dstReg, map);
}

template <typename T = DefaultType, Register U>
void Interleave(U& dstReg0, U& dstReg1, U& srcReg0, U& srcReg1) {
  using namespace npu_lp::twin;
  using A = Actual<T, U>;
  static_assert(sizeof(A) <= 4 && (kIsInt<A> || kIsFloat<A>),
                "Interleave does not have this element type; cast the references");
  VectorRun& run = vector_run();
  run.count(1, true);
  if (run.compute()) interleave<Raw<A>>(dstReg0, dstReg1, srcReg0, srcReg1);
}
template <typename T = DefaultType, Register U>
void DeInterleave(U& dstReg0, U& dstReg1, U& srcReg0, U& srcReg1) {
  using namespace npu_lp::twin;
  using A = Actual<T, U>;
  static_assert(sizeof(A) <= 4 && (kIsInt<A> || kIsFloat<A>),
                "DeInterleave does not have this element type; cast the references");
  VectorRun& run = vector_run();
  run.count(1, true);
  if (run.compute()) deinterleave<Raw<A>>(dstReg0, dstReg1, srcReg0, srcReg1);
}

// The low half of every element, into the lower or upper half of dst; the other half becomes zero.
template <typename T = DefaultType, typename U = DefaultType, HighLowPart part = HighLowPart::LOWEST, Register S,
          Register V>
void Pack(S& dstReg, V& srcReg) {
  using namespace npu_lp::twin;
  using A = Actual<T, S>;
  using B = Actual<U, V>;
  static_assert(std::is_unsigned_v<A> && kIsInt<B> && sizeof(B) == 2 * sizeof(A),
                "Pack halves integers: uint8_t <- (u)int16_t, uint16_t <- (u)int32_t, uint32_t <- (u)int64_t");
  constexpr int kCount = kLanes<B>;
  VectorRun& run = vector_run();
  run.count(1, true);
  if (!run.compute()) return;
  const auto move = [](uint8_t* to, const uint8_t* from, uint8_t fill) {
    alignas(64) A out[2 * kCount];
    std::memset(out, fill, sizeof out);
    const auto* in = lanes<Raw<B>>(from);
    A* half_of = out + (part == HighLowPart::LOWEST ? 0 : kCount);
    for (int i = 0; i < kCount; ++i) half_of[i] = static_cast<A>(in[i]);
    std::memcpy(to, out, kRegBytes);
  };
  if (srcReg.all) {
    dstReg.all = true;
  } else {
    alignas(64) uint8_t known[kRegBytes];
    move(known, srcReg.defined, 1);
    set_defined(dstReg, known);
  }
  move(dstReg.bytes, srcReg.bytes, 0);
}

// One half of src, each element widened: by its sign, or with zeros if unsigned.
template <typename T = DefaultType, typename U = DefaultType, HighLowPart part = HighLowPart::LOWEST, Register S,
          Register V>
void UnPack(S& dstReg, V& srcReg) {
  using namespace npu_lp::twin;
  using A = Actual<T, S>;
  using B = Actual<U, V>;
  static_assert(kIsInt<A> && kIsInt<B> && sizeof(A) == 2 * sizeof(B) && std::is_signed_v<A> == std::is_signed_v<B>,
                "UnPack widens integers of the same signedness to twice their size");
  constexpr int kCount = kLanes<A>;
  constexpr int kFirst = part == HighLowPart::LOWEST ? 0 : kCount;
  VectorRun& run = vector_run();
  run.count(1, true);
  if (!run.compute()) return;
  alignas(64) A out[kCount];
  const auto* in = lanes<Raw<B>>(srcReg.bytes) + kFirst;
  for (int i = 0; i < kCount; ++i) out[i] = static_cast<A>(static_cast<B>(in[i]));
  if (srcReg.all) {
    dstReg.all = true;
  } else {
    alignas(64) uint8_t known[kRegBytes];
    const uint8_t* source = srcReg.defined + kFirst * sizeof(B);
    for (int i = 0; i < kCount; ++i) {
      const bool good = std::memcmp(source + i * sizeof(B), kAllDefined, sizeof(B)) == 0;
      std::memset(known + i * sizeof(A), good ? 1 : 0, sizeof(A));
    }
    set_defined(dstReg, known);
  }
  std::memcpy(dstReg.bytes, out, kRegBytes);
}

}  // namespace AscendC::Reg
