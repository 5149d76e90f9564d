// Cast to and from the formats of 8 and 4 bits, against csrc/formats: all codes of 8 and 16 bits, fp32 around every
// midpoint; masks, layouts, the pairs that exist.
#include "reg_casts.h"

template <typename D, const CastTrait& TRAIT, typename F>
static void expect_from_float(npu_lp::Format format, uint64_t control, F expected) {
  const std::vector<uint32_t> values = around(format);
  const auto results = cast_all<D, float, TRAIT>(values, control);
  int wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t want = expected(float_of(values[i]));
    if (results[i] == want) continue;
    if (++wrong < 4) std::printf("%08x: got %x, want %x\n", values[i], results[i], want);
  }
  EXPECT(wrong == 0);
}

TEST(fp32_to_fp8) {
  using npu_lp::E4M3;
  using npu_lp::E5M2;
  const auto e4m3 = [](float v) { return uint32_t{E4M3::encode(v)}; };
  const auto e5m2 = [](float v) { return uint32_t{E5M2::encode(v)}; };
  using npu_lp::Format;
  expect_from_float<fp8_e4m3fn_t, kTrait<RegLayout::ZERO, SatMode::SAT, RoundMode::CAST_RINT>>(Format::kE4M3,
                                                                                               kPerInstruction, e4m3);
  expect_from_float<fp8_e4m3fn_t, kTrait<RegLayout::THREE, SatMode::SAT, RoundMode::CAST_RINT>>(Format::kE4M3,
                                                                                                kPerInstruction, e4m3);
  expect_from_float<fp8_e5m2_t, kTrait<RegLayout::TWO, SatMode::SAT, RoundMode::CAST_RINT>>(Format::kE5M2,
                                                                                            kPerInstruction, e5m2);
  // As after start-up the trait does not count: saturates.
  expect_from_float<fp8_e5m2_t, kTrait<RegLayout::ONE, SatMode::NO_SAT, RoundMode::CAST_RINT>>(Format::kE5M2, kGlobal,
                                                                                               e5m2);
  // Without saturation: e4m3 has NaN for what is too large, e5m2 Inf. The codecs round with an unbounded exponent
  // below.
  const auto overflow = [](float v, float limit) { return std::fabs(v) >= limit; };
  const auto sign = [](float v) { return bits_of(v) >> 31 << 7; };
  expect_from_float<fp8_e4m3fn_t, kTrait<RegLayout::ONE, SatMode::NO_SAT, RoundMode::CAST_RINT>>(
      Format::kE4M3, kPerInstruction, [&](float v) {
        if (v != v) return 0x7Fu;
        return overflow(v, 464.0f) && std::fabs(v) > 464.0f ? sign(v) | 0x7Fu : uint32_t{E4M3::encode(v)};
      });
  expect_from_float<fp8_e5m2_t, kTrait<RegLayout::ONE, SatMode::SAT, RoundMode::CAST_RINT>>(
      Format::kE5M2, kGlobal | 1ull << 48, [&](float v) {
        if (v != v) return 0x7Fu;
        return overflow(v, 61440.0f) ? sign(v) | 0x7Cu : uint32_t{E5M2::encode(v)};
      });
  // Bit 50: a saturating Cast keeps NaN.
  expect_from_float<fp8_e4m3fn_t, kTrait<RegLayout::ONE, SatMode::SAT, RoundMode::CAST_RINT>>(
      Format::kE4M3, kPerInstruction | 1ull << 50, [&](float v) { return v != v ? 0x7Fu : uint32_t{E4M3::encode(v)}; });
}

TEST(to_hif8) {
  using npu_lp::HiF8;
  for (const bool saturate : {true, false}) {
    const auto expected = [&](float v) { return uint32_t{HiF8::encode(v, saturate)}; };
    const uint64_t control = saturate ? kGlobal : kGlobal | 1ull << 48;
    expect_from_float<hifloat8_t, kTrait<RegLayout::ZERO, SatMode::UNKNOWN, RoundMode::CAST_ROUND>>(
        npu_lp::Format::kHiF8, control, expected);
    const auto halves = cast_all<hifloat8_t, half, kTrait<RegLayout::ONE, SatMode::SAT, RoundMode::CAST_ROUND>>(
        all_16(), saturate ? kPerInstruction : control);
    bool same = true;
    for (uint32_t i = 0; i < 65536; ++i) {
      same = same && halves[i] == HiF8::encode(npu_lp::widen_fp16(static_cast<uint16_t>(i)), saturate);
    }
    EXPECT(same);
  }
}

