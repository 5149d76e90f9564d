// Fault injection, the other vector kernels: HiF8 quantization, MX dequantization and the scale epilogue, each against
// a scalar reference.
#include "ascend/kernels/hif8_quant.h"
#include "ascend/kernels/mx_dequant.h"
#include "ascend/kernels/scale_epilogue.h"
#include "ascend/tiling/hif8_tiling.h"
#include "mutants_vector.h"

namespace {

using namespace npu_lp;
using namespace npu_lp::ascend;
using namespace mutants;

// --- Launches: kernels get addresses, so that no buffer is copied into the launch ---------------------------------

void run_hif8(Stream stream, const Hif8Tiling& tiling, const void* x, const void* partials, const void* y,
              const void* scale) {
  if (tiling.amax_blocks > 0) {
    NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(hif8_amax<bfloat16_t>), tiling.amax_blocks, stream, gm(x), gm(partials),
                  tiling);
  }
  NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(hif8_quant<bfloat16_t>), tiling.blocks, stream, gm(x), gm(partials), gm(y),
                gm(scale), tiling);
}

void run_dequant_last(Stream stream, const RowTiling& tiling, const void* codes, const void* scale, const void* out) {
  NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_dequant_last<ToE4M3, bfloat16_t>), tiling.blocks, stream, gm(codes), gm(scale),
                gm(out), tiling);
}

void run_dequant_axis2(Stream stream, const ColumnTiling& tiling, const void* codes, const void* scale,
                       const void* out) {
  NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(mx_dequant_axis2<ToE4M3, bfloat16_t>), tiling.blocks, stream, gm(codes),
                gm(scale), gm(out), tiling);
}

void run_epilogue(Stream stream, const EpilogueTiling& tiling, const void* acc, const void* row_scale,
                  const void* col_scale, const void* bias, const void* out) {
  NPU_LP_LAUNCH(vector, NPU_LP_KERNEL(scale_epilogue<bfloat16_t>), tiling.blocks, stream, gm(acc), gm(row_scale),
                gm(col_scale), gm(bias), gm(out), tiling);
}

// --- Cases -------------------------------------------------------------------------------------------------------

std::string hif8(const Options& options, ScalesAlong along, int64_t rows, int64_t cols, int cores) {
  const float inverse_max = 1.0f / 32768.0f;
  const Halves x = values(rows, cols);
  const Hif8Tiling tiling = hif8_tiling(FloatType::kBFloat16, along, 1, rows, cols, inverse_max, cores);
  const auto group = [&](size_t at) {
    return along == ScalesAlong::kTensor ? 0 : along == ScalesAlong::kRows ? at / cols : at % cols;
  };
  std::vector<float> wanted_scale(static_cast<size_t>(along == ScalesAlong::kTensor ? 1
                                                      : along == ScalesAlong::kRows ? rows
                                                                                    : cols));
  for (size_t i = 0; i < x.size(); ++i) {
    float& amax = wanted_scale[group(i)];
    amax = std::max(amax, std::abs(widen_bf16(x[i])));
  }
  for (float& scale : wanted_scale) scale *= inverse_max;
  Bytes wanted(x.size()), y = bytes(static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) wanted[i] = HiF8::encode(widen_bf16(x[i]) / wanted_scale[group(i)], true);
  std::vector<float> partials(static_cast<size_t>(hif8_partials(tiling))), scale(wanted_scale.size());
  Gm memory = gm_of(options, x, partials, y, scale);
  run_hif8(memory.stream(), tiling, x.data(), partials.data(), y.data(), scale.data());
  return first_of({differs("scale", as_bytes(scale), as_bytes(wanted_scale)), differs("data", y, wanted)});
}

// Codes and scales of which some products overflow bf16: no saturation there.
std::string dequant(const Options& options, bool along_last, int64_t rows, int64_t cols, int cores) {
  std::mt19937_64 random(5);
  Bytes codes(static_cast<size_t>(rows * cols)),
      scale(static_cast<size_t>(along_last ? rows * pairs_of(cols) * 2 : pairs_of(rows) * cols * 2));
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random() % 0x7F);
  for (uint8_t& byte : scale) byte = static_cast<uint8_t>(random() % 255);
  Halves wanted(codes.size()), out(codes.size(), 0xA5A5);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      const int64_t at = along_last ? row * pairs_of(cols) * 2 + col / 32 : (row / 64 * cols + col) * 2 + row / 32 % 2;
      const auto i = static_cast<size_t>(row * cols + col);
      wanted[i] = narrow_bf16(decode(Format::kE4M3, codes[i]) * e8m0_value(scale[static_cast<size_t>(at)]));
    }
  }
  Gm memory = gm_of(options, codes, scale, out);
  if (along_last) {
    const RowTiling tiling = mx_dequant_last_tiling(Format::kE4M3, FloatType::kBFloat16, rows, cols, cores);
    run_dequant_last(memory.stream(), tiling, codes.data(), scale.data(), out.data());
  } else {
    const ColumnTiling tiling = mx_dequant_axis2_tiling(Format::kE4M3, FloatType::kBFloat16, 1, rows, cols, cores);
    run_dequant_axis2(memory.stream(), tiling, codes.data(), scale.data(), out.data());
  }
  return differs("out", as_bytes(out), as_bytes(wanted));
}

std::string epilogue(const Options& options, int64_t rows, int64_t cols, int cores) {
  std::mt19937_64 random(3);
  const auto floats = [&](int64_t count) {
    std::vector<float> all(static_cast<size_t>(count));
    for (float& value : all) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 7;
    return all;
  };
  const std::vector<float> acc = floats(rows * cols), row_scale = floats(rows), col_scale = floats(cols),
                           bias = floats(cols);
  Halves wanted(acc.size()), out(acc.size(), 0xA5A5);
  for (size_t i = 0; i < acc.size(); ++i) {
    const size_t row = i / static_cast<size_t>(cols), col = i % static_cast<size_t>(cols);
    volatile float product = acc[i] * col_scale[col];  // each step rounds
    product = product * row_scale[row];
    wanted[i] = narrow_bf16(product + bias[col]);
  }
  const EpilogueTiling tiling =
      epilogue_tiling(FloatType::kBFloat16, 1, rows, cols, {true, 0, 1}, {true, 0, 1}, true, cores);
  Gm memory = gm_of(options, acc, row_scale, col_scale, bias, out);
  run_epilogue(memory.stream(), tiling, acc.data(), row_scale.data(), col_scale.data(), bias.data(), out.data());
  return differs("out", as_bytes(out), as_bytes(wanted));
}

}  // namespace

int main(int argc, char** argv) {
  using O = Options;
  return mutants::run_all({{"hif8, rows", [&](const O& o) { return hif8(o, ScalesAlong::kRows, 250, 201, 1); }},
                           {"hif8, tensor", [&](const O& o) { return hif8(o, ScalesAlong::kTensor, 201, 301, 3); }},
                           {"hif8, columns", [&](const O& o) { return hif8(o, ScalesAlong::kColumns, 301, 201, 3); }},
                           {"dequant, rows", [&](const O& o) { return dequant(o, true, 250, 201, 1); }},
                           {"dequant, columns", [&](const O& o) { return dequant(o, false, 230, 201, 1); }},
                           {"epilogue", [&](const O& o) { return epilogue(o, 30, 2501, 1); }}},
                          argc, argv);
}
