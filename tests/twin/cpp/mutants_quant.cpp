// Fault injection, MX quantization: one or two instances of each kernel, on shapes with every kind of tail, and a
// scalar reference of what they compute (csrc/formats).
#include "ascend/kernels/mx_quant_block.h"
#include "ascend/kernels/mx_quant_dual.h"
#include "ascend/kernels/mx_quant_grouped.h"
#include "ascend/kernels/mx_quant_last.h"
#include "ascend/tiling/quant_tiling.h"
#include "mutants_vector.h"

namespace {

using namespace npu_lp;
using namespace npu_lp::ascend;
using namespace mutants;

// --- Reference ---------------------------------------------------------------------------------------------------

uint32_t scale_byte(const QuantSpec& spec, uint32_t amax) {
  return spec.rule == ScaleRule::kRceil ? scale_rceil(amax, 1.0f / info(spec.format).max_value)
                                        : scale_floor(amax, info(spec.format).emax);
}

void put(Bytes& codes, const QuantSpec& spec, int64_t at, uint16_t x, uint32_t byte) {
  const float value = widen_bf16(x) * e8m0_reciprocal(byte);
  const uint8_t code =
      with_codec(spec.format, [&](auto codec) { return decltype(codec)::encode(value, spec.rounding); });
  if (info(spec.format).bits == 8) {
    codes[static_cast<size_t>(at)] = code;
  } else {
    uint8_t& pair = codes[static_cast<size_t>(at / 2)];
    pair = static_cast<uint8_t>(at % 2 == 0 ? (pair & 0xF0) | code : (pair & 0x0F) | code << 4);
  }
}

// Blocks of `height` x `width` elements of rows [begin, end) of x: calls scaled(first row, first column, byte) for
// each.
template <typename F>
void quantize_blocks(const QuantSpec& spec, const Halves& x, int64_t begin, int64_t end, int64_t cols, int64_t height,
                     int64_t width, Bytes& codes, F&& scaled) {
  for (int64_t row = begin; row < end; row += height) {
    for (int64_t col = 0; col < cols; col += width) {
      const int64_t last_row = std::min(row + height, end), last_col = std::min(col + width, cols);
      uint32_t amax = 0;
      const auto each = [&](auto&& f) {
        for (int64_t r = row; r < last_row; ++r) {
          for (int64_t c = col; c < last_col; ++c) f(r * cols + c);
        }
      };
      each([&](int64_t at) { amax = std::max(amax, (x[static_cast<size_t>(at)] & 0x7FFFu) << 16); });
      const uint32_t byte = scale_byte(spec, amax);
      each([&](int64_t at) { put(codes, spec, at, x[static_cast<size_t>(at)], byte); });
      scaled(row, col, static_cast<uint8_t>(byte));
    }
  }
}

struct Quantized {
  Bytes codes, scale;
};

Quantized along_rows(const QuantSpec& spec, const Halves& x, int64_t rows, int64_t cols) {
  Quantized q{Bytes(x.size() * static_cast<size_t>(info(spec.format).bits) / 8),
              Bytes(static_cast<size_t>(rows * pairs_of(cols) * 2))};
  quantize_blocks(spec, x, 0, rows, cols, 1, 32, q.codes, [&](int64_t row, int64_t col, uint8_t byte) {
    q.scale[static_cast<size_t>(row * pairs_of(cols) * 2 + col / 32)] = byte;
  });
  return q;
}

// Rows in groups of which each has scales of its own, from the row of pairs that first_line(group) gives.
template <typename F>
Quantized along_columns(const QuantSpec& spec, const Halves& x, const std::vector<int64_t>& ends, int64_t cols,
                        int64_t lines, F&& first_line) {
  Quantized q{Bytes(x.size() * static_cast<size_t>(info(spec.format).bits) / 8),
              Bytes(static_cast<size_t>(lines * cols * 2))};
  int64_t begin = 0;
  for (size_t group = 0; group < ends.size(); ++group) {
    const int64_t line = first_line(static_cast<int64_t>(group), begin);
    quantize_blocks(spec, x, begin, ends[group], cols, 32, 1, q.codes, [&](int64_t row, int64_t col, uint8_t byte) {
      const int64_t block = (row - begin) / 32;
      q.scale[static_cast<size_t>(((line + block / 2) * cols + col) * 2 + block % 2)] = byte;
    });
    begin = ends[group];
  }
  return q;
}

Quantized along_columns_of_slices(const QuantSpec& spec, const Halves& x, int64_t slices, int64_t rows, int64_t cols) {
  std::vector<int64_t> ends;
  for (int64_t slice = 1; slice <= slices; ++slice) ends.push_back(slice * rows);
  return along_columns(spec, x, ends, cols, slices * pairs_of(rows),
                       [&](int64_t slice, int64_t) { return slice * pairs_of(rows); });
}

QuantSpec spec_of(Format format, ScaleRule rule = ScaleRule::kFloor) {
  QuantSpec spec;
  spec.format = format;
  spec.rule = rule;
  return spec;
}

// --- Launches: kernels get addresses, so that no buffer is copied into the launch ---------------------------------

template <typename To>
void run_last(Stream stream, const RowTiling& tiling, const QuantRule& rule, const void* x, const void* y,
              const void* scale) {
  NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_quant_last<bfloat16_t, To>), tiling.blocks, stream, gm(x), gm(y), gm(scale),
                tiling, rule);
}