// All bf16 to fp4: a pair of elements a byte, the first in the low nibble.
template <typename D, typename CODEC, RoundMode MODE>
static void expect_fp4(npu_lp::Rounding rounding) {
  std::vector<uint16_t> values = all_16();
  bool same = true;
  for (size_t at = 0; at < values.size(); at += 1024) {
    Ub ub;
    std::memcpy(ub.in.data(), &values[at], 2048);
    EXPECT_CLEAN(ub.run<uint8_t>([](uint8_t* in, uint8_t* out) {
      MaskReg all = Reg::CreateMask<uint8_t>();
      MaskReg lanes = Reg::CreateMask<uint32_t>();
      for (int i = 0; i < 8; ++i) {
        RegTensor<bfloat16_t> source;
        RegTensor<D> target;
        Reg::LoadAlign(reinterpret_cast<RegTensor<uint8_t>&>(source), in + 256 * i);
        Reg::Cast<D, bfloat16_t, kTrait<RegLayout::ZERO, SatMode::UNKNOWN, MODE>>(target, source, all);
        Reg::StoreAlign<uint8_t, Reg::StoreDist::DIST_PACK4_B32>(out + 64 * i,
                                                                 reinterpret_cast<RegTensor<uint8_t>&>(target), lanes);
      }
    }));
    for (uint32_t i = 0; i < 1024; ++i) {
      const uint32_t code = ub.out[i / 2] >> (i % 2 * 4) & 15;
      same = same && code == CODEC::encode(npu_lp::widen_bf16(values[at + i]), rounding);
    }
  }
  EXPECT(same);
}

TEST(bf16_to_fp4) {
  using npu_lp::Rounding;
  expect_fp4<fp4x2_e2m1_t, npu_lp::E2M1, RoundMode::CAST_RINT>(Rounding::kRint);
  expect_fp4<fp4x2_e2m1_t, npu_lp::E2M1, RoundMode::CAST_ROUND>(Rounding::kRound);
  expect_fp4<fp4x2_e2m1_t, npu_lp::E2M1, RoundMode::CAST_FLOOR>(Rounding::kFloor);
  expect_fp4<fp4x2_e1m2_t, npu_lp::E1M2, RoundMode::CAST_RINT>(Rounding::kRint);
  expect_fp4<fp4x2_e1m2_t, npu_lp::E1M2, RoundMode::CAST_ROUND>(Rounding::kRound);
  expect_fp4<fp4x2_e1m2_t, npu_lp::E1M2, RoundMode::CAST_FLOOR>(Rounding::kFloor);
}

