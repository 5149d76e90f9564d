// The twin's cube side: layouts, whole tile products against a plain reference, and every check, once firing and once
// silent (the products run through all of them).
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "formats/formats.h"
#include "twin/cube.h"
#include "twin/sync.h"

using namespace AscendC;
using npu_lp::twin::Check;
using npu_lp::twin::CoreKind;
using npu_lp::twin::GmRange;
using npu_lp::twin::LaunchRecord;
using npu_lp::twin::Mode;
using npu_lp::twin::Op;
using npu_lp::twin::Options;
using npu_lp::twin::Record;
using npu_lp::twin::Space;

#define EXPECT_REPORT(wanted, words, gm, ...) \
  check::expect_report(CoreKind::kCube, Check::wanted, words, gm, __VA_ARGS__, __FILE__, __LINE__)

namespace {

uint32_t ceil_div(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}
uint32_t align_up(uint32_t a, uint32_t b) {
  return ceil_div(a, b) * b;
}

template <typename T>
GmRange range_of(const std::vector<T>& v) {
  return {v.data(), v.size() * sizeof(T)};
}

uint8_t* memory(Space space) {
  return npu_lp::twin::this_core().memory(space);
}
bool defined(Space space, uint64_t byte) {
  return npu_lp::twin::this_core().defined_map(space)[byte] != 0;
}

template <typename T>
constexpr uint32_t bits = npu_lp::twin::element_bits<T>;

template <typename T>
float decode(uint32_t code) {
  using npu_lp::Format;
  if constexpr (std::is_same_v<T, fp8_e4m3fn_t>) return npu_lp::decode(Format::kE4M3, code);
  if constexpr (std::is_same_v<T, fp8_e5m2_t>) return npu_lp::decode(Format::kE5M2, code);
  if constexpr (std::is_same_v<T, fp4x2_e2m1_t>) return npu_lp::decode(Format::kE2M1, code);
  if constexpr (std::is_same_v<T, fp4x2_e1m2_t>) return npu_lp::decode(Format::kE1M2, code);
  if constexpr (std::is_same_v<T, hifloat8_t>) return npu_lp::decode(Format::kHiF8, code);
  if constexpr (std::is_same_v<T, half>) return npu_lp::widen_fp16(static_cast<uint16_t>(code));
  return npu_lp::widen_bf16(static_cast<uint16_t>(code));
}

// A matrix with one scale for every 32 elements of K, as the quantization ops lay both out.
template <typename T>
struct Matrix {
  uint32_t rows, k;
  bool k_leading;  // (k, rows), scales (ceil(k / 64), rows, 2); otherwise (rows, k), scales (rows, ceil(k / 64), 2)
  std::vector<uint32_t> codes;  // [row][k]
  std::vector<uint8_t> data, scales;

  Matrix(uint32_t rows_, uint32_t k_, bool k_leading_, uint32_t seed) : rows(rows_), k(k_), k_leading(k_leading_) {
    std::mt19937 random(seed);
    const uint32_t pairs = ceil_div(k, 64);
    codes.resize(rows * k);
    for (uint32_t& code : codes) {
      do {
        code = random() & ((bits<T> == 4 ? 16u : bits<T> == 8 ? 256u : 0x10000u) - 1);
      } while (!std::isfinite(decode<T>(code)) || std::fabs(decode<T>(code)) > 1e3f);
    }
    data.assign(rows * k * bits<T> / 8, 0);
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t i = 0; i < k; ++i) {
        const uint32_t at = k_leading ? i * rows + row : row * k + i;
        const uint32_t code = codes[row * k + i];
        if (bits<T> == 4) data[at / 2] |= static_cast<uint8_t>(code << (at % 2 * 4));
        if (bits<T> == 8) data[at] = static_cast<uint8_t>(code);
        if (bits<T> == 16) std::memcpy(&data[at * 2], &code, 2);
      }
    }
    scales.resize(rows * pairs * 2);
    for (uint8_t& scale : scales) scale = static_cast<uint8_t>(110 + random() % 30);
  }
  double value(uint32_t row, uint32_t i, bool scaled) const {
    const double element = decode<T>(codes[row * k + i]);
    const uint32_t pairs = ceil_div(k, 64);
    const uint32_t at = k_leading ? (i / 64 * rows + row) * 2 : (row * pairs + i / 64) * 2;
    return scaled ? element * std::ldexp(1.0, scales[at + i / 32 % 2] - 127) : element;
  }
  T* pointer() { return reinterpret_cast<T*>(data.data()); }
};

