// mx_to_block.
#include <atomic>
#include <cmath>
#include <sstream>

#include "cases.h"
#include "reference.h"
#include "values.h"

namespace npu_lp::cpu::test {

namespace {

struct Result {
  Buffer codes, row_scales, column_scales;
  int64_t changed = 0;
};

Result allocate(int64_t rows, int64_t cols) {
  const auto pairs = [](int64_t n) { return ceil_div(ceil_div(n, kMxBlock), 2); };
  return {Buffer(static_cast<size_t>(rows * cols)), Buffer(static_cast<size_t>(rows * pairs(cols) * 2)),
          Buffer(static_cast<size_t>(pairs(rows) * 2 * cols))};
}

// One element after another, as semantics.md section 4 says it.
Result reference(Format from, Format to, bool nan_as_number, const Buffer& codes, const Buffer& scales, int64_t rows,
                 int64_t cols) {
  Result result = allocate(rows, cols);
  std::memset(result.row_scales.data(), 0, result.row_scales.size());
  std::memset(result.column_scales.data(), 0, result.column_scales.size());
  const int64_t row_bytes = 2 * ceil_div(ceil_div(cols, kMxBlock), 2);
  const auto row_byte = [&](int64_t r, int64_t c) { return int{scales.data()[r * row_bytes + c / kMxBlock]}; };
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t top = r / kMxBlock * kMxBlock;
      int largest = 0;
      for (int64_t i = top; i < std::min(top + kMxBlock, rows); ++i) largest = std::max(largest, row_byte(i, c));
      const bool is_nan = largest == 255 && !nan_as_number;
      const int byte = is_nan ? 255 : std::max(largest - (info(to).emax - info(from).emax), 0);
      result.row_scales.data()[r * row_bytes + c / kMxBlock] = static_cast<uint8_t>(byte);
      result.column_scales.data()[(r / kMxBlock / 2 * cols + c) * 2 + r / kMxBlock % 2] = static_cast<uint8_t>(byte);
      uint8_t& out = result.codes.data()[r * cols + c];
      if (is_nan) {
        out = 0;
        result.changed += row_byte(r, c) != 255;
        continue;
      }
      const float value = decode(from, read_code(from, codes.data(), r * cols + c));
      const int shift = row_byte(r, c) - byte;
      const float shifted = shift < -126 ? value * 0.0f : std::ldexp(value, shift);
      out = with_codec(to, [&](auto codec) { return decltype(codec)::encode(shifted); });
      result.changed += static_cast<double>(decode(to, out)) != std::ldexp(static_cast<double>(value), shift);
    }
  }
  return result;
}

}  // namespace

int64_t check_to_block(Source& from, Format to, const Limits& limits, Tally& tally) {
  const Format fp4 = from.one_in(2) ? Format::kE2M1 : Format::kE1M2;
  const bool nan_as_number = from.one_in(2);
  const int64_t rows = std::min(ragged(from, 600), limits.elements / 2);
  // Now and then more tiles than the kernel takes side by side.
  int64_t cols = from.one_in(8) ? from.between(2040, 2120) : ragged(from, 600);
  cols = std::min(cols, std::max<int64_t>(limits.elements / rows, 2));
  cols += cols % 2;
  std::ostringstream text;
  text << "mx_to_block [" << rows << ", " << cols << "] " << info(fp4).name << " -> " << info(to).name
       << (nan_as_number ? ", NaN as a number" : "");
  describe(text.str());
  const Result size = allocate(rows, cols);
  const Buffer codes(static_cast<size_t>(rows * cols / 2)), scales(size.row_scales.size());
  for (size_t i = 0; i < codes.size(); ++i) codes.data()[i] = static_cast<uint8_t>(from.below(256));
  // Near each other, so that codes are exact or not; or anything, with NaN.
  const int64_t spread = from.pick<int64_t>({1, 4, 16, 40, 256}), base = from.between(0, 256 - spread);
  for (size_t i = 0; i < scales.size(); ++i) {
    scales.data()[i] = static_cast<uint8_t>(from.one_in(200) ? 255 : from.between(base, base + spread - 1));
  }
  const Result expected = reference(fp4, to, nan_as_number, codes, scales, rows, cols);
  for (const Kernels* table : tables) {
    const Result actual = allocate(rows, cols);
    const ToBlockArgs args{fp4,
                           to,
                           nan_as_number,
                           codes.data(),
                           scales.data(),
                           rows,
                           cols,
                           actual.codes.data(),
                           actual.row_scales.data(),
                           actual.column_scales.data()};
    std::atomic<int64_t> changed{0};
    Units units;
    for (const auto& [begin, end] : cut(from, ceil_div(rows, kMxBlock))) {
      units.push_back([&, begin = begin, end = end](void*) { changed += table->mx_to_block(args, begin, end); });
    }
    run(from, *table, units);
    const std::string name = std::string("mx_to_block ") + table->name;
    expect_equal(name + " codes", expected.codes, actual.codes, 1);
    expect_equal(name + " row scales", expected.row_scales, actual.row_scales, 1);
    expect_equal(name + " column scales", expected.column_scales, actual.column_scales, 1);
    if (changed != expected.changed) {
      throw Failure(name + ": " + std::to_string(changed) + " values changed, must be " +
                    std::to_string(expected.changed) + "\n  " + text.str());
    }
  }
  tally.add("mx_to_block", std::string(info(to).name), rows * cols);
  return rows * cols;
}

}  // namespace npu_lp::cpu::test
