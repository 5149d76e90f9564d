// Cast between half, bf16, fp32 and integers, against rounding in double.
#include "reg_casts.h"

static double round_double(double value, RoundMode mode) {
  switch (mode) {
    case RoundMode::CAST_RINT:
      return std::nearbyint(value);
    case RoundMode::CAST_ROUND:
      return std::round(value);
    case RoundMode::CAST_FLOOR:
      return std::floor(value);
    case RoundMode::CAST_CEIL:
      return std::ceil(value);
    case RoundMode::CAST_ODD: {
      const double below = std::trunc(value);
      const bool odd = std::fmod(below, 2.0) != 0.0;
      return below == value || odd ? below : below + (value < 0 ? -1.0 : 1.0);
    }
    default:
      return std::trunc(value);
  }
}

// To `bits` of mantissa with a smallest exponent; an exact fp32 or double.
static double round_to(double value, int mantissa, int min_exponent, RoundMode mode) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  return std::ldexp(round_double(std::ldexp(value, mantissa - exponent), mode), exponent - mantissa);
}

template <typename D, typename S, RoundMode MODE, RegLayout LAYOUT>
static void expect_float16(const std::vector<npu_lp::twin::Raw<S>>& values, bool has_saturation) {
  constexpr bool kHalf = std::is_same_v<D, half>;
  const double limit = kHalf ? 65504.0 : 3.3895313892515355e38;
  for (const bool saturate : {true, false}) {
    const auto results =
        cast_all<D, S, kTrait<LAYOUT, SatMode::SAT, MODE>>(values, saturate ? kPerInstruction : kGlobal | 1ull << 48);
    int wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = Lane<S>::get(values[i]);
      const bool clamp = saturate && has_saturation;
      uint16_t want;
      if (value != value) {
        want = clamp ? 0 : kHalf ? 0x7E00 : 0x7FC0;
      } else {
        double rounded = round_to(value, kHalf ? 10 : 7, kHalf ? -14 : -126, MODE);
        const bool inward = MODE == RoundMode::CAST_TRUNC || MODE == RoundMode::CAST_ODD ||
                            (MODE == RoundMode::CAST_FLOOR && value > 0) || (MODE == RoundMode::CAST_CEIL && value < 0);
        if (std::fabs(rounded) > limit) {
          rounded = std::copysign(clamp || (inward && std::isfinite(value)) ? limit : INFINITY, value);
        }
        const float exact = static_cast<float>(rounded);
        want = kHalf ? npu_lp::narrow_fp16(exact) : npu_lp::narrow_bf16(exact);
        if (rounded == 0.0) want = static_cast<uint16_t>(bits_of(value) >> 31 << 15);
      }
      if (results[i] != want && ++wrong < 4) {
        std::printf("mode %d, %x: got %x, want %x\n", static_cast<int>(MODE), values[i], results[i], want);
      }
    }
    EXPECT(wrong == 0);
  }
}

template <RoundMode MODE>
static void expect_16_bit_floats() {
  const std::vector<uint32_t> values = around(npu_lp::Format::kE5M2);
  expect_float16<half, float, MODE, RegLayout::ONE>(values, true);
  if constexpr (MODE != RoundMode::CAST_ODD) {
    expect_float16<bfloat16_t, float, MODE, RegLayout::ZERO>(values, true);
    expect_float16<bfloat16_t, half, MODE, RegLayout::UNKNOWN>(all_16(), false);
    expect_float16<half, bfloat16_t, MODE, RegLayout::UNKNOWN>(all_16(), true);
  }
}

TEST(floats_of_16_bits) {
  expect_16_bit_floats<RoundMode::CAST_RINT>();
  expect_16_bit_floats<RoundMode::CAST_ROUND>();
  expect_16_bit_floats<RoundMode::CAST_FLOOR>();
  expect_16_bit_floats<RoundMode::CAST_CEIL>();
  expect_16_bit_floats<RoundMode::CAST_TRUNC>();
  expect_16_bit_floats<RoundMode::CAST_ODD>();
  const auto wide =
      cast_all<float, half, kTrait<RegLayout::ONE, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(all_16(), kGlobal);
  const auto wide_bf16 =
      cast_all<float, bfloat16_t, kTrait<RegLayout::ZERO, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(all_16(), kGlobal);
  bool same = true;
  for (uint32_t i = 0; i < 65536; ++i) {
    same = same && wide[i] == bits_of(npu_lp::canonical(npu_lp::widen_fp16(static_cast<uint16_t>(i))));
    same = same && wide_bf16[i] == bits_of(npu_lp::canonical(npu_lp::widen_bf16(static_cast<uint16_t>(i))));
  }
  EXPECT(same);
}

