// Masks, arithmetic, comparisons, data movement and reductions of the register API, and what is undefined in them.
#include "reg_kernels.h"

using Reg::HighLowPart;
using Reg::MaskMergeMode;
using Reg::MaskPattern;
using Reg::MaskReg;
using Reg::RegTensor;

// Bits of a mask as bytes.
static void keep(uint8_t* out, MaskReg& mask) {
  RegTensor<uint8_t> one;
  MaskReg all = Reg::CreateMask<uint8_t>();
  Reg::Duplicate(one, uint8_t{1}, mask);
  Reg::StoreAlign(out, one, all);
}

TEST(mask_patterns) {
  Ub ub;
  EXPECT_CLEAN(ub.run<uint8_t>([](uint8_t*, uint8_t* out) {
    MaskReg mask = Reg::CreateMask<uint16_t, MaskPattern::VL3>();
    keep(out, mask);
    mask = Reg::CreateMask<float, MaskPattern::H>();
    keep(out + 256, mask);
    mask = Reg::CreateMask<uint8_t, MaskPattern::M3>();
    keep(out + 512, mask);
    uint32_t count = 130;
    mask = Reg::UpdateMask<half>(count);
    EXPECT(count == 2);
    mask = Reg::UpdateMask<half>(count);
    EXPECT(count == 0);
    keep(out + 768, mask);
    mask = Reg::UpdateMask<half>(count);
    EXPECT(count == 0);
    keep(out + 1024, mask);
    mask = Reg::CreateMask<float, MaskPattern::Q>();
    keep(out + 1280, mask);
  }));
  for (uint32_t i = 0; i < 256; ++i) {
    EXPECT(ub.out[i] == (i % 2 == 0 && i / 2 < 3));
    EXPECT(ub.out[256 + i] == (i % 4 == 0 && i / 4 < 32));
    EXPECT(ub.out[512 + i] == (i % 3 == 0));
    EXPECT(ub.out[768 + i] == (i % 2 == 0 && i / 2 < 2));
    EXPECT(ub.out[1024 + i] == 0);
    EXPECT(ub.out[1280 + i] == (i % 4 == 0 && i / 4 < 16));
  }
}

TEST(mask_logic) {
  Ub ub;
  EXPECT_CLEAN(ub.run<uint8_t>([](uint8_t*, uint8_t* out) {
    MaskReg b16 = Reg::CreateMask<uint16_t>(), b32 = Reg::CreateMask<uint32_t>(), all = Reg::CreateMask<uint8_t>();
    MaskReg result, other;
    Reg::Not(result, b32, b16);
    keep(out, result);
    Reg::And(result, b16, b32, all);
    keep(out + 256, result);
    Reg::Xor(result, b16, all, all);
    keep(out + 512, result);
    Reg::Pack<HighLowPart::HIGHEST>(result, b32);
    keep(out + 768, result);
    Reg::UnPack(result, b16);
    keep(out + 1024, result);
    Reg::Interleave<uint16_t>(result, other, b16, b32);
    keep(out + 1280, result);
    Reg::DeInterleave<uint16_t>(result, other, b32, b16);
    keep(out + 1536, result);
    keep(out + 1792, other);
  }));
  for (uint32_t i = 0; i < 256; ++i) {
    EXPECT(ub.out[i] == (i % 4 == 2));
    EXPECT(ub.out[256 + i] == (i % 4 == 0));
    EXPECT(ub.out[512 + i] == (i % 2 == 1));
    EXPECT(ub.out[768 + i] == (i >= 128 && i % 2 == 0));
    EXPECT(ub.out[1024 + i] == (i % 4 == 0));
    EXPECT(ub.out[1280 + i] == (i % 2 == 0 && (i / 2 % 2 == 0 || i / 4 % 2 == 0)));
    EXPECT(ub.out[1536 + i] == (i % 2 == 0));
    EXPECT(ub.out[1792 + i] == (i >= 128 && i % 2 == 0));
  }
}

