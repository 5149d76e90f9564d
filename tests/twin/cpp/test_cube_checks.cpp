// Every check of the cube side, one fault a kernel; then Fixpipe's arithmetic, records, and speed.

#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <vector>

#include "check.h"
#include "twin/cube.h"
#include "twin/sync.h"

using namespace AscendC;
using npu_lp::float_of;
using npu_lp::twin::Check;
using npu_lp::twin::CoreKind;
using npu_lp::twin::GmRange;
using npu_lp::twin::LaunchRecord;
using npu_lp::twin::Op;
using npu_lp::twin::Options;
using npu_lp::twin::Pipe;
using npu_lp::twin::Record;
using npu_lp::twin::Space;

namespace {

using Fp8 = fp8_e4m3fn_t;
using Fp4 = fp4x2_e2m1_t;

std::vector<uint8_t> source(64 * 1024, 0x38);  // 1.0 in e4m3
constexpr uint32_t kTargetBytes = 256 * 1024;
alignas(64) float target[kTargetBytes / 4];
const std::vector<GmRange> kGm = {{source.data(), source.size()}, {target, kTargetBytes}};

#define EXPECT_REPORT(wanted, words, ...) \
  check::expect_report(CoreKind::kCube, Check::wanted, words, kGm, __VA_ARGS__, __FILE__, __LINE__)

void expect_clean(const std::function<void()>& body, int line) {
  try {
    npu_lp::twin::launch("test", CoreKind::kCube, 1, {}, kGm, body);
  } catch (const std::exception& error) {
    ++check::failures;
    std::printf("%s:%d: %s\n", __FILE__, line, error.what());
  }
}
#define EXPECT_CLEAN(...) expect_clean(__VA_ARGS__, __LINE__)

template <typename T>
GlobalTensor<T> from() {
  GlobalTensor<T> gm;
  gm.SetGlobalBuffer(reinterpret_cast<T*>(source.data()), npu_lp::twin::elements_of<T>(source.size()));
  return gm;
}
template <typename T>
GlobalTensor<T> to() {
  GlobalTensor<T> gm;
  gm.SetGlobalBuffer(reinterpret_cast<T*>(target), kTargetBytes / sizeof(T));
  return gm;
}

LocalTensor<Fp8> l1(uint32_t bytes = 64 * 1024, uint32_t begin = 0) {
  return LocalTensor<Fp8>(TPosition::A1, begin, bytes);
}
template <typename T = Fp8>
LocalTensor<T> l0a(uint32_t begin = 0) {
  return LocalTensor<T>(TPosition::A2, begin, npu_lp::twin::elements_of<T>(32 * 1024 - begin));
}
template <typename T = Fp8>
LocalTensor<T> l0b(uint32_t begin = 0) {
  return LocalTensor<T>(TPosition::B2, begin, npu_lp::twin::elements_of<T>(32 * 1024 - begin));
}
LocalTensor<float> l0c(uint32_t begin = 0) {
  return LocalTensor<float>(TPosition::CO1, begin, 64 * 1024 - begin / 4);
}
MmadParams product(uint16_t m, uint16_t n, uint16_t k) {
  MmadParams params;
  params.m = m;
  params.n = n;
  params.k = k;
  params.disableGemv = true;
  return params;
}

// L0A, L0B and scales full of ones, L0C too on request; everything complete.
void prepare() {
  LocalTensor<uint16_t> all(TPosition::A1, 0, 32 * 1024);
  Fill(all, InitConstValueParams<uint16_t>(1, 1024, 0, 0x3838));
  LocalTensor<uint16_t> scales(TPosition::A1, 64 * 1024, 1024);
  Fill(scales, InitConstValueParams<uint16_t>(1, 64, 0, 0x7F7F));
  PipeBarrier<PIPE_ALL>();
  const LoadData2DParamsV2 data(0, 0, 16, 4, 16, 16, false, 0);
  const LoadData2DMxParams mx(0, 0, 16, 2, 2, 2);
  LoadData(l0a(), l1(), scales.ReinterpretCast<fp8_e8m0_t>(), data, mx);
  LoadData(l0b(), l1(), scales.ReinterpretCast<fp8_e8m0_t>(), data, mx);
  PipeBarrier<PIPE_ALL>();
}
// 64 x 64 of L0C become `value`.
void prepare_results(float value) {
  prepare();
  MmadMx(l0c(), l0a(), l0b(), product(64, 64, 64));
  PipeBarrier<PIPE_ALL>();
  for (uint32_t i = 0; i < 64 * 64; ++i) {
    std::memcpy(npu_lp::twin::this_core().memory(Space::kL0C) + i * 4, &value, 4);
  }
}

TEST(nd2nz_checks) {
  const auto copy = [](Nd2NzParams params, uint32_t l1_bytes = 64 * 1024) {
    return [=] { DataCopy(l1(l1_bytes), from<Fp8>(), params); };
  };
  EXPECT_CLEAN(copy({1, 16, 32, 0, 64, 16, 1, 0}));
  EXPECT_CLEAN(copy({0, 16, 32, 0, 64, 16, 1, 0}));
  EXPECT_REPORT(kParameter, "ndNum = 4096", copy({4096, 16, 32, 0, 64, 16, 1, 0}));
  EXPECT_REPORT(kParameter, "nValue = 16385", copy({1, 16385, 32, 0, 64, 16, 1, 0}));
  EXPECT_REPORT(kParameter, "dValue = 65536", copy({1, 16, 65536, 0, 65536, 16, 1, 0}));
  EXPECT_REPORT(kParameter, "srcDValue", copy({1, 16, 32, 0, 0, 16, 1, 0}));
  EXPECT_REPORT(kParameter, "dstNzC0Stride", copy({1, 16, 32, 0, 64, 0, 1, 0}));
  EXPECT_REPORT(kParameter, "dstNzNStride", copy({1, 16, 32, 0, 64, 16, 0, 0}));
  EXPECT_REPORT(kParameter, "dstNzMatrixStride = 100", copy({2, 16, 32, 0, 64, 16, 1, 100}));
  EXPECT_REPORT(kBounds, "the tensor is 0 to 511", copy({1, 16, 32, 0, 64, 16, 1, 0}, 511));
  EXPECT_REPORT(kBounds, "", copy({1, 1024, 64, 0, 65, 1024, 1, 0}));  // past the end of GM
  EXPECT_REPORT(kParameter, "is in L0A", [] { DataCopy(l0a(), from<Fp8>(), Nd2NzParams(1, 16, 32, 0, 64, 16, 1, 0)); });
  check::expect_report(CoreKind::kVector, Check::kParameter, "cube core", kGm, copy({1, 16, 32, 0, 64, 16, 1, 0}),
                       __FILE__, __LINE__);
}

TEST(dn2nz_checks) {
  const auto copy = [](Dn2NzParams params) {
    return [=] { DataCopy(l1().ReinterpretCast<half>(), from<half>(), params); };
  };
  EXPECT_CLEAN(copy({1, 4, 16, 0, 4, 4, 1, 0}));
  EXPECT_REPORT(kParameter, "dnNum = 4096", copy({4096, 4, 16, 0, 4, 4, 1, 0}));
  EXPECT_REPORT(kParameter, "dstNzC0Stride", copy({1, 4, 16, 0, 4, 0, 1, 0}));
  EXPECT_REPORT(kBounds, "GM", copy({1, 4, 16, 0, 4000, 4, 1, 0}));
}

TEST(fill_checks) {
  const auto fill = [](InitConstValueParams<uint16_t> params, uint32_t bytes = 4096) {
    return [=] { Fill(l1(bytes).ReinterpretCast<uint16_t>(), params); };
  };
  EXPECT_CLEAN(fill({2, 4, 4, 0}));
  EXPECT_CLEAN(fill({0, 4, 4, 0}));
  EXPECT_REPORT(kParameter, "repeatTimes = 40000", fill({40000, 4, 4, 0}));
  EXPECT_REPORT(kParameter, "blockNum = 40000", fill({1, 40000, 4, 0}));
  EXPECT_REPORT(kBounds, "Fill", fill({2, 64, 64, 0}, 4096));
  EXPECT_REPORT(kParameter, "is in L0A",
                [] { Fill(l0a().ReinterpretCast<uint16_t>(), InitConstValueParams<uint16_t>(1, 1, 0, 0)); });
}

TEST(load_checks) {
  const auto load = [](LoadData2DParamsV2 params, uint32_t begin = 0) {
    return [=] { LoadData(l0a(begin), l1(), params); };
  };
  EXPECT_CLEAN(load({0, 0, 4, 2, 4, 4, false, 0}));
  EXPECT_CLEAN(load({0, 0, 4, 2, 4, 4, true, 0}));
  EXPECT_CLEAN(load({0, 0, 4, 0, 4, 4, true, 0}));
  EXPECT_REPORT(kParameter, "mStep (16 rows) = 256", load({0, 0, 256, 1, 4, 256, false, 0}));
  EXPECT_REPORT(kParameter, "kStep (32 bytes) = 256", load({0, 0, 1, 256, 1, 1, false, 0}));
  EXPECT_REPORT(kParameter, "multiple of 2", load({0, 0, 3, 2, 4, 4, true, 0}));
  EXPECT_REPORT(kParameter, "overlap", load({0, 0, 4, 2, 4, 3, false, 0}));
  EXPECT_REPORT(kParameter, "overlap", load({0, 0, 4, 3, 4, 4, true, 0}));
  EXPECT_REPORT(kBounds, "the source", load({0, 60, 4, 8, 4, 4, false, 0}));
  EXPECT_REPORT(kBounds, "the destination", load({0, 0, 4, 4, 4, 4, false, 0}, 31 * 1024));
  EXPECT_REPORT(kAlignment, "", load({0, 0, 4, 2, 4, 4, false, 0}, 256));
  EXPECT_REPORT(kParameter, "the source is in L0B", [] { LoadData(l0a(), l0b(), LoadData2DParamsV2()); });
  EXPECT_REPORT(kParameter, "multiple of 4", [] {
    LoadData(l0a<Fp4>(), l1().ReinterpretCast<Fp4>(), LoadData2DParamsV2(0, 0, 2, 1, 4, 4, true, 0));
  });
}

TEST(scale_load_checks) {
  const auto load = [](LoadData2DMxParams mx, uint32_t begin = 0) {
    return [=] {
      LocalTensor<fp8_e8m0_t> scales(TPosition::A1, 128 * 1024, 4096);
      LoadData(l0a(begin), l1(), scales, LoadData2DParamsV2(0, 0, 4, 2, 4, 4, false, 0), mx);
    };
  };
  EXPECT_CLEAN(load({0, 0, 4, 1, 1, 1}));
  EXPECT_CLEAN(load({0, 0, 0, 0, 0, 0}));
  EXPECT_REPORT(kParameter, "rows of scales overlap", load({0, 0, 4, 2, 2, 1}));
  EXPECT_REPORT(kBounds, "the scale tensor", load({0, 0, 4, 1, 64, 1}));
  EXPECT_REPORT(kBounds, "L0A_MX", load({0, 0, 120, 1, 1, 1}, 16 * 1024));
}

TEST(bias_checks) {
  const auto copy = [](DataCopyParams params, uint32_t begin = 0) {
    return [=] { DataCopy(LocalTensor<float>(TPosition::C2, begin, 64), l1().ReinterpretCast<float>(), params); };
  };
  EXPECT_CLEAN(copy({1, 2, 0, 0}));
  EXPECT_REPORT(kParameter, "must be even", copy({1, 3, 0, 0}));
  EXPECT_REPORT(kBounds, "the destination", copy({1, 10, 0, 0}));
  EXPECT_REPORT(kAlignment, "64", copy({1, 2, 0, 0}, 32));
}

TEST(mmad_checks) {
  const auto mmad = [](MmadParams params, uint32_t a = 0, uint32_t c = 0) {
    return [=] {
      prepare();
      MmadMx(l0c(c), l0a(a), l0b(), params);
    };
  };
  EXPECT_CLEAN(mmad(product(64, 64, 64)));
  EXPECT_CLEAN(mmad(product(64, 0, 64)));
  EXPECT_REPORT(kParameter, "m = 4096", mmad(product(4096, 64, 64)));
  EXPECT_REPORT(kParameter, "multiple of 64", mmad(product(64, 64, 96)));
  EXPECT_REPORT(kParameter, "GEMV", [=] {
    MmadParams params = product(1, 64, 64);
    params.disableGemv = false;
    mmad(params)();
  });
  EXPECT_REPORT(kParameter, "unitFlag = 1", [=] {
    MmadParams params = product(64, 64, 64);
    params.unitFlag = 1;
    mmad(params)();
  });
  EXPECT_REPORT(kAlignment, "multiple of 1024", mmad(product(64, 64, 64), 512));
  EXPECT_REPORT(kAlignment, "multiple of 1024", mmad(product(64, 64, 64), 0, 512));
  EXPECT_REPORT(kBounds, "A takes", mmad(product(1024, 64, 64)));
  EXPECT_REPORT(kBounds, "C takes", mmad(product(64, 64, 64), 0, 255 * 1024));
  EXPECT_REPORT(kParameter, "drops the bias", [] {
    prepare();
    MmadMx(l0c(), l0a(), l0b(), LocalTensor<float>(TPosition::C2, 0, 64), product(64, 64, 64));
  });
  EXPECT_REPORT(kParameter, "A is in L0B", [] { MmadMx(l0c(), l0b(), l0b(), product(64, 64, 64)); });
  // fp4 operands may start at 512.
  EXPECT_CLEAN([] { MmadMx(l0c(), l0a<Fp4>(512), l0b<Fp4>(512), product(16, 16, 64)); });
}

TEST(small_products_need_a_barrier) {
  const auto twice = [](uint16_t m, bool barrier, uint8_t unit_flag) {
    return [=] {
      prepare();
      MmadParams params = product(m, 64, 64);
      params.unitFlag = unit_flag;
      MmadMx(l0c(), l0a(), l0b(), params);
      if (barrier) PipeBarrier<PIPE_M>();
      params.cmatrixInitVal = false;
      MmadMx(l0c(), l0a(), l0b(), params);
    };
  };
  EXPECT_CLEAN(twice(48, false, 0));
  EXPECT_CLEAN(twice(32, true, 0));
  EXPECT_CLEAN(twice(32, false, 2));
  EXPECT_REPORT(kRace, "", twice(32, false, 0));
}

TEST(unit_flag_checks) {
  const auto run = [](uint8_t mmad, uint8_t fixpipe, bool again) {
    return [=] {
      prepare();
      MmadParams params = product(64, 64, 64);
      params.unitFlag = mmad;
      MmadMx(l0c(), l0a(), l0b(), params);
      FixpipeParamsArch3510<> out(64, 64, 64, 64);
      out.unitFlag = fixpipe;
      if (fixpipe != 0) Fixpipe(to<float>(), l0c(), out);
      if (again) MmadMx(l0c(), l0a(), l0b(), params);
      if (again && fixpipe != 0) Fixpipe(to<float>()[4096], l0c(), out);
    };
  };
  EXPECT_CLEAN(run(3, 3, false));
  EXPECT_CLEAN(run(3, 3, true));
  EXPECT_REPORT(kFlag, "no Mmad with unitFlag 3", run(2, 3, false));
  EXPECT_REPORT(kFlag, "no Fixpipe with unitFlag 3", run(3, 2, true));
  EXPECT_REPORT(kFlag, "left set at the end", run(3, 0, false));
  // Neither a flag nor a unit flag between Mmad and Fixpipe.
  EXPECT_REPORT(kRace, "L0C", [] {
    prepare();
    MmadMx(l0c(), l0a(), l0b(), product(64, 64, 64));
    Fixpipe(to<float>(), l0c(), FixpipeParamsArch3510<>(64, 64, 64, 64));
  });
}

TEST(fixpipe_checks) {
  const auto run = [](std::function<void(FixpipeParamsArch3510<>&)> change, uint32_t begin = 0) {
    return [=] {
      prepare_results(1.0f);
      FixpipeParamsArch3510<> params(64, 64, 64, 64);
      if (change) change(params);
      Fixpipe(to<float>(), l0c(begin), params);
    };
  };
  EXPECT_CLEAN(run(nullptr));
  EXPECT_CLEAN(run([](auto& p) { p.nSize = 50; }));
  EXPECT_CLEAN(run([](auto& p) { p.nSize = 0; }));
  EXPECT_REPORT(kParameter, "nSize = 4096", run([](auto& p) { p.nSize = 4096; }));
  EXPECT_REPORT(kParameter, "dstStride = 63", run([](auto& p) { p.dstStride = 63; }));
  EXPECT_REPORT(kParameter, "srcStride = 48", run([](auto& p) { p.srcStride = 48; }));
  EXPECT_REPORT(kParameter, "unitFlag = 1", run([](auto& p) { p.unitFlag = 1; }));
  EXPECT_REPORT(kParameter, "not modelled", run([](auto& p) { p.reluEn = true; }));
  EXPECT_REPORT(kParameter, "quantPre gives bfloat16_t", run([](auto& p) { p.quantPre = QuantMode_t::F322BF16; }));
  EXPECT_REPORT(kPoison, "deqScalar", run([](auto& p) { p.quantPre = QuantMode_t::QF322F32_PRE; }));
  EXPECT_REPORT(kPoison, "no Mmad wrote it", run([](auto& p) {
                  p.nSize = 80;
                  p.dstStride = 80;
                }));
  EXPECT_REPORT(kAlignment, "64", run(nullptr, 32));
  EXPECT_REPORT(kBounds, "", run([](auto& p) { p.dstStride = 4000; }));
  EXPECT_REPORT(kType, "SetAtomicAdd", [] {
    SetAtomicAdd<half>();
    prepare_results(1.0f);
    Fixpipe(to<float>(), l0c(), FixpipeParamsArch3510<>(64, 64, 64, 64));
  });
  EXPECT_REPORT(kParameter, "srcNzC0Stride", [] {
    prepare_results(1.0f);
    Fixpipe<float, float, CFG_COLUMN_MAJOR>(to<float>(), l0c(),
                                            FixpipeParamsArch3510<CO2Layout::COLUMN_MAJOR>(64, 64, 64, 64));
  });
}

// Undefined operands: rows and columns of C that they reach are reported, others are not.
TEST(undefined_operands_reach_only_their_results) {
  const auto run = [](uint32_t hole, uint16_t rows) {
    return [=] {
      prepare();
      npu_lp::twin::Core& core = npu_lp::twin::this_core();
      core.define({Space::kL0A, hole, 1}, false);
      MmadMx(l0c(), l0a(), l0b(), product(64, 64, 64));
      PipeBarrier<PIPE_ALL>();
      Fixpipe(to<float>(), l0c(), FixpipeParamsArch3510<>(64, rows, 64, 64));
    };
  };
  const uint32_t row_40 = 40 * 32 + 7, row_40_k_39 = 64 * 32 + 40 * 32 + 7;
  EXPECT_CLEAN(run(row_40, 40));
  EXPECT_REPORT(kPoison, "A row 40 is undefined from k = 7", run(row_40, 41));
  EXPECT_REPORT(kPoison, "A row 40 is undefined from k = 39", run(row_40_k_39, 64));
  EXPECT_REPORT(kPoison, "the scale of B column 3 for k = 32", [] {
    prepare();
    npu_lp::twin::this_core().define({Space::kL0BMX, 3 * 2 + 1, 1}, false);
    MmadMx(l0c(), l0a(), l0b(), product(64, 64, 64));
    PipeBarrier<PIPE_ALL>();
    Fixpipe(to<float>(), l0c(), FixpipeParamsArch3510<>(64, 64, 64, 64));
  });
  EXPECT_REPORT(kPoison, "row 20", [] {  // rows past m hold nothing
    prepare();
    MmadMx(l0c(), l0a(), l0b(), product(20, 64, 64));
    PipeBarrier<PIPE_ALL>();
    Fixpipe(to<float>(), l0c(), FixpipeParamsArch3510<>(64, 32, 32, 64));
  });
}

// --- Arithmetic ------------------------------------------------------------------------------------------------------

TEST(fixpipe_rounds_once_after_the_scale) {
  struct Case {
    QuantMode_t quant;
    float value, scale;
    uint32_t want;
  };
  const float above = float_of(0x3F80FFFFu);  // 1 + just less than 2 bf16 quanta
  const float infinity = std::numeric_limits<float>::infinity();
  const Case cases[] = {
      {QuantMode_t::NoQuant, above, 0, 0x3F80FFFFu},
      {QuantMode_t::NoQuant, -std::nanf("1"), 0, 0x7FC00000u},
      {QuantMode_t::F322BF16, above, 0, 0x3F81u},
      {QuantMode_t::F322BF16, float_of(0x3F808000u), 0, 0x3F80u},  // tie to even
      {QuantMode_t::F322BF16, float_of(0x3F818000u), 0, 0x3F82u},
      {QuantMode_t::F322BF16, std::nanf(""), 0, 0x7FC0u},
      {QuantMode_t::F322F16, 65519.0f, 0, 0x7BFFu},
      {QuantMode_t::F322F16, 65520.0f, 0, 0x7C00u},
      {QuantMode_t::F322F16, -infinity, 0, 0xFC00u},
      {QuantMode_t::QF322F32_PRE, 3.0f, 0.5f, 0x3FC00000u},
      {QuantMode_t::QF322F32_PRE, 1.0f, float_of(0x3F801FFFu), 0x3F800000u},  // 13 bits of the scale are dropped
      {QuantMode_t::QF322F32_PRE, 1.0f, float_of(0x3F803FFFu), 0x3F802000u},
      {QuantMode_t::QF322F16_PRE, 2048.0f, 0.25f, 0x6000u},
      {QuantMode_t::QF322BF16_PRE, 3.0f, -2.0f, 0xC0C0u},
  };
  for (const Case& c : cases) {
    std::fill(std::begin(target), std::end(target), 0.0f);
    npu_lp::twin::launch("test", CoreKind::kCube, 1, {}, kGm, [&] {
      prepare_results(c.value);
      FixpipeParamsArch3510<> params(20, 10, 64, 25);
      params.quantPre = c.quant;
      uint32_t bits;
      std::memcpy(&bits, &c.scale, 4);
      params.deqScalar = bits;
      if (c.quant == QuantMode_t::F322F16 || c.quant == QuantMode_t::QF322F16_PRE) {
        Fixpipe(to<half>(), l0c(), params);
      } else if (c.quant == QuantMode_t::F322BF16 || c.quant == QuantMode_t::QF322BF16_PRE) {
        Fixpipe(to<bfloat16_t>(), l0c(), params);
      } else {
        Fixpipe(to<float>(), l0c(), params);
      }
    });
    const bool wide = c.quant == QuantMode_t::NoQuant || c.quant == QuantMode_t::QF322F32_PRE;
    for (uint32_t row = 0; row < 10; ++row) {
      for (uint32_t column = 0; column < 25; ++column) {
        const uint32_t at = row * 25 + column;
        uint32_t got = 0;
        std::memcpy(&got, reinterpret_cast<uint8_t*>(target) + at * (wide ? 4 : 2), wide ? 4 : 2);
        EXPECT(got == (column < 20 ? c.want : 0));
      }
    }
  }
}

TEST(fixpipe_layouts) {
  const auto run = [](auto store) {
    npu_lp::twin::launch("test", CoreKind::kCube, 1, {}, kGm, [&] {
      prepare_results(0.0f);
      for (uint32_t row = 0; row < 64; ++row) {
        for (uint32_t column = 0; column < 64; ++column) {
          const float value = static_cast<float>(row * 64 + column);
          const uint32_t at = (column / 16 * 64 + row) * 16 + column % 16;
          std::memcpy(npu_lp::twin::this_core().memory(Space::kL0C) + at * 4, &value, 4);
        }
      }
      store();
    });
  };
  run([] { Fixpipe<float, float, CFG_NZ>(to<float>(), l0c(), FixpipeParamsArch3510<CO2Layout::NZ>(48, 20, 64, 400)); });
  EXPECT(target[0] == 0 && target[16 * 3 + 5] == 3 * 64 + 5 && target[400 * 2 + 16 * 19 + 15] == 19 * 64 + 47);
  run([] {
    FixpipeParamsArch3510<CO2Layout::COLUMN_MAJOR> params(48, 20, 64, 30);
    params.params.srcNzC0Stride = 1;
    Fixpipe<float, float, CFG_COLUMN_MAJOR>(to<float>(), l0c(), params);
  });
  EXPECT(target[0] == 0 && target[30 * 5 + 3] == 3 * 64 + 5 && target[30 * 47 + 19] == 19 * 64 + 47);
}

TEST(fixpipe_adds_to_memory) {
  std::fill(std::begin(target), std::end(target), 0.5f);
  const LaunchRecord launched = npu_lp::twin::launch("test", CoreKind::kCube, 4, {}, kGm, [&] {
    SetAtomicAdd<float>();
    prepare_results(3.0f);
    Fixpipe(to<float>(), l0c(), FixpipeParamsArch3510<>(64, 64, 64, 64));
    SetAtomicNone();
  });
  EXPECT(launched.cores.size() == 4);
  for (uint32_t i = 0; i < 64 * 64; ++i) EXPECT(target[i] == 12.5f);
  EXPECT(target[64 * 64] == 0.5f);
}

TEST(results_that_are_no_numbers) {
  // e8m0 255 is NaN; two scales of 2^127 overflow; both keep out of other rows.
  npu_lp::twin::launch("test", CoreKind::kCube, 1, {}, kGm, [] {
    prepare();
    uint8_t* a = npu_lp::twin::this_core().memory(Space::kL0AMX);
    uint8_t* b = npu_lp::twin::this_core().memory(Space::kL0BMX);
    a[2 * 1] = 255;
    a[2 * 2] = 254;
    b[2 * 5] = 254;
    b[2 * 6] = 0;
    MmadMx(l0c(), l0a(), l0b(), product(64, 64, 64));
    PipeBarrier<PIPE_ALL>();
    Fixpipe(to<float>(), l0c(), FixpipeParamsArch3510<>(64, 64, 64, 64));
  });
  EXPECT(npu_lp::bits_of(target[64 + 5]) == 0x7FC00000u);
  EXPECT(std::isinf(target[2 * 64 + 5]));
  EXPECT(target[2 * 64 + 6] == 32.0f + 32.0f);  // 2^127 * 2^-127
  EXPECT(target[0] == 64.0f);
}

// --- Records and speed -----------------------------------------------------------------------------------------------

void check_records(npu_lp::twin::Mode mode) {
  Options options;
  options.mode = mode;
  const LaunchRecord launched = npu_lp::twin::launch("test", CoreKind::kCube, 1, options, kGm, [&] {
    DataCopy(l1(), from<Fp8>(), Nd2NzParams(1, 20, 96, 0, 128, 32, 1, 0));
    DataCopy(l1(64 * 1024, 64 * 1024).ReinterpretCast<half>(), from<half>(), Dn2NzParams(1, 2, 33, 0, 2, 2, 1, 0));
    PipeBarrier<PIPE_ALL>();
    prepare();
    MmadMx(l0c(2048), l0a(), l0b(), product(60, 50, 128));
    PipeBarrier<PIPE_ALL>();
    FixpipeParamsArch3510<> params(50, 60, 64, 70);
    params.quantPre = QuantMode_t::F322BF16;
    Fixpipe(to<bfloat16_t>(), l0c(2048), params);
  });
  const auto first = [&](Op op) {
    for (const Record& record : launched.cores[0]) {
      if (record.op == op) return record;
    }
    return Record();
  };
  const Record nd = first(Op::kNd2Nz), dn = first(Op::kDn2Nz), fill = first(Op::kFill), load = first(Op::kLoad),
               mmad = first(Op::kMmad), fix = first(Op::kFixpipe);
  const uint64_t gm = reinterpret_cast<uint64_t>(source.data());
  EXPECT(nd.pipe == Pipe::kMTE2 && nd.gm == gm && nd.rows == 20 && nd.row_bytes == 96 && nd.pitch == 128);
  EXPECT(nd.bytes == 20 * 96 && nd.loc.line > 0 && std::strstr(nd.loc.file, "test_cube_checks") != nullptr);
  EXPECT(dn.rows == 33 && dn.row_bytes == 4 && dn.pitch == 4 && dn.bytes == 3 * 2 * 32);
  EXPECT(fill.pipe == Pipe::kMTE2 && fill.bytes == 32 * 1024);
  EXPECT(load.pipe == Pipe::kMTE1 && load.bytes == 32 * 1024 && load.scale_bytes == 1024);
  EXPECT(mmad.pipe == Pipe::kM && mmad.m == 60 && mmad.n == 50 && mmad.k == 128 && mmad.c0_shift == 5);
  EXPECT(mmad.l0c == 2048 && mmad.unit_flag == 0);
  EXPECT(fix.pipe == Pipe::kFIX && fix.m == 60 && fix.n == 50 && fix.rows == 60 && fix.row_bytes == 100);
  EXPECT(fix.pitch == 140 && fix.l0c == 2048 && fix.gm == reinterpret_cast<uint64_t>(target));
}

TEST(records_for_the_timing_model) {
  check_records(npu_lp::twin::Mode::kProgramOrder);
  check_records(npu_lp::twin::Mode::kTimingOnly);
}

// A tile product's cost on the host decides how large a matmul the twin can run. Generous: other tests run beside it.
TEST(speed) {
  npu_lp::twin::launch("test", CoreKind::kCube, 1, {}, kGm, [] {
    prepare();
    MmadMx(l0c(), l0a(), l0b(), product(256, 256, 128));
    const std::clock_t start = std::clock();
    for (int i = 0; i < 20; ++i) MmadMx(l0c(), l0a(), l0b(), product(256, 256, 128));
    const double product_ms = static_cast<double>(std::clock() - start) * 1e3 / CLOCKS_PER_SEC / 20;
    PipeBarrier<PIPE_ALL>();
    const std::clock_t middle = std::clock();
    for (int i = 0; i < 20; ++i) {
      Fixpipe(to<float>(), l0c(), FixpipeParamsArch3510<>(256, 256, 256, 256));
      PipeBarrier<PIPE_FIX>();
    }
    const double fixpipe_ms = static_cast<double>(std::clock() - middle) * 1e3 / CLOCKS_PER_SEC / 20;
    std::printf("     MmadMx 256 x 256 x 128: %.2f ms, Fixpipe 256 x 256: %.2f ms\n", product_ms, fixpipe_ms);
    EXPECT(product_ms < 40.0);
  });
}

}  // namespace
