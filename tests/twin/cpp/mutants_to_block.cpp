// Fault injection, mx_to_block: shapes with every kind of tail, scales near and far below their tile's, NaN, and a
// scalar reference (docs/semantics.md).
#include <cmath>

#include "ascend/launch/quant.h"
#include "ascend/tiling/to_block_tiling.h"
#include "mutants_vector.h"

namespace {

using namespace npu_lp;
using namespace npu_lp::ascend;
using namespace mutants;

struct Converted {
  Bytes codes, scale_row, scale_col;
  uint64_t changed = 0;
};

Converted reference(Format from, Format to, bool nan_as_number, const Bytes& data, const Bytes& scale, int64_t slices,
                    int64_t rows, int64_t cols) {
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  const int64_t row_bytes = pairs_of(cols) * 2, offset = info(to).emax - info(from).emax;
  Converted c{Bytes(at(slices * rows * cols)), Bytes(scale.size()), Bytes(at(slices * pairs_of(rows) * cols * 2))};
  for (int64_t slice = 0; slice < slices; ++slice) {
    for (int64_t row = 0; row < rows; row += 32) {
      for (int64_t col = 0; col < cols; col += 32) {
        int64_t largest = 0;
        const int64_t last_row = std::min(row + 32, rows), last_col = std::min(col + 32, cols);
        const auto place = [&](int64_t r) { return at((slice * rows + r) * row_bytes + col / 32); };
        for (int64_t r = row; r < last_row; ++r) largest = std::max<int64_t>(largest, scale[place(r)]);
        const bool nan = largest == 255 && !nan_as_number;
        const int64_t byte = nan ? 255 : std::max<int64_t>(largest - offset, 0);
        for (int64_t c0 = col; c0 < last_col; ++c0) {
          c.scale_col[at(((slice * pairs_of(rows) + row / 64) * cols + c0) * 2 + row / 32 % 2)] =
              static_cast<uint8_t>(byte);
        }
        for (int64_t r = row; r < last_row; ++r) {
          c.scale_row[place(r)] = static_cast<uint8_t>(byte);
          for (int64_t c0 = col; c0 < last_col; ++c0) {
            const int64_t element = (slice * rows + r) * cols + c0;
            if (nan) {
              c.changed += scale[place(r)] != 255;
              continue;
            }
            const double value =
                std::ldexp(static_cast<double>(decode(from, data[at(element / 2)] >> (4 * (element % 2)) & 15u)),
                           static_cast<int>(scale[place(r)] - byte));
            const uint8_t code =
                with_codec(to, [&](auto codec) { return decltype(codec)::encode(static_cast<float>(value)); });
            c.codes[at(element)] = code;
            c.changed += static_cast<double>(decode(to, code)) != value;
          }
        }
      }
    }
  }
  return c;
}

std::string convert(const Options& options, Format from, Format to, int64_t slices, int64_t rows, int64_t cols,
                    int cores, bool nan_as_number) {
  std::mt19937_64 random(13);
  Bytes data = bytes(slices * rows * cols / 2), scale = bytes(slices * rows * pairs_of(cols) * 2);
  for (uint8_t& pair : data) pair = static_cast<uint8_t>(random());
  for (size_t i = 0; i < scale.size(); ++i) {
    const uint64_t kind = random() % 64;
    scale[i] = static_cast<uint8_t>(kind == 0 ? random() % 256 : 250 - random() % (kind < 32 ? 6 : 40));
    if (kind == 1 && i % 7 == 0) scale[i] = 255;
  }
  const Converted wanted = reference(from, to, nan_as_number, data, scale, slices, rows, cols);
  const ToBlockTiling tiling = mx_to_block_tiling(slices, rows, cols, cores);
  Bytes y = bytes(static_cast<int64_t>(wanted.codes.size())),
        scale_row = bytes(static_cast<int64_t>(wanted.scale_row.size())),
        scale_col = bytes(static_cast<int64_t>(wanted.scale_col.size()));
  std::vector<uint32_t> changed(static_cast<size_t>(tiling.blocks) * kToBlockCounters, 77);
  Gm memory = gm_of(options, data, scale, y, scale_row, scale_col, changed);
  launch_mx_to_block(memory.stream(), tiling, mx_to_block_table(from, to), nan_as_number, data.data(), scale.data(),
                     y.data(), scale_row.data(), scale_col.data(), changed.data());
  uint64_t sum = 0;
  for (const uint32_t count : changed) sum += count;
  return first_of({differs("row scale", scale_row, wanted.scale_row),
                   differs("column scale", scale_col, wanted.scale_col), differs("data", y, wanted.codes),
                   sum == wanted.changed ? std::string()
                                         : std::to_string(sum) + " changed, not " + std::to_string(wanted.changed)});
}

}  // namespace

int main(int argc, char** argv) {
  using O = Options;
  constexpr Format kE2M1 = Format::kE2M1, kE1M2 = Format::kE1M2, kE4M3 = Format::kE4M3, kE5M2 = Format::kE5M2;
  return mutants::run_all(
      {{"tails", [](const O& o) { return convert(o, kE2M1, kE4M3, 1, 200, 338, 2, false); }},
       {"odd blocks, slices", [](const O& o) { return convert(o, kE1M2, kE4M3, 2, 33, 70, 3, false); }},
       {"255 is a number", [](const O& o) { return convert(o, kE2M1, kE4M3, 1, 96, 128, 1, true); }},
       {"two registers", [](const O& o) { return convert(o, kE2M1, kE5M2, 1, 150, 302, 1, false); }},
       {"two registers, slices", [](const O& o) { return convert(o, kE1M2, kE5M2, 2, 64, 1096, 2, false); }}},
      argc, argv);
}