TEST(fp4_layouts_and_masks) {
  Ub ub;
  ub.in_defined[2 * 9] = 0;  // element 9, of pair 4
  EXPECT_CLEAN(ub.run<bfloat16_t>([](bfloat16_t* in, bfloat16_t* out) {
    RegTensor<bfloat16_t> source, back;
    RegTensor<fp4x2_e2m1_t> target;
    Reg::LoadAlign(source, in);
    uint32_t count = 14;  // 7 pairs: the mask bit of the even element decides
    MaskReg some = Reg::UpdateMask<bfloat16_t>(count);
    MaskReg all = Reg::CreateMask<uint8_t>();
    Reg::Cast<fp4x2_e2m1_t, bfloat16_t, kTrait<RegLayout::TWO, SatMode::UNKNOWN, RoundMode::CAST_RINT>>(target, source,
                                                                                                        some);
    Reg::StoreAlign(reinterpret_cast<uint8_t*>(out), (RegTensor<uint8_t>&)target, all);
    Reg::Cast<bfloat16_t, fp4x2_e2m1_t, kTrait<RegLayout::TWO, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(back, target,
                                                                                                      all);
    Reg::StoreAlign(out + 128, back, all);
  }));
  for (uint32_t pair = 0; pair < 64; ++pair) {
    for (uint32_t byte = 0; byte < 4; ++byte) {
      const uint32_t at = 4 * pair + byte;
      uint32_t want = 0;
      if (byte == 2 && pair < 7) {
        want = npu_lp::E2M1::encode(npu_lp::widen_bf16(ub.input<uint16_t>(2 * pair))) |
               npu_lp::E2M1::encode(npu_lp::widen_bf16(ub.input<uint16_t>(2 * pair + 1))) << 4;
      }
      EXPECT(ub.out[at] == want && ub.out_defined[at] == !(byte == 2 && pair == 4));
    }
    for (uint32_t i = 2 * pair; i < 2 * pair + 2; ++i) {
      const uint32_t code = ub.out[4 * pair + 2] >> (i % 2 * 4) & 15;
      EXPECT(ub.result<uint16_t>(128 + i) == npu_lp::narrow_bf16(npu_lp::E2M1::decode(code)));
    }
  }
}

TEST(small_floats_widen) {
  const auto codes = all_8();
  const auto e4m3 =
      cast_all<float, fp8_e4m3fn_t, kTrait<RegLayout::TWO, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(codes, kGlobal);
  const auto e5m2 =
      cast_all<float, fp8_e5m2_t, kTrait<RegLayout::THREE, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(codes, kGlobal);
  const auto hif8 =
      cast_all<float, hifloat8_t, kTrait<RegLayout::ZERO, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(codes, kGlobal);
  const auto hif8_half =
      cast_all<half, hifloat8_t, kTrait<RegLayout::ONE, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(codes, kGlobal);
  const auto e8m0 =
      cast_all<bfloat16_t, fp8_e8m0_t, kTrait<RegLayout::ONE, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(codes, kGlobal);
  bool same = true;
  for (uint32_t i = 0; i < 256; ++i) {
    same = same && e4m3[i] == bits_of(npu_lp::E4M3::decode(i)) && e5m2[i] == bits_of(npu_lp::E5M2::decode(i)) &&
           hif8[i] == bits_of(npu_lp::HiF8::decode(i)) && hif8_half[i] == npu_lp::narrow_fp16(npu_lp::HiF8::decode(i));
    same = same && e8m0[i] == (i == 255 ? 0x7FC0u : i << 7);  // byte 0 becomes 0, not 2^-127
  }
  EXPECT(same);
  const auto exponents =
      cast_all<fp8_e8m0_t, bfloat16_t, kTrait<RegLayout::ONE, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(all_16(), kGlobal);
  for (uint32_t i = 0; i < 65536; ++i) EXPECT(exponents[i] == (i >> 7 & 0xFF));
}

TEST(masks_of_casts) {
  Ub ub;
  std::vector<float> values(128);
  for (int i = 0; i < 128; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i) + 1.0f;
  ub.fill(values);
  EXPECT_CLEAN(ub.run<float>([](float* in, float* out) {
    RegTensor<float> a, wide;
    RegTensor<half> narrow, merged;
    Reg::LoadAlign(a, in);
    uint32_t count = 10;
    MaskReg b32 = Reg::UpdateMask<float>(count);
    MaskReg all = Reg::CreateMask<uint8_t>();
    MaskReg b16 = Reg::CreateMask<half>();
    Reg::Cast<half, float, kTrait<RegLayout::ONE, SatMode::NO_SAT, RoundMode::CAST_RINT>>(narrow, a, b32);
    Reg::StoreAlign(reinterpret_cast<half*>(out), narrow, b16);
    // Widening from the odd lanes: a mask of 32 bits has their bits clear.
    Reg::Cast<float, half, kTrait<RegLayout::ONE, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(wide, narrow, b32);
    Reg::StoreAlign(out + 64, wide, all);
    Reg::Cast<float, half, kTrait<RegLayout::ONE, SatMode::UNKNOWN, RoundMode::UNKNOWN>>(wide, narrow, b16);
    Reg::StoreAlign(out + 128, wide, all);
    Reg::Duplicate(merged, half(7.0f));
    Reg::Cast<half, float, kTrait<RegLayout::ZERO, SatMode::NO_SAT, RoundMode::CAST_RINT, MaskMergeMode::MERGING>>(
        merged, a, b32);
    Reg::StoreAlign(reinterpret_cast<half*>(out + 192), merged, b16);
  }));
  for (uint32_t i = 0; i < 64; ++i) {
    const float kept = i < 10 ? values[i] : 0.0f;
    EXPECT(npu_lp::widen_fp16(ub.result<uint16_t>(2 * i + 1)) == kept && ub.result<uint16_t>(2 * i) == 0);
    EXPECT(ub.result<float>(64 + i) == 0.0f);
    EXPECT(ub.result<float>(128 + i) == kept);
    EXPECT(npu_lp::widen_fp16(ub.result<uint16_t>(384 + 2 * i)) == (i < 10 ? values[i] : 7.0f));
    EXPECT(npu_lp::widen_fp16(ub.result<uint16_t>(384 + 2 * i + 1)) == 7.0f);
  }
}