// The documented specials of float to integer: NaN 0, Inf the limits, too large the limits or the low bits.
template <typename I, typename S, RoundMode MODE, RegLayout LAYOUT>
static void expect_integers(const std::vector<npu_lp::twin::Raw<S>>& values) {
  for (const bool saturate : {true, false}) {
    const auto results =
        cast_all<I, S, kTrait<LAYOUT, SatMode::SAT, MODE>>(values, saturate ? kPerInstruction : kGlobal | 1ull << 59);
    int wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = Lane<S>::get(values[i]);
      const double rounded = round_double(value, MODE);
      const double low = std::numeric_limits<I>::lowest(), high = std::numeric_limits<I>::max();
      I want;
      if (value != value)
        want = 0;
      else if (std::isinf(value) || (saturate && (rounded < low || rounded > high)))
        want = value > 0 ? std::numeric_limits<I>::max() : std::numeric_limits<I>::lowest();
      else
        want = static_cast<I>(static_cast<int64_t>(std::fmod(rounded, 4294967296.0)));
      if (results[i] != static_cast<npu_lp::twin::Raw<I>>(want) && ++wrong < 4) {
        std::printf("%x: got %x, want %x\n", values[i], results[i], static_cast<uint32_t>(want));
      }
    }
    EXPECT(wrong == 0);
  }
}

TEST(integers) {
  const std::vector<uint32_t> values = around(npu_lp::Format::kE5M2);
  expect_integers<int32_t, float, RoundMode::CAST_RINT, RegLayout::UNKNOWN>(values);
  expect_integers<int32_t, float, RoundMode::CAST_FLOOR, RegLayout::UNKNOWN>(values);
  expect_integers<int16_t, float, RoundMode::CAST_ROUND, RegLayout::ONE>(values);
  expect_integers<int8_t, half, RoundMode::CAST_CEIL, RegLayout::ONE>(all_16());
  expect_integers<uint8_t, half, RoundMode::CAST_RINT, RegLayout::ZERO>(all_16());
  expect_integers<int32_t, half, RoundMode::CAST_FLOOR, RegLayout::ZERO>(all_16());
  expect_integers<int32_t, bfloat16_t, RoundMode::CAST_TRUNC, RegLayout::ONE>(all_16());
  std::vector<uint32_t> whole = {
      0, 1, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu, (1u << 24) + 1, (1u << 24) + 3, 0xFF000001u - 2};
  const auto floats =
      cast_all<float, int32_t, kTrait<RegLayout::UNKNOWN, SatMode::UNKNOWN, RoundMode::CAST_RINT>>(whole, kGlobal);
  const auto floors =
      cast_all<float, int32_t, kTrait<RegLayout::UNKNOWN, SatMode::UNKNOWN, RoundMode::CAST_FLOOR>>(whole, kGlobal);
  const auto bytes =
      cast_all<uint8_t, int32_t, kTrait<RegLayout::TWO, SatMode::SAT, RoundMode::UNKNOWN>>(whole, kPerInstruction);
  const auto cut =
      cast_all<uint16_t, uint32_t, kTrait<RegLayout::ONE, SatMode::NO_SAT, RoundMode::UNKNOWN>>(whole, kPerInstruction);
  for (size_t i = 0; i < whole.size(); ++i) {
    const int32_t value = static_cast<int32_t>(whole[i]);
    EXPECT(floats[i] == bits_of(static_cast<float>(value)));
    EXPECT(static_cast<double>(float_of(floors[i])) <= value &&
           static_cast<double>(float_of(floors[i])) > value - 129.0);
    EXPECT(bytes[i] == std::clamp(value, 0, 255));
    EXPECT(cut[i] == (whole[i] & 0xFFFF));
  }
}

int main() {
  return check::run_all();
}
