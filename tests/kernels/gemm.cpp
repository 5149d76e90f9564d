// gemm_tile: every pair of formats, layout of operands and scales, epilogue and output type.
#include <optional>
#include <sstream>

#include "cases.h"
#include "values.h"

namespace npu_lp::cpu::test {

namespace {

const char* const kTypes[] = {"bf16", "fp16", "fp32"};

// How large the numbers are: products near 1, or at the ends of fp32's range.
enum class Range { kNormal, kTiny, kHuge, kAny };

struct Matrix {
  Operand op;
  Buffer codes, scales;
  std::vector<float> values;  // rows by k, decoded by the definition
};

// Codes of mostly finite values, so that sums are numbers; or any bytes.
uint8_t choose_code(Source& from, Format format, bool any) {
  const uint32_t codes = info(format).bits == 4 ? 16 : format == Format::kE3M2 || format == Format::kE2M3 ? 64 : 256;
  while (true) {
    const uint32_t code = static_cast<uint32_t>(from.below(codes));
    if (any || std::isfinite(decode(format, code))) return static_cast<uint8_t>(code);
  }
}

// Strides as tensors have them: contiguous along k or along rows, with or without a gap, broadcast, or neither. For
// 4-bit codes the contiguous dimension is the packed one.
void choose_strides(Source& from, int64_t rows, int64_t k, Operand& op) {
  const bool fp4 = info(op.format).bits == 4;
  const int64_t gap = from.one_in(3) ? from.between(1, 9) : 0;
  const uint64_t form = from.below(fp4 ? 2 : 8);
  if (form % 2 == 0) {
    op.k_stride = 1;
    op.row_stride = k + gap;
  } else {
    op.row_stride = 1;
    op.k_stride = rows + gap;
  }
  if (fp4) {
    int64_t& line = form == 0 ? op.row_stride : op.k_stride;
    line += line % 2;
  } else if (form == 6) {
    op.row_stride = 0;
  } else if (form == 7) {
    op.k_stride = 2 + gap;
    op.row_stride = k * op.k_stride + gap;
  }
}

void choose_scale_strides(Source& from, int64_t rows, int64_t pairs, Operand& op) {
  const int64_t gap = from.one_in(3) ? from.between(1, 5) : 0;
  op.scale_byte_stride = 1;
  switch (from.below(3)) {
    case 0:  // [rows, pairs, 2]
      op.scale_pair_stride = 2;
      op.scale_row_stride = 2 * pairs + gap;
      break;
    case 1:  // [pairs, rows, 2]
      op.scale_row_stride = 2;
      op.scale_pair_stride = 2 * rows + gap;
      break;
    default:  // the bytes of a pair apart
      op.scale_row_stride = 1 + gap;
      op.scale_byte_stride = op.scale_row_stride * rows;
      op.scale_pair_stride = 2 * op.scale_byte_stride;
  }
}

uint8_t choose_scale(Source& from, Range range, int centre, bool first) {
  const int spread = static_cast<int>(from.between(-3, 3));
  switch (range) {
    case Range::kNormal:
      return static_cast<uint8_t>(127 + (first ? centre : -centre) + spread);
    case Range::kTiny:  // products near 2^-126
      return static_cast<uint8_t>(62 + (first ? centre / 2 : -centre / 2) + spread);
    case Range::kHuge:  // near 2^127
      return static_cast<uint8_t>(190 + (first ? centre / 2 : -centre / 2) + spread);
    default:
      return static_cast<uint8_t>(from.below(256));
  }
}

Matrix choose_matrix(Source& from, Format format, int64_t rows, int64_t k, int64_t block, Range range, int centre,
                     bool first, bool any_code) {
  Operand op{};
  op.format = format;
  op.block = block;
  choose_strides(from, rows, k, op);
  const int64_t pairs = ceil_div(ceil_div(k, block), 2), blocks = ceil_div(k, block);
  choose_scale_strides(from, rows, pairs, op);
  const bool scaled = info(format).is_mx && !from.one_in(10);
  const bool empty = rows == 0 || k == 0;
  const int64_t last = empty ? -1 : (rows - 1) * op.row_stride + (k - 1) * op.k_stride;
  const int64_t last_scale = empty || !scaled
                                 ? -1
                                 : (rows - 1) * op.scale_row_stride + (blocks - 1) / 2 * op.scale_pair_stride +
                                       (blocks > 1 ? 1 : 0) * op.scale_byte_stride;
  Matrix m{op,
           Buffer(static_cast<size_t>(info(format).bits == 4 ? last / 2 + (last >= 0) : last + 1)),
           Buffer(static_cast<size_t>(last_scale + 1)),
           {}};
  m.op.codes = m.codes.data();
  m.op.scales = scaled ? m.scales.data() : nullptr;
  for (size_t i = 0; i < m.scales.size(); ++i) m.scales.data()[i] = choose_scale(from, range, centre, first);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) {
      write_code(format, m.codes.data(), r * op.row_stride + i * op.k_stride, choose_code(from, format, any_code));
    }
  }
  m.values.resize(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) {
      const float value = decode(format, read_code(format, m.codes.data(), r * op.row_stride + i * op.k_stride));
      const int64_t j = i / block;
      const float scale = !scaled ? 1.0f
                                  : e8m0_value(m.scales.data()[r * op.scale_row_stride + j / 2 * op.scale_pair_stride +
                                                               j % 2 * op.scale_byte_stride]);
      m.values[static_cast<size_t>(r * k + i)] = value * scale;
    }
  }
  return m;
}