// Places in L1 and L0 of the test kernel.
constexpr uint32_t kL1A = 0, kL1B = 128 * 1024, kL1ScaleA = 256 * 1024, kL1ScaleB = 300 * 1024, kL1Bias = 400 * 1024;
struct Places {
  TPosition l1, l0;
  uint32_t data, scales;
};
constexpr Places kPlacesA = {TPosition::A1, TPosition::A2, kL1A, kL1ScaleA};
constexpr Places kPlacesB = {TPosition::B1, TPosition::B2, kL1B, kL1ScaleB};

// Rows as Mmad has to be told: a transposed load writes whole squares.
template <typename T>
uint32_t padded_rows(const Matrix<T>& x) {
  return align_up(x.rows, x.k_leading ? 256 / bits<T> : 16);
}
template <typename T>
uint32_t padded_k(const Matrix<T>& x) {
  return align_up(x.k, 64);
}

template <typename T>
LocalTensor<T> l1_data(const Places& places, uint32_t bytes) {
  return LocalTensor<T>(places.l1, places.data, static_cast<uint32_t>(npu_lp::twin::elements_of<T>(bytes)));
}

// GM -> L1 with K filled up to 64 by zeros.
template <typename T>
void copy_data(Matrix<T>& x, const Places& places, bool fill) {
  const uint32_t k64 = padded_k(x);
  const uint32_t lines = x.k_leading ? k64 : align_up(x.rows, 16);
  const uint32_t row_elements = x.k_leading ? x.rows : x.k;
  const uint32_t row_bytes = row_elements * bits<T> / 8;
  const uint32_t columns = ceil_div((x.k_leading ? x.rows : k64) * bits<T> / 8, 32);
  LocalTensor<T> l1 = l1_data<T>(places, columns * lines * 32);
  if (fill && x.k % 64 != 0) {
    InitConstValueParams<uint16_t> zeros(1, static_cast<uint16_t>(columns * lines), 0, 0);
    Fill(l1.template ReinterpretCast<uint16_t>(), zeros);
    PipeBarrier<PIPE_MTE2>();
  }
  GlobalTensor<T> gm;
  gm.SetGlobalBuffer(x.pointer(), x.rows * x.k);
  const uint32_t unit = bits<T> == 16 ? 2 : 1;
  const Nd2NzParams params(1, static_cast<uint16_t>(x.k_leading ? x.k : x.rows), row_bytes / unit, 0, row_bytes / unit,
                           static_cast<uint16_t>(lines), 1, 0);
  DataCopy(l1, gm, params);
}

template <typename T>
void copy_scales(Matrix<T>& x, const Places& places) {
  const uint16_t pairs = static_cast<uint16_t>(ceil_div(x.k, 64));
  const uint32_t count = align_up(x.rows, 16) * pairs;
  LocalTensor<half> l1(places.l1, places.scales, count);
  GlobalTensor<half> gm;
  gm.SetGlobalBuffer(reinterpret_cast<half*>(x.scales.data()), x.rows * pairs);
  if (x.k_leading) {
    DataCopy(l1, gm, Nd2NzParams(1, pairs, x.rows, 0, x.rows, pairs, 1, 0));
  } else {
    DataCopy(l1, gm, Dn2NzParams(1, pairs, x.rows, 0, pairs, pairs, 1, 0));
  }
}