template <typename To>
void run_axis2(Stream stream, const ColumnTiling& tiling, const QuantRule& rule, const void* x, const void* y,
               const void* scale) {
  NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_quant_axis2<bfloat16_t, To>), tiling.blocks, stream, gm(x), gm(y), gm(scale),
                tiling, rule);
}

void run_dual(Stream stream, const ColumnTiling& tiling, const QuantRule& rule, const void* x, const void* y_row,
              const void* scale_row, const void* y_col, const void* scale_col) {
  NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_quant_dual<bfloat16_t, ToE4M3>), tiling.blocks, stream, gm(x), gm(y_row),
                gm(scale_row), gm(y_col), gm(scale_col), tiling, rule, rule);
}

void run_grouped(Stream stream, const ColumnTiling& tiling, const QuantRule& rule, const void* x, const void* ends,
                 const void* y, const void* scale) {
  NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_quant_grouped<bfloat16_t, ToE4M3>), tiling.blocks, stream, gm(x), gm(ends),
                gm(y), gm(scale), tiling, rule);
}

void run_block(Stream stream, const ColumnTiling& tiling, const QuantRule& rule, const void* x, const void* y,
               const void* scale_row, const void* scale_col) {
  NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_quant_block<bfloat16_t, ToE4M3>), tiling.blocks, stream, gm(x), gm(y),
                gm(scale_row), gm(scale_col), tiling, rule);
}

// --- Cases -------------------------------------------------------------------------------------------------------

template <typename To>
std::string last(const Options& options, const QuantSpec& spec, int64_t rows, int64_t cols, int cores) {
  const Halves x = values(rows, cols);
  const RowTiling tiling = mx_quant_last_tiling(spec, rows, cols, cores);
  const Quantized wanted = along_rows(spec, x, rows, cols);
  Bytes y = bytes(static_cast<int64_t>(wanted.codes.size())), scale = bytes(static_cast<int64_t>(wanted.scale.size()));
  Gm memory = gm_of(options, x, y, scale);
  run_last<To>(memory.stream(), tiling, quant_rule(spec), x.data(), y.data(), scale.data());
  return first_of({differs("scale", scale, wanted.scale), differs("data", y, wanted.codes)});
}

template <typename To>
std::string axis2(const Options& options, const QuantSpec& spec, int64_t slices, int64_t rows, int64_t cols,
                  int cores) {
  const Halves x = values(slices * rows, cols);
  const ColumnTiling tiling = mx_quant_axis2_tiling(spec, slices, rows, cols, cores);
  const Quantized wanted = along_columns_of_slices(spec, x, slices, rows, cols);
  Bytes y = bytes(static_cast<int64_t>(wanted.codes.size())), scale = bytes(static_cast<int64_t>(wanted.scale.size()));
  Gm memory = gm_of(options, x, y, scale);
  run_axis2<To>(memory.stream(), tiling, quant_rule(spec), x.data(), y.data(), scale.data());
  return first_of({differs("scale", scale, wanted.scale), differs("data", y, wanted.codes)});
}

std::string dual(const Options& options, int64_t slices, int64_t rows, int64_t cols, int cores) {
  const QuantSpec spec = spec_of(Format::kE4M3);
  const Halves x = values(slices * rows, cols);
  const ColumnTiling tiling = mx_quant_dual_tiling(spec, slices, rows, cols, cores);
  const Quantized row = along_rows(spec, x, slices * rows, cols);
  const Quantized col = along_columns_of_slices(spec, x, slices, rows, cols);
  Bytes y_row = bytes(static_cast<int64_t>(x.size())), y_col = y_row;
  Bytes scale_row = bytes(static_cast<int64_t>(row.scale.size())),
        scale_col = bytes(static_cast<int64_t>(col.scale.size()));
  Gm memory = gm_of(options, x, y_row, y_col, scale_row, scale_col);
  run_dual(memory.stream(), tiling, quant_rule(spec), x.data(), y_row.data(), scale_row.data(), y_col.data(),
           scale_col.data());
  return first_of({differs("row scale", scale_row, row.scale), differs("row data", y_row, row.codes),
                   differs("column scale", scale_col, col.scale), differs("column data", y_col, col.codes)});
}

