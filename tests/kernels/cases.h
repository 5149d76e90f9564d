// A case is one call with everything chosen: formats, options, shape, strides, values. The test program takes the
// formats and options one after another and the rest at random; the fuzzer takes everything from its bytes.
#pragma once

#include "harness.h"

namespace npu_lp::cpu::test {

struct Limits {
  int64_t elements;    // of a quantizer's or dequantizer's tensor
  int64_t multiplies;  // m * n * k of a matmul
};

enum class QuantOp { kRows, kCols, kDual, kTiles };

// Each checks one case with every table, adds what it compared, and returns that number.
int64_t check_quantize(Source& from, QuantOp op, Format format, const Limits& limits, Tally& tally);
int64_t check_dequantize(Source& from, Format format, const Limits& limits, Tally& tally);
int64_t check_amax(Source& from, FloatType type, const Limits& limits, Tally& tally);
int64_t check_encode(Source& from, Format format, const Limits& limits, Tally& tally);
int64_t check_to_block(Source& from, Format to, const Limits& limits, Tally& tally);
int64_t check_gemm(Source& from, Format a, Format b, const Limits& limits, Tally& tally);

}  // namespace npu_lp::cpu::test