template <typename T, bool mx>
LocalTensor<T> load(Matrix<T>& x, const Places& places) {
  const uint32_t k64 = padded_k(x);
  const uint32_t rows = padded_rows(x);
  LoadData2DParamsV2 params;
  params.ifTranspose = x.k_leading;
  params.dstStride = static_cast<uint16_t>(rows / 16);
  if (x.k_leading) {
    params.mStep = static_cast<uint16_t>(k64 / 16);
    params.kStep = static_cast<uint16_t>(ceil_div(x.rows * bits<T> / 8, 32));
    params.srcStride = static_cast<int32_t>(k64 / 16);
  } else {
    params.mStep = static_cast<uint16_t>(rows / 16);
    params.kStep = static_cast<uint16_t>(k64 * bits<T> / 8 / 32);
    params.srcStride = static_cast<int32_t>(rows / 16);
  }
  const uint32_t l1_bytes = params.mStep * params.kStep * 512u;
  LocalTensor<T> l1 = l1_data<T>(places, l1_bytes);
  LocalTensor<T> l0(places.l0, 0, static_cast<uint32_t>(npu_lp::twin::elements_of<T>(rows * k64 * bits<T> / 8)));
  if constexpr (mx) {
    const uint16_t pairs = static_cast<uint16_t>(k64 / 64);
    LocalTensor<fp8_e8m0_t> scales(places.l1, places.scales, align_up(x.rows, 16) * pairs * 2);
    LoadData2DMxParams scale_params(0, 0, static_cast<uint8_t>(ceil_div(x.rows, 16)), static_cast<uint8_t>(pairs),
                                    pairs, pairs);
    LoadData(l0, l1, scales, params, scale_params);
  } else {
    LoadData(l0, l1, params);
  }
  return l0;
}

struct Ways {
  bool bias = false;
  bool fill = true;
  bool flags = true;  // M waits for MTE1
  uint8_t unit_flag = 0;
};

template <bool mx, typename A, typename B>
void matmul_kernel(Matrix<A>& a, Matrix<B>& b, std::vector<float>& bias, std::vector<float>& c, const Ways& ways) {
  InitSocState();
  copy_data(a, kPlacesA, ways.fill);
  copy_data(b, kPlacesB, ways.fill);
  if (mx) {
    copy_scales(a, kPlacesA);
    copy_scales(b, kPlacesB);
  }
  const uint32_t n16 = align_up(b.rows, 16);
  LocalTensor<float> l1_bias(TPosition::C1, kL1Bias, n16);
  LocalTensor<float> table(TPosition::C2, 0, n16);
  if (ways.bias) {
    GlobalTensor<float> gm;
    gm.SetGlobalBuffer(bias.data(), bias.size());
    DataCopyPad(l1_bias, gm, DataCopyExtParams(1, b.rows * 4, 0, 0, 0), DataCopyPadExtParams<float>());
  }
  SetFlag<HardEvent::MTE2_MTE1>(0);
  WaitFlag<HardEvent::MTE2_MTE1>(0);
  LocalTensor<A> l0a = load<A, mx>(a, kPlacesA);
  LocalTensor<B> l0b = load<B, mx>(b, kPlacesB);
  if (ways.bias) DataCopy(table, l1_bias, DataCopyParams(1, static_cast<uint16_t>(n16 / 8), 0, 0));
  if (ways.flags) {
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
  }
  MmadParams params;
  params.m = static_cast<uint16_t>(padded_rows(a));
  params.n = static_cast<uint16_t>(padded_rows(b));
  params.k = static_cast<uint16_t>(mx ? padded_k(a) : a.k);
  params.disableGemv = true;
  params.unitFlag = ways.unit_flag;
  params.cmatrixInitVal = !ways.bias;
  LocalTensor<float> l0c(TPosition::CO1, 0, params.m * align_up(params.n, 16));
  if constexpr (mx) {
    if (ways.bias) {
      MmadMx(l0c, l0a, l0b, table, params);
    } else {
      MmadMx(l0c, l0a, l0b, params);
    }
  } else {
    if (ways.bias) {
      Mmad(l0c, l0a, l0b, table, params);
    } else {
      Mmad(l0c, l0a, l0b, params);
    }
  }
  if (ways.unit_flag == 0) {
    SetFlag<HardEvent::M_FIX>(0);
    WaitFlag<HardEvent::M_FIX>(0);
  }
  GlobalTensor<float> out;
  out.SetGlobalBuffer(c.data(), c.size());
  FixpipeParamsArch3510<CO2Layout::ROW_MAJOR> fixpipe(static_cast<uint16_t>(b.rows), static_cast<uint16_t>(a.rows),
                                                      static_cast<uint16_t>(align_up(params.m, 16)), b.rows);
  fixpipe.unitFlag = ways.unit_flag;
  Fixpipe<float, float, CFG_ROW_MAJOR>(out, l0c, fixpipe);
}

