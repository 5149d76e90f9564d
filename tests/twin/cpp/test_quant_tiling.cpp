// Tilings of the vector kernels: they fit into UB, respect what the copy instructions can count, and their units cover
// every element once. Random shapes, and those of the DeepSeek-V4 models.
#include <random>

#include "ascend/tiling/hif8_tiling.h"
#include "ascend/tiling/quant_tiling.h"
#include "ascend/tiling/to_block_tiling.h"
#include "check.h"

using namespace npu_lp;
using namespace npu_lp::ascend;

namespace {

constexpr uint64_t kMostRows = 4095;      // of one copy
constexpr uint64_t kMostBurst = 2097151;  // bytes

struct Shape {
  int64_t slices, rows, cols;
};

// Weights, activations of 8192 tokens, and experts' tokens: flash, then pro.
constexpr Shape kModels[] = {
    {1, 8192, 4096},   {1, 1024, 4096},  {1, 32768, 1024},  {1, 8192, 1024},   {1, 4096, 8192},  {8, 1024, 4096},
    {1, 512, 4096},    {1, 64, 4096},    {256, 2048, 4096}, {256, 4096, 2048}, {1, 49152, 2048}, {1, 8192, 32768},
    {1, 8192, 7168},   {1, 1536, 7168},  {1, 65536, 1536},  {1, 7168, 16384},  {16, 1024, 4096}, {384, 3072, 7168},
    {384, 7168, 3072}, {1, 49152, 3072}, {1, 8192, 65536},  {1, 8192, 129280},
};

constexpr FloatType kFloats[] = {FloatType::kBFloat16, FloatType::kFloat16, FloatType::kFloat32};
constexpr Format kMxFormats[] = {Format::kE4M3, Format::kE5M2, Format::kE2M1, Format::kE1M2};

template <typename F>
void for_shapes(F&& f) {
  for (const Shape& shape : kModels) {
    for (int cores : {56, 64, 72}) f(shape, cores);
  }
  std::mt19937_64 random(4);
  const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  for (int i = 0; i < 4000; ++i) {
    const int64_t most = int64_t{1} << up_to(16);
    f(Shape{up_to(5), up_to(most), up_to(int64_t{1} << up_to(18))}, static_cast<int>(up_to(72)));
  }
}

// Lengths of the runs that `cores` cores take of `units` add up, and none of `blocks` cores is without.
void expect_cores(uint64_t units, int32_t blocks, int cores) {
  EXPECT(blocks >= 1 && blocks <= cores);
  EXPECT(static_cast<uint64_t>(blocks) <= units);
}

// `chunks` pieces of `chunk` are `size` elements, the last piece not empty; all begin at a pair of blocks.
void expect_chunks(uint64_t size, uint64_t chunk, uint64_t chunks) {
  EXPECT(chunk > 0 && chunks > 0);
  EXPECT((chunks - 1) * chunk < size && chunks * chunk >= size);
  EXPECT(chunks == 1 || chunk % kPairElements == 0);
}

void expect_tile(uint64_t rows, uint64_t pitch, uint32_t wide, uint32_t bits, uint32_t wide_bytes,
                 uint32_t narrow_bytes) {
  EXPECT(rows >= 1 && rows <= kMostRows);
  EXPECT(rows * pitch * wide <= kMostBurst);
  EXPECT(rows * pitch * wide + 128 <= wide_bytes);
  EXPECT(rows * pitch * bits / 8 <= narrow_bytes);
  EXPECT(pitch * bits / 8 % 32 == 0);
  EXPECT(rows * pitch / 64 <= UINT16_MAX);  // loop counters of vector functions
}

void expect_aligned(std::initializer_list<uint32_t> bytes) {
  for (uint32_t n : bytes) EXPECT(n % 32 == 0);
}

void check_rows(const RowTiling& t, const Shape& shape, FloatType type, Format format, int cores) {
  const uint32_t wide = bytes_of(type), bits = static_cast<uint32_t>(info(format).bits);
  const uint64_t pitch = align_up(t.chunk, kPairElements);
  EXPECT(t.rows == static_cast<uint64_t>(shape.slices * shape.rows) && t.cols == static_cast<uint64_t>(shape.cols));
  EXPECT(t.chunks == 1 || t.tile_rows == 1);
  expect_chunks(t.cols, t.chunk, t.chunks);
  expect_cores(t.rows * t.chunks, t.blocks, cores);
  expect_tile(t.tile_rows, pitch, wide, bits, t.wide_bytes, t.narrow_bytes);
  expect_aligned({t.wide_bytes, t.narrow_bytes, t.scale_bytes, t.amax_bytes, t.multiplier_bytes});
  const uint64_t blocks = t.tile_rows * pitch / 32;
  EXPECT(t.scale_bytes >= blocks && t.amax_bytes >= blocks * wide && t.multiplier_bytes >= blocks * 8);
  EXPECT(ub_bytes(t) <= kUbBytes);
  // Copies of 16 KB wherever each core has four tiles' worth of them.
  if (t.rows * pitch * t.chunks * wide >= 65536ull * static_cast<uint64_t>(cores) && pitch <= 2048) {
    EXPECT(t.tile_rows * pitch * wide > 16384 - pitch * wide);
  }
}

void check_columns(const ColumnTiling& t, uint64_t pairs, FloatType type, Format format, const ColumnUse& use,
                   int cores) {
  const uint32_t wide = bytes_of(type), bits = static_cast<uint32_t>(info(format).bits);
  const uint64_t pitch = align_up(t.chunk, kPairElements);
  EXPECT(t.pairs == pairs);
  EXPECT(t.tile_pairs == 1 || (t.chunks == 1 && use.may_stack));
  expect_chunks(t.inner, t.chunk, t.chunks);
  expect_cores(t.slices * divide_up(pairs, t.tile_pairs) * t.chunks, t.blocks, cores);
  expect_tile(t.tile_pairs * kPairElements, pitch, wide, bits, t.wide_bytes, t.narrow_bytes);
  expect_aligned(
      {t.wide_bytes, t.narrow_bytes, t.column_scale_bytes, t.row_scale_bytes, t.amax_bytes, t.multiplier_bytes});
  EXPECT(t.column_scale_bytes >= t.tile_pairs * pitch * 2);
  if (use.row_scales && !use.tiles) {
    EXPECT(t.row_scale_bytes >= 2 * pitch && t.amax_bytes >= 2 * pitch * wide && t.multiplier_bytes >= 16 * pitch);
  }
  if (use.tiles) EXPECT(pitch <= 1024 && t.amax_bytes >= (2 * align_up(pitch, 256) + 128) * wide);
  EXPECT(ub_bytes(t, use.outputs) <= kUbBytes);
}

}  // namespace

