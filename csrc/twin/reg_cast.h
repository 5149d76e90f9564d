// Cast and Truncate.
//
// A narrowing Cast writes one of the 2 or 4 narrow lanes of each wide one, the layout says which, and zeroes the
// others; a widening one reads that lane. The mask bit that counts is the source element's. Whether a conversion
// saturates is the trait's say only while control bit 60 is clear; set, as it is after start-up, bits 48 (floats) and
// 59 (integers) decide.
#pragma once

#include <cstdint>
#include <cstring>

#include "twin/reg_cast_pairs.h"
#include "twin/reg_lanes.h"
#include "twin/reg_round.h"

namespace npu_lp::twin {

using AscendC::Reg::CastTrait;
using AscendC::Reg::SatMode;

struct CastControl {
  bool saturate;      // to floats
  bool saturate_int;  // to integers
  uint32_t fp8_nan;   // code of NaN: 0 if saturating does not keep it
};
inline CastControl cast_control(uint64_t control, SatMode mode) {
  const bool global = control >> 60 & 1;
  const bool single = mode == SatMode::SAT;
  const bool saturate = global ? !(control >> 48 & 1) : single;
  const bool keep_nan = !saturate || (control >> 50 & 1) != 0;
  return {saturate, global ? !(control >> 59 & 1) : single, keep_nan ? 0x7Fu : 0u};
}

template <typename D, typename S>
D clamp_integer(S value, bool saturate) {
  using Limits = std::numeric_limits<D>;
  const int64_t wide = static_cast<int64_t>(value);
  if (saturate && wide > static_cast<int64_t>(Limits::max())) return Limits::max();
  if (saturate && wide < static_cast<int64_t>(Limits::lowest())) return Limits::lowest();
  return static_cast<D>(value);
}

// One element. D and S are a legal pair without fp4 and e8m0, MODE a rounding that the pair has.
template <typename D, typename S, RoundMode MODE>
struct Convert {
  CastControl control;
  const HiF8Table& hif8;
  const DecodeTables& decode;

  NPU_LP_LANE Raw<D> operator()(Raw<S> bits) const {
    if constexpr (std::is_same_v<S, fp8_e4m3fn_t>) {
      return bits_of(decode.e4m3[bits]);
    } else if constexpr (std::is_same_v<S, fp8_e5m2_t>) {
      return bits_of(decode.e5m2[bits]);
    } else if constexpr (std::is_same_v<S, hifloat8_t>) {
      return static_cast<Raw<D>>(Lane<D>::put(decode.hif8[bits]));
    } else if constexpr (kIsInt<S> && kIsInt<D>) {
      if constexpr (std::is_same_v<S, int16_t> && std::is_same_v<D, uint32_t>)
        return static_cast<D>(static_cast<S>(bits) < 0 ? 0 : static_cast<S>(bits));
      else
        return static_cast<Raw<D>>(clamp_integer<D>(static_cast<S>(bits), control.saturate_int));
    } else if constexpr (kIsInt<S>) {
      constexpr int kPrecision = std::is_same_v<D, half> ? 11 : 24;
      if constexpr (sizeof(S) == 1 || (sizeof(S) == 2 && std::is_same_v<D, float>))
        return static_cast<Raw<D>>(Lane<D>::put(static_cast<float>(static_cast<S>(bits))));  // exact
      else
        return static_cast<Raw<D>>(Lane<D>::put(widen_integer<kPrecision, MODE>(static_cast<S>(bits))));
    } else {
      const float value = Lane<S>::get(bits);
      if constexpr (kIsInt<D>)
        // half to int32_t always fits; the others follow the control bits.
        return static_cast<Raw<D>>(narrow_to_integer<D, MODE>(value, control.saturate_int));
      else if constexpr (std::is_same_v<D, float>)
        return bits_of(one_nan(value));
      else if constexpr (std::is_same_v<D, half>)
        return static_cast<Raw<D>>(narrow_16<5, 10, MODE>(value, control.saturate));
      else if constexpr (std::is_same_v<D, bfloat16_t>)
        return static_cast<Raw<D>>(narrow_16<8, 7, MODE>(value, std::is_same_v<S, float> && control.saturate));
      else if constexpr (std::is_same_v<D, hifloat8_t>)
        return narrow_hif8(hif8, value, control.saturate);
      else
        return narrow_fp8(value);
    }
  }