template <bool mx, typename A, typename B>
void check_product(uint32_t m, uint32_t n, uint32_t k, bool a_k_leading, bool b_k_leading, const Ways& ways = {}) {
  Matrix<A> a(m, k, a_k_leading, 1);
  Matrix<B> b(n, k, b_k_leading, 2);
  std::vector<float> bias(n), c(m * n, -1.0f);
  for (uint32_t j = 0; j < n; ++j) bias[j] = 0.25f * static_cast<float>(j);
  std::vector<float> want(m * n);
  for (uint32_t i = 0; i < m; ++i) {
    for (uint32_t j = 0; j < n; ++j) {
      double sum = 0;
      for (uint32_t l = 0; l < k; ++l) sum += a.value(i, l, mx) * b.value(j, l, mx);
      want[i * n + j] = static_cast<float>(sum + (ways.bias ? bias[j] : 0.0f));
    }
  }
  const std::vector<GmRange> gm = {range_of(a.data),   range_of(b.data), range_of(a.scales),
                                   range_of(b.scales), range_of(bias),   range_of(c)};
  for (uint64_t seed = 0; seed < 4; ++seed) {
    std::fill(c.begin(), c.end(), -1.0f);
    Options options;
    options.mode = seed == 0 ? Mode::kProgramOrder : Mode::kShuffled;
    options.seed = seed;
    npu_lp::twin::launch("matmul", CoreKind::kCube, 1, options, gm, [&] { matmul_kernel<mx>(a, b, bias, c, ways); });
    EXPECT(std::memcmp(c.data(), want.data(), c.size() * sizeof(float)) == 0);
  }
}

// --- Layouts -------------------------------------------------------------------------------------------------------

TEST(nd2nz_pads_rows_with_zeros_and_leaves_missing_rows) {
  std::vector<uint8_t> x(2 * 5 * 70);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(1 + i % 250);
  npu_lp::twin::launch("test", CoreKind::kCube, 1, {}, {range_of(x)}, [&] {
    LocalTensor<uint8_t> l1(TPosition::A1, 64, 4096);
    GlobalTensor<uint8_t> gm;
    gm.SetGlobalBuffer(x.data(), x.size());
    // Two matrices of 5 rows of 45 of 70 columns; 8 rows a column, matrices 1024 bytes apart.
    DataCopy(l1, gm, Nd2NzParams(2, 5, 45, 350, 70, 8, 1, 1024));
    for (uint32_t matrix = 0; matrix < 2; ++matrix) {
      for (uint32_t row = 0; row < 5; ++row) {
        for (uint32_t column = 0; column < 64; ++column) {
          const uint32_t at = 64 + matrix * 1024 + column / 32 * 8 * 32 + row * 32 + column % 32;
          EXPECT(memory(Space::kL1)[at] == (column < 45 ? x[matrix * 350 + row * 70 + column] : 0));
          EXPECT(defined(Space::kL1, at));
        }
      }
    }
    EXPECT(!defined(Space::kL1, 64 + 5 * 32));
    EXPECT(!defined(Space::kL1, 0));
  });
}

TEST(dn2nz_of_scale_pairs) {
  const uint32_t m = 37, pairs = 3;
  std::vector<uint8_t> x(m * pairs * 2);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i);
  npu_lp::twin::launch("test", CoreKind::kCube, 1, {}, {range_of(x)}, [&] {
    LocalTensor<half> l1(TPosition::A1, 0, 48 * pairs);
    GlobalTensor<half> gm;
    gm.SetGlobalBuffer(reinterpret_cast<half*>(x.data()), m * pairs);
    DataCopy(l1, gm, Dn2NzParams(1, pairs, m, 0, pairs, pairs, 1, 0));
    for (uint32_t row = 0; row < 48; ++row) {
      for (uint32_t block = 0; block < pairs * 2; ++block) {
        const uint32_t at = (row / 16 * pairs + block / 2) * 32 + row % 16 * 2 + block % 2;
        EXPECT(memory(Space::kL1)[at] == (row < m ? x[row * pairs * 2 + block] : 0));
      }
    }
  });
}