TEST(only_pairs_that_exist) {
  static_assert(!cast_pair<fp8_e4m3fn_t, half>().legal && !cast_pair<fp8_e5m2_t, bfloat16_t>().legal);
  static_assert(!cast_pair<fp4x2_e2m1_t, half>().legal && !cast_pair<fp4x2_e1m2_t, float>().legal);
  static_assert(!cast_pair<half, fp8_e4m3fn_t>().legal && !cast_pair<float, fp4x2_e2m1_t>().legal);
  static_assert(!cast_pair<uint16_t, half>().legal && !cast_pair<float, float>().legal);
  static_assert(cast_pair<fp8_e4m3fn_t, float>().roundings == rounding_bit(RoundMode::CAST_RINT));
  static_assert(cast_pair<hifloat8_t, float>().roundings == rounding_bit(RoundMode::CAST_ROUND));
  static_assert(cast_cycles<fp8_e4m3fn_t, float>() == 2 && cast_cycles<half, float>() == 1);
  static_assert(cast_cycles<fp4x2_e2m1_t, bfloat16_t>() == 2 && cast_cycles<int32_t, float>() == 2);
}

TEST(truncate) {
  Ub ub;
  std::vector<float> values = {0.5f,   1.5f,       2.5f,  -0.5f, -1.5f, 2.75f,
                               -2.75f, 8388607.5f, 1e30f, -0.0f, 0.25f, INFINITY};
  ub.fill(values);
  EXPECT_CLEAN(ub.run<float>([](float* in, float* out) {
    RegTensor<float> a, b;
    MaskReg all = Reg::CreateMask<float>();
    Reg::LoadAlign(a, in);
    Reg::Truncate<float, RoundMode::CAST_RINT>(b, a, all);
    Reg::StoreAlign(out, b, all);
    Reg::Truncate<float, RoundMode::CAST_FLOOR>(b, a, all);
    Reg::StoreAlign(out + 64, b, all);
    Reg::Truncate<float, RoundMode::CAST_ROUND>(b, a, all);
    Reg::StoreAlign(out + 128, b, all);
    Reg::Truncate<float, RoundMode::CAST_CEIL>(b, a, all);
    Reg::StoreAlign(out + 192, b, all);
    Reg::Truncate<float, RoundMode::CAST_TRUNC>(b, a, all);
    Reg::StoreAlign(out + 256, b, all);
  }));
  for (uint32_t i = 0; i < values.size(); ++i) {
    EXPECT(bits_of(ub.result<float>(i)) == bits_of(std::nearbyint(values[i])));
    EXPECT(ub.result<float>(64 + i) == std::floor(values[i]));
    EXPECT(ub.result<float>(128 + i) == std::round(values[i]));
    EXPECT(ub.result<float>(192 + i) == std::ceil(values[i]));
    EXPECT(bits_of(ub.result<float>(256 + i)) == bits_of(std::trunc(values[i])));
  }
}

int main() {
  return check::run_all();
}