TEST(rows) {
  for_shapes([](const Shape& shape, int cores) {
    for (FloatType type : kFloats) {
      for (Format format : kMxFormats) {
        QuantSpec spec;
        spec.input = type;
        spec.format = format;
        check_rows(mx_quant_last_tiling(spec, shape.slices * shape.rows, shape.cols, cores), shape, type, format,
                   cores);
        check_rows(mx_dequant_last_tiling(format, type, shape.slices * shape.rows, shape.cols, cores), shape, type,
                   format, cores);
      }
    }
  });
}

TEST(columns) {
  for_shapes([](const Shape& shape, int cores) {
    for (FloatType type : kFloats) {
      for (Format format : kMxFormats) {
        QuantSpec spec;
        spec.input = type;
        spec.format = format;
        const auto [slices, rows, cols] = shape;
        const bool merged = rows % 64 == 0;
        const uint64_t pairs = divide_up(static_cast<uint64_t>(merged ? slices * rows : rows), 64);
        check_columns(mx_quant_axis2_tiling(spec, slices, rows, cols, cores), pairs, type, format,
                      {1, false, false, true}, cores);
        check_columns(mx_quant_dual_tiling(spec, slices, rows, cols, cores), pairs, type, format,
                      {2, true, false, false}, cores);
        check_columns(mx_quant_block_tiling(spec, slices, rows, cols, cores), pairs, type, format,
                      {1, true, true, false}, cores);
        check_columns(mx_dequant_axis2_tiling(format, type, slices, rows, cols, cores), pairs, type, format, {}, cores);
        check_columns(mx_quant_grouped_tiling(spec, rows, cols, slices, cores),
                      static_cast<uint64_t>(rows / 64 + slices), type, format, {}, cores);
      }
    }
  });
}