TEST(fill_repeats_with_gaps) {
  npu_lp::twin::launch("test", CoreKind::kCube, 1, {}, {}, [&] {
    LocalTensor<uint16_t> l1(TPosition::A1, 0, 1024);
    Fill(l1, InitConstValueParams<uint16_t>(3, 2, 4, 0x1234));
    for (uint32_t block = 0; block < 18; ++block) {
      const bool inside = block % 6 < 2;
      EXPECT(defined(Space::kL1, block * 32) == inside);
      if (inside) EXPECT(memory(Space::kL1)[block * 32 + 30] == 0x34 && memory(Space::kL1)[block * 32 + 31] == 0x12);
    }
  });
}

// A (k, rows) matrix in L1 by Nd2Nz, transposed into L0A: [k / C0][row][k % C0].
template <typename T>
void check_transposed_load() {
  const uint32_t side = 256 / bits<T>, k = 2 * side, rows = 3 * side;
  Matrix<T> x(rows, k, true, 3);
  npu_lp::twin::launch("test", CoreKind::kCube, 1, {}, {range_of(x.data)}, [&] {
    LocalTensor<T> l1(TPosition::A1, 0, rows * k);
    LocalTensor<T> l0(TPosition::A2, 0, rows * k);
    GlobalTensor<T> gm;
    gm.SetGlobalBuffer(x.pointer(), rows * k);
    const uint32_t fields = rows * bits<T> / 8 / (bits<T> == 16 ? 2 : 1);
    DataCopy(l1, gm, Nd2NzParams(1, static_cast<uint16_t>(k), fields, 0, fields, static_cast<uint16_t>(k), 1, 0));
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    LoadData2DParamsV2 params(0, 0, static_cast<uint16_t>(k / 16), 3, static_cast<int32_t>(k / 16),
                              static_cast<uint16_t>(rows / 16), true, 0);
    LoadData(l0, l1, params);
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t i = 0; i < k; ++i) {
        const uint8_t* block = memory(Space::kL0A) + (i / side * rows + row) * 32;
        const uint32_t at = i % side;
        uint32_t code = bits<T> == 4 ? block[at / 2] >> (at % 2 * 4) & 15u : block[at];
        if (bits<T> == 16) code = block[at * 2] | block[at * 2 + 1] << 8;
        EXPECT(code == x.codes[row * k + i]);
      }
    }
  });
}
TEST(transposed_load_of_4_8_and_16_bits) {
  check_transposed_load<fp4x2_e2m1_t>();
  check_transposed_load<fp8_e4m3fn_t>();
  check_transposed_load<half>();
}

TEST(load_takes_a_window_and_carries_taint) {
  npu_lp::twin::launch("test", CoreKind::kCube, 1, {}, {}, [&] {
    LocalTensor<uint16_t> l1(TPosition::A1, 0, 4 * 8 * 256);  // 4 columns of 8 fractals
    for (uint16_t fractal = 0; fractal < 32; ++fractal) {
      if (fractal != 11) Fill(l1[fractal * 256u], InitConstValueParams<uint16_t>(1, 16, 0, fractal));
    }
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    LocalTensor<fp8_e4m3fn_t> l0(TPosition::A2, 1024, 6 * 512);
    LoadData(l0, l1.ReinterpretCast<fp8_e4m3fn_t>(), LoadData2DParamsV2(2, 1, 3, 2, 8, 3, false, 0));
    for (uint32_t column = 0; column < 2; ++column) {
      for (uint32_t row = 0; row < 3; ++row) {
        const uint32_t at = 1024 + (column * 3 + row) * 512, fractal = (1 + column) * 8 + 2 + row;
        EXPECT(defined(Space::kL0A, at) == (fractal != 11));
        if (fractal != 11) EXPECT(memory(Space::kL0A)[at] == fractal);
      }
    }
  });
}

// --- Products ------------------------------------------------------------------------------------------------------

