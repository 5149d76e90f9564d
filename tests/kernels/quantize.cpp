// quantize_rows, quantize_cols, quantize_dual, and quantize_cols with square tiles.
#include <sstream>

#include "cases.h"
#include "values.h"

namespace npu_lp::cpu::test {

namespace {

struct Case {
  QuantOp op;
  QuantSpec spec;      // of the rows, or of the only quantization
  QuantSpec col_spec;  // of the columns
  int64_t rows, cols, first_index;
  bool past_caches;
};

const char* const kOpNames[] = {"quantize_rows", "quantize_cols", "quantize_dual", "quantize_tiles"};

QuantSpec choose_spec(Source& from, Format format) {
  const bool fp4 = info(format).bits == 4;
  QuantSpec spec;
  spec.format = format;
  spec.input = from.pick({FloatType::kBFloat16, FloatType::kFloat16, FloatType::kFloat32, FloatType::kFloat32});
  spec.rule = from.pick({ScaleRule::kFloor, fp4 ? ScaleRule::kDtypeRange : ScaleRule::kRceil});
  spec.underflow = from.pick({Underflow::kOcp, Underflow::kFlushEmax, Underflow::kFlushSubnormal});
  spec.block = from.one_in(2) ? kMxBlock : from.pick<int64_t>({16, 64, 128});
  spec.amax_truncates = from.one_in(2);
  if (fp4) {
    spec.rounding =
        from.one_in(2) ? Rounding::kRint : from.pick({Rounding::kRound, Rounding::kFloor, Rounding::kStochastic});
  } else {
    spec.rounding = from.one_in(4) ? Rounding::kStochastic : Rounding::kRint;
  }
  if (spec.rule == ScaleRule::kDtypeRange && !from.one_in(3)) {
    const float least = format == Format::kE1M2 ? 1.75f : 6.0f;
    spec.dst_max = from.one_in(2) ? from.pick({6.0f, 7.0f, 1.875f}) : least + 0.25f * static_cast<float>(from.below(9));
    if (spec.dst_max < least || spec.dst_max > 2 * least) spec.dst_max = least;
  }
  if (spec.rule == ScaleRule::kRceil && from.one_in(3)) {
    spec.max_low_bound = static_cast<float>(std::ldexp(1.0 + from.uniform(), static_cast<int>(from.between(-130, 90))));
  }
  if (spec.rounding == Rounding::kStochastic) spec.seed = from.bits();
  return spec;
}

Case choose(Source& from, QuantOp op, Format format, const Limits& limits) {
  // Vector kernels take up to 512 elements of a row at once, and 32 rows: a few cases have all of that, more have long
  // rows.
  const int64_t elements = from.one_in(32) ? 8 * limits.elements : limits.elements;
  const bool long_rows = elements != limits.elements || from.one_in(3);
  const int64_t rows = long_rows ? from.between(1, elements / 600) : ragged(from, elements);
  Case c{op, choose_spec(from, format), {}, rows, 0, from.one_in(2) ? 0 : from.between(0, 1000000), from.one_in(2)};
  const int64_t most = std::max<int64_t>(elements / rows, 2);
  c.cols = long_rows ? std::min(from.between(256, 1200), most) : ragged(from, most);
  if (long_rows) c.cols -= c.cols % from.pick<int64_t>({1, 16, 64});  // stores past the caches are aligned
  if (info(format).bits == 4) c.cols += c.cols % 2;
  c.col_spec = c.spec;
  c.col_spec.amax_truncates = op != QuantOp::kDual && c.spec.amax_truncates;
  c.col_spec.seed = ~c.spec.seed;
  if (op == QuantOp::kCols || op == QuantOp::kTiles) c.col_spec = c.spec;
  return c;
}

std::string text_of(const Case& c) {
  static const char* const rules[] = {"floor", "rceil", "dtype_range"};
  static const char* const underflows[] = {"ocp", "flush_emax", "flush_subnormal"};
  static const char* const roundings[] = {"rint", "round", "floor", "stochastic"};
  static const char* const inputs[] = {"bf16", "fp16", "fp32"};
  std::ostringstream text;
  text << kOpNames[static_cast<int>(c.op)] << " [" << c.rows << ", " << c.cols << "] "
       << inputs[static_cast<int>(c.spec.input)] << " -> " << info(c.spec.format).name << ", rule "
       << rules[static_cast<int>(c.spec.rule)] << ", underflow " << underflows[static_cast<int>(c.spec.underflow)]
       << ", rounding " << roundings[static_cast<int>(c.spec.rounding)] << ", block " << c.spec.block << ", dst_max "
       << c.spec.dst_max << ", max_low_bound " << c.spec.max_low_bound << ", amax "
       << (c.spec.amax_truncates ? "cut" : "rounded") << (c.past_caches ? ", past caches" : "");
  return text.str();
}

// Codes, and scale bytes in the layout of rows, of columns, or both.
struct Result {
  Buffer row_codes, row_scales, col_codes, col_scales;
};

Result allocate(const Case& c) {
  const bool rows = c.op == QuantOp::kRows || c.op == QuantOp::kDual, cols = c.op != QuantOp::kRows;
  const size_t codes = static_cast<size_t>(c.rows * c.cols * info(c.spec.format).bits / 8);
  const auto pairs = [&](int64_t n) { return ceil_div(ceil_div(n, c.spec.block), 2); };
  const size_t row_bytes = static_cast<size_t>(c.rows * pairs(c.cols) * 2);
  const size_t col_bytes = static_cast<size_t>(pairs(c.rows) * c.cols * 2);
  // Callers fill the scales of columns and tiles with zeros; those of rows are written whole.
  return {Buffer(rows ? codes : 0), Buffer(rows || c.op == QuantOp::kTiles ? row_bytes : 0, rows ? 0xA5 : 0),
          Buffer(cols ? codes : 0), Buffer(cols ? col_bytes : 0, 0)};
}

uint32_t magnitude(const Case& c, const Buffer& x, int64_t at) {
  return bits_of(widened(c.spec.input, stored(c.spec.input, x.data(), at))) & 0x7FFFFFFFu;
}

// Quantizes the elements of [row0, row1) x [col0, col1), which are one block. Returns its scale byte.
uint8_t reference_block(const Case& c, const QuantSpec& spec, const Buffer& x, int64_t row0, int64_t row1, int64_t col0,
                        int64_t col1, const Buffer& codes) {
  uint32_t amax = 0;
  for (int64_t r = row0; r < row1; ++r) {
    for (int64_t n = col0; n < col1; ++n) amax = std::max(amax, magnitude(c, x, r * c.cols + n));
  }
  const uint32_t byte = reference_byte(spec, amax);
  for (int64_t r = row0; r < row1; ++r) {
    for (int64_t n = col0; n < col1; ++n) {
      const int64_t at = r * c.cols + n;
      const float value = widened(spec.input, stored(spec.input, x.data(), at));
      write_code(spec.format, codes.data(), at, reference_code(spec, amax, byte, value, c.first_index + at));
    }
  }
  return static_cast<uint8_t>(byte);
}

Result reference(const Case& c, const Buffer& x) {
  Result result = allocate(c);
  const int64_t block = c.spec.block, row_pairs = ceil_div(ceil_div(c.cols, block), 2);
  const auto row_scale = [&](int64_t r, int64_t j) -> uint8_t& {
    return result.row_scales.data()[r * row_pairs * 2 + j];
  };
  const auto col_scale = [&](int64_t j, int64_t n) -> uint8_t& {
    return result.col_scales.data()[(j / 2 * c.cols + n) * 2 + j % 2];
  };
  if (c.op == QuantOp::kRows || c.op == QuantOp::kDual) {
    std::memset(result.row_scales.data(), 0, result.row_scales.size());
    for (int64_t r = 0; r < c.rows; ++r) {
      for (int64_t j = 0; j * block < c.cols; ++j) {
        row_scale(r, j) =
            reference_block(c, c.spec, x, r, r + 1, j * block, std::min((j + 1) * block, c.cols), result.row_codes);
      }
    }
  }
  if (c.op == QuantOp::kRows) return result;
  const int64_t width = c.op == QuantOp::kTiles ? block : 1;
  for (int64_t r = 0; r < c.rows; r += block) {
    for (int64_t n = 0; n < c.cols; n += width) {
      const int64_t row1 = std::min(r + block, c.rows), col1 = std::min(n + width, c.cols);
      const uint8_t byte = reference_block(c, c.col_spec, x, r, row1, n, col1, result.col_codes);
      for (int64_t col = n; col < col1; ++col) col_scale(r / block, col) = byte;
      for (int64_t row = r; c.op == QuantOp::kTiles && row < row1; ++row) row_scale(row, n / block) = byte;
    }
  }
  return result;
}

Result compute(Source& from, const Case& c, const Buffer& x, const Kernels& table) {
  Result result = allocate(c);
  const RowQuantArgs rows{c.spec,        x.data(),     c.cols, result.row_codes.data(), result.row_scales.data(),
                          c.first_index, c.past_caches};
  const ColQuantArgs cols{c.col_spec,
                          x.data(),
                          c.rows,
                          c.cols,
                          result.col_codes.data(),
                          result.col_scales.data(),
                          c.first_index,
                          c.op == QuantOp::kTiles ? result.row_scales.data() : nullptr,
                          c.past_caches};
  const int64_t strips = ceil_div(c.rows, c.spec.block);
  Units units;
  switch (c.op) {
    case QuantOp::kRows:
      for (const auto& [begin, end] : cut(from, c.rows)) {
        units.push_back([&, begin = begin, end = end](void*) { table.quantize_rows(rows, begin, end); });
      }
      break;
    case QuantOp::kDual:
      for (const auto& [begin, end] : cut(from, strips)) {
        units.push_back([&, begin = begin, end = end](void*) { table.quantize_dual(rows, cols, begin, end); });
      }
      break;
    default:
      // Two 4-bit codes share a byte, and a tile its amax: ranges of columns respect that.
      const int64_t step = c.op == QuantOp::kTiles ? c.spec.block : info(c.spec.format).bits == 4 ? 2 : 1;
      for (const auto& [begin, end] : cut(from, strips)) {
        for (const auto& [left, right] : cut(from, c.cols, step)) {
          units.push_back([&, begin = begin, end = end, left = left, right = right](void*) {
            table.quantize_cols(cols, begin, end, left, right);
          });
        }
      }
  }
  run(from, table, units);
  return result;
}

}  // namespace

int64_t check_quantize(Source& from, QuantOp op, Format format, const Limits& limits, Tally& tally) {
  const Case c = choose(from, op, format, limits);
  describe(text_of(c));
  const Buffer x(static_cast<size_t>(c.rows * c.cols) * size_of(c.spec.input));
  const bool along_rows = from.one_in(2);  // a kind of values for each row, or for the whole
  for (int64_t r = 0; r < (along_rows ? c.rows : 1); ++r) {
    fill(from, format, c.spec.input, x.data(), r * c.cols, along_rows ? c.cols : c.rows * c.cols);
  }
  const Result expected = reference(c, x);
  for (const Kernels* table : tables) {
    const Result actual = compute(from, c, x, *table);
    const std::string name = std::string(kOpNames[static_cast<int>(op)]) + " " + table->name;
    expect_equal(name + " scales of rows", expected.row_scales, actual.row_scales, 1);
    expect_equal(name + " codes of rows", expected.row_codes, actual.row_codes, 1);
    expect_equal(name + " scales of columns", expected.col_scales, actual.col_scales, 1);
    expect_equal(name + " codes of columns", expected.col_codes, actual.col_codes, 1);
  }
  const int64_t values = c.rows * c.cols * (op == QuantOp::kDual ? 2 : 1);
  tally.add(kOpNames[static_cast<int>(op)], std::string(info(format).name), values);
  return values;
}

}  // namespace npu_lp::cpu::test