std::vector<float> choose_factors(Source& from, int64_t n) {
  std::vector<float> factors(static_cast<size_t>(n));
  for (float& factor : factors) {
    factor = static_cast<float>(std::ldexp(from.normal(), static_cast<int>(from.between(-8, 8))));
    if (from.one_in(100)) factor = from.pick({0.0f, -0.0f, HUGE_VALF, NAN, 0x1p-140f, 0x1p127f});
  }
  return factors;
}

// The end of a row of fenced memory, so that reading past a bias or a factor is a fault.
Buffer copied(const std::vector<float>& values) {
  Buffer buffer(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(buffer.data(), values.data(), buffer.size());
  return buffer;
}

float reference_sum(const float* a, const float* b, int64_t k) {
  float sum = 0.0f;
  for (int64_t k0 = 0; k0 < k; k0 += 256) {
    float segment = 0.0f;
    for (int64_t i = k0; i < std::min(k0 + 256, k); ++i) segment = std::fma(a[i], b[i], segment);
    sum = k0 == 0 ? segment : sum + segment;
  }
  return sum;
}

}  // namespace

int64_t check_gemm(Source& from, Format format_a, Format format_b, const Limits& limits, Tally& tally) {
  int64_t m = from.one_in(3) ? from.between(1, 4) : ragged(from, 400), n = ragged(from, 600);
  int64_t k = from.one_in(30)  ? 0
              : from.one_in(3) ? from.pick<int64_t>({255, 256, 257, 512, 700, 1030})
                               : ragged(from, 600);
  // Few rows are multiplied by thousands of k's at a time.
  if (from.one_in(40)) m = from.between(1, 2), n = from.between(1, 60), k = 8192 + from.between(-260, 600);
  while (m * n * k > limits.multiplies) {
    int64_t& largest = k > 8000 && n > 1 ? n : m >= n && m >= k ? m : n >= k ? n : k;
    largest = (largest + 1) / 2;
  }
  const int64_t block = from.one_in(2) ? kMxBlock : from.pick<int64_t>({16, 64, 128});
  const Range range = from.pick({Range::kNormal, Range::kNormal, Range::kTiny, Range::kHuge, Range::kAny});
  const int centre = static_cast<int>(from.between(-110, 110));
  const bool any_code = from.one_in(12);
  const Matrix a = choose_matrix(from, format_a, m, k, block, range, centre, true, any_code);
  const Matrix b = choose_matrix(from, format_b, n, k, block, range, centre, false, any_code);
  const FloatType type = from.pick({FloatType::kBFloat16, FloatType::kFloat16, FloatType::kFloat32});
  const bool bias = from.one_in(3), by_column = from.one_in(3), by_row = from.one_in(3);
  const int64_t column_stride = from.between(0, 1), row_stride = from.between(0, 1);
  const Buffer biases = copied(choose_factors(from, bias ? n : 0));
  const Buffer columns = copied(choose_factors(from, by_column ? (column_stride ? n : 1) : 0));
  const Buffer rows = copied(choose_factors(from, by_row ? (row_stride ? m : 1) : 0));
  const int64_t pitch = n + (from.one_in(3) ? from.between(1, 7) : 0);

  std::ostringstream text;
  text << "gemm " << info(format_a).name << " x " << info(format_b).name << " m " << m << " n " << n << " k " << k
       << " -> " << kTypes[static_cast<int>(type)] << ", block " << block << ", strides a " << a.op.row_stride << " "
       << a.op.k_stride << " b " << b.op.row_stride << " " << b.op.k_stride << (a.op.scales ? ", a scaled" : "")
       << (b.op.scales ? ", b scaled" : "") << (bias ? ", bias" : "") << (by_column ? ", by_column" : "")
       << (by_row ? ", by_row" : "") << ", pitch " << pitch;
  describe(text.str());

  const auto* bias_values = reinterpret_cast<const float*>(biases.data());
  const auto* column_values = reinterpret_cast<const float*>(columns.data());
  const auto* row_values = reinterpret_cast<const float*>(rows.data());
  const size_t bytes = static_cast<size_t>((m - 1) * pitch + n) * size_of(type);
  const Buffer expected(bytes);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float value = reference_sum(a.values.data() + i * k, b.values.data() + j * k, k);
      if (by_column) value *= column_values[j * column_stride];
      if (by_row) value *= row_values[i * row_stride];
      if (bias) value += bias_values[j];
      const uint32_t bits = narrowed(type, value);
      std::memcpy(expected.data() + static_cast<size_t>(i * pitch + j) * size_of(type), &bits, size_of(type));
    }
  }
  for (const Kernels* table : tables) {
    const Buffer actual(bytes);
    const Gemm gemm{a.op,
                    b.op,
                    m,
                    n,
                    k,
                    actual.data(),
                    pitch,
                    type,
                    bias ? bias_values : nullptr,
                    {by_column ? column_values : nullptr, column_stride},
                    {by_row ? row_values : nullptr, row_stride}};
    Units units;
    for (int64_t i = 0; i * table->gemm_tile_m < m; ++i) {
      for (int64_t j = 0; j * table->gemm_tile_n < n; ++j) {
        units.push_back([&, i, j](void* workspace) { table->gemm_tile(gemm, i, j, workspace); });
      }
    }
    run(from, *table, units, table->gemm_workspace);
    expect_equal(std::string("gemm ") + table->name, expected, actual, size_of(type));
  }
  tally.add("gemm", std::string(info(format_a).name) + " x " + std::string(info(format_b).name), m * n);
  return m * n;
}

}  // namespace npu_lp::cpu::test