  NPU_LP_LANE Raw<D> narrow_fp8(float value) const {
    uint32_t code;
    if constexpr (std::is_same_v<D, fp8_e4m3fn_t>)
      code = narrow_small<4, 3, 7, 0x7E, MODE>(value, 0x7Fu - control.saturate, control.fp8_nan);
    else
      code = narrow_small<5, 2, 15, 0x7B, MODE>(value, 0x7Cu - control.saturate, control.fp8_nan);
    return static_cast<Raw<D>>(code);
  }
};

// Maps of a Cast's result where not all is defined: the source element's lane, or a defined zero where the mask is
// clear. Of dst_width bytes each, `layout` picks the narrow lane.
void taint_cast(RegData& dst, const RegData& src, const MaskReg& mask, int dst_width, int src_width, int layout);

template <typename D, typename S, typename F>
void cast_lanes(RegData& dst, const RegData& src, const MaskReg& mask, int layout, const F f) {
  if constexpr (sizeof(D) == 2 && sizeof(S) == 2) {
    // Two at a time, in lanes of 32 bits.
    alignas(64) uint32_t out[64];
    const auto* in = lanes<uint32_t>(src.bytes);
    const auto* select = lanes<uint32_t>(mask.bits);
    for (int i = 0; i < 64; ++i) {
      const uint32_t both = static_cast<uint32_t>(static_cast<uint16_t>(f(static_cast<uint16_t>(in[i])))) |
                            static_cast<uint32_t>(f(static_cast<uint16_t>(in[i] >> 16))) << 16;
      const uint32_t low = lane_mask<uint32_t>(select[i]) & 0xFFFFu;
      out[i] = both & (low | lane_mask<uint32_t>(select[i] >> 16) << 16);
    }
    taint_cast(dst, src, mask, 2, 2, 0);
    std::memcpy(dst.bytes, out, kRegBytes);
  } else if constexpr (sizeof(D) <= sizeof(S)) {
    using W = Raw<S>;
    alignas(64) W out[kLanes<S>];
    const auto* in = lanes<W>(src.bytes);
    const auto* select = lanes<W>(mask.bits);
    const int shift = sizeof(D) == sizeof(S) ? 0 : 8 * static_cast<int>(sizeof(D)) * layout;
    for (int i = 0; i < kLanes<S>; ++i) {
      out[i] = static_cast<W>(static_cast<W>(static_cast<W>(f(in[i])) << shift) & lane_mask<W>(select[i]));
    }
    taint_cast(dst, src, mask, sizeof(D), sizeof(S), layout);
    std::memcpy(dst.bytes, out, kRegBytes);
  } else {
    using W = Raw<D>;
    alignas(64) W out[kLanes<D>];
    const auto* in = lanes<W>(src.bytes);
    const auto* select = lanes<W>(mask.bits);
    const int shift = 8 * static_cast<int>(sizeof(S)) * layout;
    for (int i = 0; i < kLanes<D>; ++i) {
      out[i] =
          static_cast<W>(f(static_cast<Raw<S>>(in[i] >> shift)) & lane_mask<W>(static_cast<W>(select[i] >> shift)));
    }
    taint_cast(dst, src, mask, sizeof(D), sizeof(S), layout);
    std::memcpy(dst.bytes, out, kRegBytes);
  }
}

// Two bf16 in, one byte out: the first element in the low nibble. Always saturates, NaN gives 0.
template <typename D, RoundMode MODE>
NPU_LP_LANE uint32_t narrow_fp4(uint32_t pair) {
  const float low = widen_bf16(static_cast<uint16_t>(pair));
  const float high = widen_bf16(static_cast<uint16_t>(pair >> 16));
  if constexpr (std::is_same_v<D, fp4x2_e2m1_t>)
    return narrow_small<2, 1, 1, 7, MODE>(low, 7, 0) | narrow_small<2, 1, 1, 7, MODE>(high, 7, 0) << 4;
  else
    return narrow_small<1, 2, 1, 7, MODE>(low, 7, 0) | narrow_small<1, 2, 1, 7, MODE>(high, 7, 0) << 4;
}

void cast_to_e8m0(RegData& dst, RegData& src, const MaskReg& mask, int layout);
void cast_from_e8m0(RegData& dst, RegData& src, const MaskReg& mask, int layout);

template <typename D, typename S, RoundMode MODE>
void cast_zeroing(RegData& dst, RegData& src, const MaskReg& mask, int layout, const CastControl& control) {
  if constexpr (is_fp4<D>) {
    // A pair of bf16 is one lane of 4 bytes, of which one is written.
    cast_lanes<uint8_t, uint32_t>(dst, src, mask, layout, [](uint32_t pair) { return narrow_fp4<D, MODE>(pair); });
  } else if constexpr (is_fp4<S>) {
    const uint16_t* table = std::is_same_v<S, fp4x2_e2m1_t> ? decode_tables().e2m1 : decode_tables().e1m2;
    cast_lanes<uint32_t, uint8_t>(dst, src, mask, layout, [table](uint8_t code) {
      return static_cast<uint32_t>(table[code & 15]) | static_cast<uint32_t>(table[code >> 4]) << 16;
    });
  } else if constexpr (std::is_same_v<D, fp8_e8m0_t>) {
    cast_to_e8m0(dst, src, mask, layout);
  } else if constexpr (std::is_same_v<S, fp8_e8m0_t>) {
    cast_from_e8m0(dst, src, mask, layout);
  } else {
    cast_lanes<D, S>(dst, src, mask, layout, Convert<D, S, MODE>{control, hif8_table(), decode_tables()});
  }
}

template <typename D, typename S>
constexpr uint32_t cast_cycles() {
  constexpr uint32_t kElements = is_fp4<D> || is_fp4<S> ? 128 : 256 / (sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S));
  return (kElements + cast_pair<D, S>().rate - 1) / cast_pair<D, S>().rate;
}

}  // namespace npu_lp::twin