std::string grouped(const Options& options, const std::vector<int64_t>& ends, int64_t rows, int64_t cols, int cores) {
  const QuantSpec spec = spec_of(Format::kE4M3);
  const Halves x = values(rows, cols);
  const auto groups = static_cast<int64_t>(ends.size());
  const ColumnTiling tiling = mx_quant_grouped_tiling(spec, rows, cols, groups, cores);
  const Quantized wanted = along_columns(spec, x, ends, cols, rows / 64 + groups,
                                         [](int64_t group, int64_t begin) { return begin / 64 + group; });
  Bytes y = bytes(static_cast<int64_t>(x.size())), scale = bytes(static_cast<int64_t>(wanted.scale.size()));
  Gm memory = gm_of(options, x, ends, y, scale);
  run_grouped(memory.stream(), tiling, quant_rule(spec), x.data(), ends.data(), y.data(), scale.data());
  return first_of({differs("scale", scale, wanted.scale), differs("data", y, wanted.codes)});
}

std::string block(const Options& options, int64_t rows, int64_t cols, int cores) {
  const QuantSpec spec = spec_of(Format::kE4M3);
  const Halves x = values(rows, cols);
  const ColumnTiling tiling = mx_quant_block_tiling(spec, 1, rows, cols, cores);
  Bytes codes(x.size()), row_scale(static_cast<size_t>(rows * pairs_of(cols) * 2)),
      col_scale(static_cast<size_t>(pairs_of(rows) * cols * 2));
  quantize_blocks(spec, x, 0, rows, cols, 32, 32, codes, [&](int64_t row, int64_t col, uint8_t byte) {
    for (int64_t r = row; r < std::min(row + 32, rows); ++r) {
      row_scale[static_cast<size_t>(r * pairs_of(cols) * 2 + col / 32)] = byte;
    }
    for (int64_t c = col; c < std::min(col + 32, cols); ++c) {
      col_scale[static_cast<size_t>((row / 64 * cols + c) * 2 + row / 32 % 2)] = byte;
    }
  });
  Bytes y = bytes(static_cast<int64_t>(codes.size())), scale_row = bytes(static_cast<int64_t>(row_scale.size())),
        scale_col = bytes(static_cast<int64_t>(col_scale.size()));
  Gm memory = gm_of(options, x, y, scale_row, scale_col);
  run_block(memory.stream(), tiling, quant_rule(spec), x.data(), y.data(), scale_row.data(), scale_col.data());
  return first_of({differs("row scale", scale_row, row_scale), differs("column scale", scale_col, col_scale),
                   differs("data", y, codes)});
}

}  // namespace

int main(int argc, char** argv) {
  using O = Options;
  const QuantSpec e4m3 = spec_of(Format::kE4M3), e4m3_rceil = spec_of(Format::kE4M3, ScaleRule::kRceil);
  const QuantSpec e2m1 = spec_of(Format::kE2M1, ScaleRule::kRceil);
  using ToE2M1Rint = ToE2M1<RoundMode::CAST_RINT>;
  return mutants::run_all(
      {{"last, rows", [&](const O& o) { return last<ToE4M3>(o, e4m3, 250, 200, 1); }},
       {"last, odd blocks", [&](const O& o) { return last<ToE4M3>(o, e4m3_rceil, 7, 70, 2); }},
       {"last, pieces", [&](const O& o) { return last<ToE4M3>(o, e4m3_rceil, 2, 20100, 5); }},
       {"last, fp4", [&](const O& o) { return last<ToE2M1Rint>(o, e2m1, 130, 202, 2); }},
       {"axis 2", [&](const O& o) { return axis2<ToE4M3>(o, e4m3, 2, 100, 201, 2); }},
       {"axis 2, short rows", [&](const O& o) { return axis2<ToE4M3>(o, e4m3_rceil, 1, 1100, 20, 1); }},
       {"axis 2, fp4", [&](const O& o) { return axis2<ToE2M1Rint>(o, e2m1, 1, 300, 70, 1); }},
       {"dual", [&](const O& o) { return dual(o, 2, 230, 203, 2); }},
       {"grouped", [&](const O& o) { return grouped(o, {70, 70, 190, 260}, 300, 201, 3); }},
       {"block", [&](const O& o) { return block(o, 230, 301, 1); }}},
      argc, argv);
}