TEST(mx_product_of_every_pair) {
  check_product<true, fp8_e4m3fn_t, fp8_e4m3fn_t>(40, 50, 128, false, false);
  check_product<true, fp8_e4m3fn_t, fp8_e5m2_t>(40, 50, 128, false, false);
  check_product<true, fp8_e5m2_t, fp8_e4m3fn_t>(40, 50, 128, false, false);
  check_product<true, fp8_e5m2_t, fp8_e5m2_t>(40, 50, 128, false, false);
  check_product<true, fp4x2_e2m1_t, fp4x2_e2m1_t>(40, 50, 128, false, false);
  check_product<true, fp4x2_e2m1_t, fp4x2_e1m2_t>(40, 50, 128, false, false);
  check_product<true, fp4x2_e1m2_t, fp4x2_e2m1_t>(40, 50, 128, false, false);
  check_product<true, fp4x2_e1m2_t, fp4x2_e1m2_t>(40, 50, 128, false, false);
}
TEST(mx_product_of_every_layout) {
  for (int way = 0; way < 4; ++way) {
    check_product<true, fp8_e4m3fn_t, fp8_e5m2_t>(40, 72, 192, way & 1, way & 2);
    check_product<true, fp4x2_e2m1_t, fp4x2_e2m1_t>(40, 72, 192, way & 1, way & 2);
  }
}
TEST(mx_product_with_a_tail_of_k) {
  for (int way = 0; way < 4; ++way) {
    check_product<true, fp8_e4m3fn_t, fp8_e5m2_t>(17, 33, 70, way & 1, way & 2);
    check_product<true, fp8_e4m3fn_t, fp8_e5m2_t>(16, 16, 100, way & 1, way & 2);
    check_product<true, fp4x2_e2m1_t, fp4x2_e2m1_t>(18, 34, 70, way & 1, way & 2);
  }
}
TEST(products_without_scales) {
  for (int way = 0; way < 4; ++way) {
    check_product<false, hifloat8_t, hifloat8_t>(40, 50, 96, way & 1, way & 2);
    check_product<false, half, half>(40, 50, 96, way & 1, way & 2);
    check_product<false, bfloat16_t, bfloat16_t>(40, 50, 96, way & 1, way & 2);
    check_product<false, fp8_e4m3fn_t, fp8_e5m2_t>(40, 50, 70, way & 1, way & 2);
  }
}
TEST(product_with_bias) {
  Ways ways;
  ways.bias = true;
  check_product<true, fp8_e4m3fn_t, fp8_e4m3fn_t>(40, 64, 128, false, false, ways);
  check_product<false, hifloat8_t, hifloat8_t>(40, 64, 128, false, false, ways);
}
TEST(product_with_unit_flags) {
  Ways ways;
  ways.unit_flag = 3;
  check_product<true, fp8_e4m3fn_t, fp8_e4m3fn_t>(128, 64, 128, false, false, ways);
}

// --- What the products' kernel must not leave out ------------------------------------------------------------------

template <bool mx, typename A, typename B>
void expect_product_report(Check wanted, const char* words, uint32_t k, const Ways& ways, int line) {
  Matrix<A> a(32, k, false, 1);
  Matrix<B> b(32, k, false, 2);
  std::vector<float> bias(32), c(32 * 32);
  check::expect_report(
      CoreKind::kCube, wanted, words,
      {range_of(a.data), range_of(b.data), range_of(a.scales), range_of(b.scales), range_of(bias), range_of(c)},
      [&] { matmul_kernel<mx>(a, b, bias, c, ways); }, __FILE__, line);
}
TEST(missing_fill_is_found) {
  Ways ways;
  ways.fill = false;
  // k = 72: one C0 column of 32 is missing (elements 96 to 127). k = 100: Nd2Nz's own zeros reach 128.
  expect_product_report<true, fp8_e4m3fn_t, fp8_e4m3fn_t>(Check::kPoison, "is undefined from k = 96", 72, ways,
                                                          __LINE__);
  check_product<true, fp8_e4m3fn_t, fp8_e4m3fn_t>(32, 32, 100, false, false, ways);
}
TEST(missing_wait_is_a_race) {
  Ways ways;
  ways.flags = false;
  expect_product_report<true, fp8_e4m3fn_t, fp8_e4m3fn_t>(Check::kRace, "L0A", 128, ways, __LINE__);
}

}  // namespace

int main() {
  return check::run_all();
}