namespace AscendC::Reg {

template <typename T = DefaultType, typename U = DefaultType, CastTrait trait = castTrait, Register S, Register V>
void Cast(S& dstReg, V& srcReg, MaskReg& mask) {
  using namespace npu_lp::twin;
  using D = ElementOf<S>;
  using A = ElementOf<V>;
  static_assert(kNames<T, D> && kNames<U, A>, "the named types must be the registers'");
  constexpr CastPair kPair = cast_pair<D, A>();
  static_assert(kPair.legal, "the vector unit has no Cast between these types; go through one that it has");
  static_assert(!kPair.legal || layout_fits(kPair.layouts, trait.layoutMode),
                "this Cast needs layoutMode ZERO or ONE (to THREE where widths differ by 4)");
  constexpr RoundMode kMode = effective_rounding<D, A>(trait.roundMode);
  static_assert(!kPair.legal || kPair.roundings == 0 ||
                    (kMode <= RoundMode::CAST_HYBRID && (kPair.roundings & rounding_bit(kMode)) != 0),
                "this Cast does not have that roundMode (the twin does not model CAST_HYBRID)");
  constexpr bool kMerging = trait.mrgMode == MaskMergeMode::MERGING;
  static_assert(trait.mrgMode != MaskMergeMode::UNKNOWN, "mrgMode must be ZEROING or MERGING");
  static_assert(!kMerging || ((trait.layoutMode == RegLayout::UNKNOWN || trait.layoutMode == RegLayout::ZERO) &&
                              !is_fp4<D> && !is_fp4<A>),
                "a merging Cast has layoutMode UNKNOWN or ZERO and no fp4");
  constexpr int kLayout = trait.layoutMode == RegLayout::UNKNOWN ? 0 : static_cast<int>(trait.layoutMode);
  VectorRun& run = vector_run();
  run.count(cast_cycles<D, A>());
  if constexpr (kMerging) run.count();
  if (!run.compute()) return;
  const CastControl control = cast_control(run.control(), trait.satMode);
  if constexpr (kMerging) {
    S result;
    cast_zeroing<D, A, kMode>(result, srcReg, mask, kLayout, control);
    map_bits2<D, MaskMergeMode::MERGING>(dstReg, result, result, mask, [](Raw<D> a, Raw<D>) { return a; });
  } else {
    cast_zeroing<D, A, kMode>(dstReg, srcReg, mask, kLayout, control);
  }
}

// To an integral value of the same type.
template <typename T = DefaultType, RoundMode roundMode = RoundMode::CAST_NONE,
          MaskMergeMode mode = MaskMergeMode::ZEROING, Register S>
void Truncate(S& dstReg, S& srcReg, MaskReg& mask) {
  using namespace npu_lp::twin;
  using A = ElementOf<S>;
  static_assert(kNames<T, A>, "the named type must be the registers'");
  static_assert(kIsFloat<A>, "Truncate takes half, bfloat16_t or float");
  static_assert(mode == MaskMergeMode::ZEROING, "Truncate has ZEROING only");
  constexpr RoundMode kMode = roundMode == RoundMode::CAST_NONE ? RoundMode::CAST_RINT : roundMode;
  static_assert((kFive & rounding_bit(kMode)) != 0, "Truncate has RINT, ROUND, FLOOR, CEIL and TRUNC");
  VectorRun& run = vector_run();
  run.count(2);
  if (run.compute()) map1<A, mode>(dstReg, srcReg, mask, [](float value) { return round_to_integer<kMode>(value); });
}

}  // namespace AscendC::Reg