TEST(to_block) {
  for_shapes([](const Shape& shape, int cores) {
    const auto [slices, rows, half] = shape;
    const int64_t cols = 2 * half;
    const ToBlockTiling t = mx_to_block_tiling(slices, rows, cols, cores);
    const uint64_t pitch = align_up(t.chunk, kPairElements);
    EXPECT(t.slices * t.rows == static_cast<uint64_t>(slices * rows) && t.cols == static_cast<uint64_t>(cols));
    EXPECT(t.strips == divide_up(t.rows, kPairElements) && (t.slices == 1 || t.rows % kPairElements != 0));
    EXPECT(pitch <= kToBlockColumns);
    expect_chunks(t.cols, t.chunk, t.chunks);
    expect_cores(t.slices * t.strips * t.chunks, t.blocks, cores);
    EXPECT(t.code_bytes >= kPairElements * pitch / 2 + 128 && t.out_bytes >= kPairElements * pitch);
    EXPECT(t.row_scale_bytes >= kPairElements * 32 && t.column_scale_bytes >= align_up(pitch, 128) * 2);
    expect_aligned({t.code_bytes, t.out_bytes, t.row_scale_bytes, t.column_scale_bytes});
    EXPECT(ub_bytes(t) <= kUbBytes);
  });
}

// Every class of the table is where the kernel looks it up, and says what the formats' codecs say.
TEST(to_block_table) {
  for (Format from : {Format::kE2M1, Format::kE1M2}) {
    for (Format to : {Format::kE4M3, Format::kE5M2}) {
      const ToBlockTable table = mx_to_block_table(from, to);
      EXPECT(table.zero + 2 < 62 && table.registers == (table.zero + 2 < 32 ? 1u : 2u));
      for (uint32_t of_class = 0; of_class <= table.zero + 2; ++of_class) {
        const uint64_t found = table.registers == 1 ? table.entries[of_class]
                                                    : table.entries[std::min(of_class, 31u)] |
                                                          table.entries[32 + std::max(of_class, 30u) % 32];
        for (uint32_t magnitude = 0; magnitude < 8; ++magnitude) {
          const auto byte = static_cast<uint32_t>(found >> (8 * magnitude) & 0xFF);
          const double value = std::ldexp(static_cast<double>(decode(from, magnitude)),
                                          static_cast<int>(table.offset) - static_cast<int>(of_class));
          const uint8_t code =
              with_codec(to, [&](auto codec) { return decltype(codec)::encode(static_cast<float>(value)); });
          if (of_class <= table.zero) {
            EXPECT((byte & 0x7F) == code && (byte >> 7 != 0) == (static_cast<double>(decode(to, code)) != value));
            EXPECT(of_class < table.zero || code == 0);
          } else {
            EXPECT(byte == (of_class == table.zero + 2 ? 0x80u : 0u));
          }
        }
      }
    }
  }
}