// op(dst, a, b, mask) on the first two registers; 5 lanes are masked out.
template <typename T, typename OP, typename F>
static void expect_binary(const std::vector<T>& a, const std::vector<T>& b, OP op, F expected) {
  Ub ub;
  std::memcpy(ub.in.data(), a.data(), 256);
  std::memcpy(ub.in.data() + 256, b.data(), 256);
  constexpr uint32_t n = 256 / sizeof(T);
  EXPECT_CLEAN(ub.run<T>([&](T* in, T* out) {
    RegTensor<T> x, y, z;
    uint32_t count = n - 5;
    MaskReg mask = Reg::UpdateMask<T>(count), all = Reg::CreateMask<T>();
    Reg::LoadAlign(x, in);
    Reg::LoadAlign(y, in + n);
    op(z, x, y, mask);
    Reg::StoreAlign(out, z, all);
  }));
  int wrong = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const T want = i < n - 5 ? T(expected(a[i], b[i])) : T{};
    T got = ub.result<T>(i);
    const bool same = std::memcmp(&got, &want, sizeof(T)) == 0;
    if (!same && ++wrong < 4) std::printf("lane %u: %g, want %g\n", i, double(got), double(want));
  }
  EXPECT(wrong == 0);
}

template <typename T>
static std::vector<T> random_values(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> values(256 / sizeof(T));
  for (T& value : values) {
    if constexpr (std::is_integral_v<T>)
      value = static_cast<T>(random());
    else
      value = T(std::ldexp(static_cast<float>(random()) / 4e9f - 0.5f, static_cast<int>(random() % 20) - 10));
  }
  return values;
}
static std::vector<float> specials(bool second) {
  const std::vector<float> list = {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 3e38f};
  std::vector<float> values(64);
  for (size_t i = 0; i < 64; ++i) values[i] = list[second ? i % 8 : i / 8];
  return values;
}
static float clean(float value) {
  return npu_lp::canonical(value);
}
static float larger(float a, float b) {
  if (a != a || b != b) return float_of(npu_lp::kCanonicalNaN);
  if (a == b) return std::signbit(a) ? b : a;  // +0 beats -0
  return a > b ? a : b;
}
static float smaller(float a, float b) {
  if (a != a || b != b) return float_of(npu_lp::kCanonicalNaN);
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

#define OP(NAME) [](auto& z, auto& x, auto& y, MaskReg& m) { Reg::NAME(z, x, y, m); }
TEST(float_arithmetic) {
  for (int special = 0; special < 2; ++special) {
    const auto a = special ? specials(false) : random_values<float>(1);
    const auto b = special ? specials(true) : random_values<float>(2);
    expect_binary<float>(a, b, OP(Add), [](float x, float y) { return clean(x + y); });
    expect_binary<float>(a, b, OP(Sub), [](float x, float y) { return clean(x - y); });
    expect_binary<float>(a, b, OP(Mul), [](float x, float y) { return clean(x * y); });
    expect_binary<float>(a, b, OP(Div), [](float x, float y) { return clean(x / y); });
    expect_binary<float>(a, b, OP(Max), larger);
    expect_binary<float>(a, b, OP(Min), smaller);
  }
  const auto h = random_values<half>(3), g = random_values<half>(4);
  expect_binary<half>(h, g, OP(Mul), [](half x, half y) { return half(float(x) * float(y)); });
  expect_binary<half>(h, g, OP(Add), [](half x, half y) { return half(float(x) + float(y)); });
  const auto c = random_values<bfloat16_t>(5), d = random_values<bfloat16_t>(6);
  expect_binary<bfloat16_t>(c, d, OP(Mul), [](bfloat16_t x, bfloat16_t y) { return bfloat16_t(float(x) * float(y)); });
  expect_binary<bfloat16_t>(c, d, OP(Max), [](bfloat16_t x, bfloat16_t y) { return float(x) > float(y) ? x : y; });
}

template <typename T>
static void expect_integer_arithmetic() {
  const auto a = random_values<T>(1), b = random_values<T>(2);
  using U = std::make_unsigned_t<T>;
  expect_binary<T>(a, b, OP(Add),
                   [](T x, T y) { return static_cast<T>(static_cast<U>(static_cast<U>(x) + static_cast<U>(y))); });
  expect_binary<T>(a, b, OP(Sub),
                   [](T x, T y) { return static_cast<T>(static_cast<U>(static_cast<U>(x) - static_cast<U>(y))); });
  expect_binary<T>(a, b, OP(Max), [](T x, T y) { return std::max(x, y); });
  expect_binary<T>(a, b, OP(Min), [](T x, T y) { return std::min(x, y); });
  expect_binary<T>(a, b, OP(And), [](T x, T y) { return static_cast<T>(x & y); });
  expect_binary<T>(a, b, OP(Or), [](T x, T y) { return static_cast<T>(x | y); });
  expect_binary<T>(a, b, OP(Xor), [](T x, T y) { return static_cast<T>(x ^ y); });
  for (const int16_t by : {0, 1, 7, 40}) {
    const bool out_of_range = by >= static_cast<int>(8 * sizeof(T));
    expect_binary<T>(
        a, b, [by](auto& z, auto& x, auto&, MaskReg& m) { Reg::ShiftRights(z, x, by, m); },
        [&](T x, T) { return out_of_range ? static_cast<T>(x < 0 ? -1 : 0) : static_cast<T>(x >> by); });
    expect_binary<T>(
        a, b, [by](auto& z, auto& x, auto&, MaskReg& m) { Reg::ShiftLefts(z, x, by, m); },
        [&](T x, T) { return out_of_range ? T{0} : static_cast<T>(static_cast<uint64_t>(x) << by); });
  }
  expect_binary<T>(
      a, b, [](auto& z, auto& x, auto&, MaskReg& m) { Reg::Adds(z, x, T(3), m); },
      [](T x, T) { return static_cast<T>(static_cast<U>(static_cast<U>(x) + 3u)); });
  expect_binary<T>(
      a, b, [](auto& z, auto& x, auto&, MaskReg& m) { Reg::Maxs(z, x, T(3), m); },
      [](T x, T) { return std::max(x, T(3)); });
}
TEST(integer_arithmetic) {
  expect_integer_arithmetic<uint8_t>();
  expect_integer_arithmetic<int8_t>();
  expect_integer_arithmetic<uint16_t>();
  expect_integer_arithmetic<int16_t>();
  expect_integer_arithmetic<uint32_t>();
  expect_integer_arithmetic<int32_t>();
  const auto a = random_values<int32_t>(1), b = random_values<int32_t>(2);
  expect_binary<int32_t>(a, b, OP(Mul), [](int32_t x, int32_t y) {
    return static_cast<int32_t>(static_cast<uint32_t>(x) * static_cast<uint32_t>(y));
  });
  expect_binary<int32_t>(
      a, b, [](auto& z, auto& x, auto&, MaskReg& m) { Reg::Abs(z, x, m); },
      [](int32_t x, int32_t) { return std::abs(x); });
}

TEST(unary_and_scalar_floats) {
  const auto a = specials(false), r = random_values<float>(7);
  static constexpr Reg::DivSpecificMode precise = {MaskMergeMode::ZEROING, true};
  expect_binary<float>(
      a, a, [](auto& z, auto& x, auto&, MaskReg& m) { Reg::Abs(z, x, m); },
      [](float x, float) { return float_of(bits_of(x) & 0x7FFFFFFFu); });
  expect_binary<float>(
      r, r, [](auto& z, auto& x, auto&, MaskReg& m) { Reg::Muls(z, x, 3.0f, m); },
      [](float x, float) { return x * 3.0f; });
  expect_binary<float>(
      r, r, [](auto& z, auto& x, auto&, MaskReg& m) { Reg::Exp(z, x, m); }, [](float x, float) { return std::exp(x); });
  expect_binary<float>(
      r, a, [](auto& z, auto& x, auto& y, MaskReg& m) { Reg::Div<float, &precise>(z, x, y, m); },
      [](float x, float y) { return clean(x / y); });
  expect_binary<float>(
      r, r, [](auto& z, auto& x, auto&, MaskReg& m) { Reg::Neg(z, x, m); }, [](float x, float) { return -x; });
}

TEST(merging_keeps_the_rest) {
  Ub ub;
  EXPECT_CLEAN(ub.run<uint16_t>([](uint16_t* in, uint16_t* out) {
    RegTensor<uint16_t> a, b, c;
    MaskReg some = Reg::CreateMask<uint16_t, MaskPattern::VL4>(), all = Reg::CreateMask<uint16_t>();
    Reg::LoadAlign(a, in);
    Reg::LoadAlign(b, in + 128);
    c = b;
    Reg::Max<uint16_t, MaskMergeMode::MERGING>(c, a, b, some);
    Reg::StoreAlign(out, c, all);
    Reg::Move(b, a, some);
    Reg::StoreAlign(out + 128, b, all);
    Reg::Duplicate<uint16_t, Reg::HighLowPart::LOWEST, MaskMergeMode::MERGING>(b, a, some);
    Reg::StoreAlign(out + 256, b, all);
  }));
  for (uint32_t i = 0; i < 128; ++i) {
    const uint16_t a = ub.input<uint16_t>(i), b = ub.input<uint16_t>(128 + i);
    EXPECT(ub.result<uint16_t>(i) == (i < 4 ? std::max(a, b) : b));
    EXPECT(ub.result<uint16_t>(128 + i) == (i < 4 ? a : b));
    EXPECT(ub.result<uint16_t>(256 + i) == (i < 4 ? ub.input<uint16_t>(0) : b));
  }
}

TEST(compare_and_select) {
  Ub ub;
  const auto a = specials(false), b = specials(true);
  std::memcpy(ub.in.data(), a.data(), 256);
  std::memcpy(ub.in.data() + 256, b.data(), 256);
  EXPECT_CLEAN(ub.run<float>([](float* in, float* out) {
    RegTensor<float> x, y, z;
    MaskReg all = Reg::CreateMask<float>(), half_of = Reg::CreateMask<float, MaskPattern::H>(), found;
    Reg::LoadAlign(x, in);
    Reg::LoadAlign(y, in + 64);
    uint8_t* bytes = reinterpret_cast<uint8_t*>(out);
    Reg::Compare<float, CMPMODE::LT>(found, x, y, all);
    keep(bytes, found);
    Reg::Compare<float, CMPMODE::NE>(found, x, y, half_of);
    keep(bytes + 256, found);
    Reg::Select(z, x, y, found);
    Reg::StoreAlign(out + 128, z, all);
    Reg::Compares<float, CMPMODE::GE>(found, x, 1.0f, all);
    keep(bytes + 768, found);
  }));
  for (uint32_t i = 0; i < 64; ++i) {
    const bool different = i < 32 && a[i] != b[i];
    EXPECT(ub.out[4 * i] == (a[i] < b[i]) && ub.out[4 * i + 1] == 0);
    EXPECT(ub.out[256 + 4 * i] == different);
    EXPECT(bits_of(ub.result<float>(128 + i)) == bits_of(different ? a[i] : b[i]));
    EXPECT(ub.out[768 + 4 * i] == (a[i] >= 1.0f));
  }
}

TEST(lanes_move) {
  Ub ub;
  EXPECT_CLEAN(ub.run<uint16_t>([](uint16_t* in, uint16_t* out) {
    RegTensor<uint16_t> a, b;
    RegTensor<uint8_t> packed;
    RegTensor<int16_t> small;
    RegTensor<int32_t> wide;
    MaskReg all = Reg::CreateMask<uint8_t>();
    Reg::LoadAlign(a, in);
    Reg::LoadAlign(b, in + 128);
    Reg::Interleave(a, b, a, b);
    Reg::StoreAlign(out, a, all);
    Reg::StoreAlign(out + 128, b, all);
    Reg::DeInterleave(a, b, a, b);
    Reg::StoreAlign(out + 256, a, all);
    Reg::StoreAlign(out + 384, b, all);
    Reg::Pack<uint8_t, uint16_t, HighLowPart::HIGHEST>(packed, a);
    Reg::StoreAlign(reinterpret_cast<uint8_t*>(out + 512), packed, all);
    Reg::Pack(packed, a);
    Reg::StoreAlign(reinterpret_cast<uint8_t*>(out + 640), packed, all);
    Reg::UnPack<int32_t, int16_t, HighLowPart::HIGHEST>(wide, (RegTensor<int16_t>&)b);
    Reg::StoreAlign(reinterpret_cast<int32_t*>(out + 768), wide, all);
  }));
  for (uint32_t i = 0; i < 256; ++i) EXPECT(ub.result<uint16_t>(i) == ub.input<uint16_t>(i / 2 + i % 2 * 128));
  EXPECT(std::memcmp(ub.out.data() + 512, ub.in.data(), 512) == 0);
  for (uint32_t i = 0; i < 128; ++i) {
    EXPECT(ub.out[1024 + i] == 0 && ub.out[1024 + 128 + i] == ub.in[2 * i]);
    EXPECT(ub.out[1280 + i] == ub.in[2 * i] && ub.out[1280 + 128 + i] == 0);
    if (i < 64) EXPECT(ub.result<int32_t>(384 + i) == ub.input<int16_t>(128 + 64 + i));
  }
}

template <typename T>
void expect_gather() {
  constexpr uint32_t kCount = 256 / sizeof(T);
  Ub ub;
  ub.in_defined[5] = 0;    // of the elements
  ub.in_defined[259] = 0;  // of the indices
  EXPECT_CLEAN(ub.run<T>([](T* in, T* out) {
    RegTensor<T> elements, indices;
    MaskReg all = Reg::CreateMask<T>();
    Reg::LoadAlign(elements, in);
    Reg::LoadAlign(indices, in + kCount);
    Reg::Gather(elements, elements, indices);
    Reg::StoreAlign(out, elements, all);
  }));
  for (uint32_t i = 0; i < kCount; ++i) {
    const T index = ub.input<T>(kCount + i) % kCount;  // beyond the register: from its start again
    EXPECT(ub.result<T>(i) == ub.input<T>(index));
    uint32_t known = 0;
    for (uint32_t b = 0; b < sizeof(T); ++b) known += ub.out_defined[i * sizeof(T) + b];
    if (i == 3 / sizeof(T)) EXPECT(known == 0);
    if (i != 3 / sizeof(T)) EXPECT((known == sizeof(T)) == (index != 5 / sizeof(T)));
  }
}
TEST(gather) {
  expect_gather<uint8_t>();
  expect_gather<uint16_t>();
  expect_gather<uint32_t>();
}

TEST(reductions) {
  Ub ub;
  std::vector<float> values = random_values<float>(9);
  values[40] = values[20] = 1000.0f;
  std::memcpy(ub.in.data(), values.data(), 256);
  EXPECT_CLEAN(ub.run<float>([](float* in, float* out) {
    RegTensor<float> a, b;
    RegTensor<uint16_t> c, d;
    MaskReg all = Reg::CreateMask<float>(), first = Reg::CreateMask<float, MaskPattern::VL16>(),
            b16 = Reg::CreateMask<uint16_t>();
    MaskReg none = Reg::CreateMask<float, MaskPattern::ALLF>();
    Reg::LoadAlign(a, in);
    Reg::Reduce<Reg::ReduceType::MAX>(b, a, all);
    Reg::StoreAlign(out, b, all);
    Reg::Reduce<Reg::ReduceType::SUM>(b, a, first);
    Reg::StoreAlign(out + 64, b, all);
    Reg::ReduceDataBlock<Reg::ReduceType::MIN>(b, a, all);
    Reg::StoreAlign(out + 128, b, all);
    Reg::Reduce<Reg::ReduceType::MAX>(b, a, none);
    Reg::StoreAlign(out + 192, b, all);
    Reg::LoadAlign(c, reinterpret_cast<uint16_t*>(in) + 256);
    Reg::ReduceDataBlock<Reg::ReduceType::MAX>(d, c, b16);
    Reg::StoreAlign(reinterpret_cast<uint16_t*>(out) + 512, d, b16);
    Reg::ReduceDataBlock<Reg::ReduceType::MAX>(c, c, all);  // even lanes only
    Reg::StoreAlign(reinterpret_cast<uint16_t*>(out) + 640, c, b16);
  }));
  EXPECT(ub.result<float>(0) == 1000.0f && ub.result<uint32_t>(1) == 20 && ub.result<uint32_t>(2) == 0);
  std::vector<float> sums(values.begin(), values.begin() + 16);
  for (size_t n = 16; n > 1; n /= 2) {
    for (size_t i = 0; i < n / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  }
  EXPECT(ub.result<float>(64) == sums[0] && ub.result<float>(65) == 0.0f);
  EXPECT(ub.result<float>(192) == std::numeric_limits<float>::lowest());
  for (uint32_t block = 0; block < 8; ++block) {
    EXPECT(ub.result<float>(128 + block) ==
           *std::min_element(values.begin() + block * 8, values.begin() + block * 8 + 8));
    uint16_t most = 0, even = 0;
    for (uint32_t i = 0; i < 16; ++i) {
      most = std::max(most, ub.input<uint16_t>(256 + block * 16 + i));
      if (i % 2 == 0) even = std::max(even, ub.input<uint16_t>(256 + block * 16 + i));
    }
    EXPECT(ub.result<uint16_t>(512 + block) == most && ub.result<uint16_t>(640 + block) == even);
  }
  EXPECT(ub.result<float>(128 + 8) == 0.0f && ub.result<uint16_t>(520) == 0);
}

TEST(what_is_undefined_stays_undefined) {
  Ub ub;
  ub.in_defined[9] = 0;  // lane 2 of 32 bits, lane 4 of 16
  EXPECT_CLEAN(ub.run<float>([](float* in, float* out) {
    RegTensor<float> a, b, c, never;
    MaskReg all = Reg::CreateMask<float>(), found, first = Reg::CreateMask<float, MaskPattern::VL2>();
    Reg::LoadAlign(a, in);
    Reg::LoadAlign(b, in + 64);
    Reg::Add(c, a, b, all);
    Reg::StoreAlign(out, c, all);
    Reg::Add(c, a, b, first);  // lane 2 is masked out: a defined zero
    Reg::StoreAlign(out + 64, c, all);
    Reg::Compare<float, CMPMODE::GT>(found, a, b, all);
    Reg::Select(c, b, b, found);
    Reg::StoreAlign(out + 128, c, all);
    Reg::StoreAlign(out + 192, b, found);  // perhaps stored
    Reg::Reduce<Reg::ReduceType::MAX>(c, a, all);
    Reg::StoreAlign(out + 256, c, all);
    Reg::Reduce<Reg::ReduceType::MAX>(c, a, first);
    Reg::StoreAlign(out + 320, c, all);
    Reg::ReduceDataBlock<Reg::ReduceType::MAX>(c, a, all);
    Reg::StoreAlign(out + 384, c, all);
    Reg::Mul(c, never, b, all);
    Reg::StoreAlign(out + 448, c, all);
    Reg::Interleave(c, b, a, b);
    Reg::StoreAlign(out + 512, c, all);
  }));
  const auto undefined = [&](uint32_t reg) {
    std::vector<uint32_t> lanes;
    for (uint32_t i = 0; i < 64; ++i) {
      int known = 0;
      for (uint32_t b = 0; b < 4; ++b) known += ub.out_defined[reg * 256 + i * 4 + b];
      if (known < 4) lanes.push_back(i);
    }
    return lanes;
  };
  using Lanes = std::vector<uint32_t>;
  EXPECT(undefined(0) == Lanes{2} && undefined(1).empty() && undefined(2) == Lanes{2});
  const Lanes perhaps = undefined(3);
  EXPECT(std::find(perhaps.begin(), perhaps.end(), 2u) != perhaps.end());
  EXPECT((undefined(4) == Lanes{0, 1}) && undefined(5).empty() && undefined(6) == Lanes{0});
  EXPECT(undefined(7).size() == 64 && undefined(8) == Lanes{4});
}

int main() {
  return check::run_all();
}