TEST(hif8) {
  for_shapes([](const Shape& shape, int cores) {
    const auto [slices, rows, cols] = shape;
    for (FloatType type : kFloats) {
      for (ScalesAlong along : {ScalesAlong::kTensor, ScalesAlong::kRows, ScalesAlong::kColumns}) {
        const Hif8Tiling t = hif8_tiling(type, along, slices, rows, cols, 1.0f, cores);
        const uint64_t pitch = align_up(t.chunk, kPairElements), all = static_cast<uint64_t>(slices * rows * cols);
        EXPECT(t.slices * t.rows * t.cols == all);
        EXPECT(t.parts <= kMostParts && (t.parts == 0) == (t.amax_blocks == 0));
        expect_chunks(t.cols, t.chunk, t.chunks);
        expect_tile(t.tile_rows, pitch, bytes_of(type), 8, t.wide_bytes, t.narrow_bytes);
        expect_aligned({t.wide_bytes, t.narrow_bytes, t.scale_bytes, t.partial_bytes, t.amax_bytes});
        EXPECT(ub_bytes(t) <= kUbBytes && amax_ub_bytes(t) <= kUbBytes);
        if (along == ScalesAlong::kColumns) {
          EXPECT(t.part % t.tile_rows == 0 && (t.parts - 1) * t.part < t.rows && t.parts * t.part >= t.rows);
          EXPECT(t.partial_bytes >= t.parts * pitch * 4);
        } else if (t.parts > 0) {
          EXPECT(t.tile_rows == 1 && t.part % t.chunk == 0);
          EXPECT((t.parts - 1) * t.part < t.cols && t.parts * t.part >= t.cols);
        } else {
          EXPECT(t.chunks == 1);
        }
      }
    }
  });
}

TEST(epilogue) {
  for_shapes([](const Shape& shape, int cores) {
    for (FloatType type : kFloats) {
      const EpilogueTiling t =
          epilogue_tiling(type, shape.slices, shape.rows, shape.cols, {true, shape.rows, 1}, {}, true, cores);
      expect_chunks(t.cols, t.chunk, t.chunks);
      expect_cores(t.slices * t.chunks * divide_up(t.rows, t.tile_rows), t.blocks, cores);
      expect_tile(t.tile_rows, align_up(t.chunk, kPairElements), 4, 8 * bytes_of(type), t.acc_bytes, t.out_bytes);
      expect_aligned({t.acc_bytes, t.out_bytes, t.row_scale_bytes, t.column_bytes});
      EXPECT(t.row_scale_bytes >= t.tile_rows * 4 && t.column_bytes >= t.chunk * 4);
      EXPECT(ub_bytes(t) <= kUbBytes);
    }
  });
}

TEST(empty) {
  for (const Shape& shape : {Shape{0, 4, 4}, Shape{1, 0, 4}, Shape{1, 4, 0}}) {
    const auto [slices, rows, cols] = shape;
    const QuantSpec spec;
    EXPECT(mx_quant_last_tiling(spec, slices * rows, cols, 64).blocks == 0);
    EXPECT(mx_quant_axis2_tiling(spec, slices, rows, cols, 64).blocks == 0);
    EXPECT(mx_quant_dual_tiling(spec, slices, rows, cols, 64).blocks == 0);
    EXPECT(hif8_tiling(FloatType::kFloat32, ScalesAlong::kColumns, slices, rows, cols, 1.0f, 64).blocks == 0);
    EXPECT(mx_to_block_tiling(slices, rows, cols, 64).blocks == 0);
    EXPECT(epilogue_tiling(FloatType::kFloat32, slices, rows, cols, {}, {}, false, 64).blocks == 0);
  }
  const QuantSpec spec;
  EXPECT(mx_quant_grouped_tiling(spec, 0, 64, 0, 64).blocks == 0);
  EXPECT(mx_quant_grouped_tiling(spec, 0, 64, 3, 64).blocks == 3);   // rows of zero scales
  EXPECT(mx_quant_grouped_tiling(spec, 40, 64, 0, 64).blocks == 1);  // codes to be zeroed, no scales
}

int main() {
  return check::run_all();
}
