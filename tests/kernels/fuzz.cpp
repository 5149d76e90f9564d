// A libFuzzer target: op, formats, options, shapes, strides and values come from the fuzzer's bytes, and every kernel
// table is compared with the scalar reference.
#include <cstdio>
#include <cstdlib>

#include "cases.h"

namespace {

using namespace npu_lp;
using namespace npu_lp::cpu::test;

constexpr Format kMx[] = {Format::kE4M3, Format::kE5M2, Format::kE2M1, Format::kE1M2, Format::kE3M2, Format::kE2M3};
constexpr Format kFp8[] = {Format::kE4M3, Format::kE5M2, Format::kE3M2, Format::kE2M3};
constexpr Format kFp4[] = {Format::kE2M1, Format::kE1M2};

void check(Source& from) {
  const Limits limits{1500, 60000};
  Tally tally;
  const uint64_t op = from.below(13);
  switch (op) {
    case 0:
    case 1:
    case 2:
    case 3:
      check_quantize(from, static_cast<QuantOp>(op), kMx[from.below(6)], limits, tally);
      break;
    case 4:
      check_dequantize(from, kMx[from.below(6)], limits, tally);
      break;
    case 5:
      check_amax(from, static_cast<FloatType>(from.below(3)), limits, tally);
      break;
    case 6:
      check_encode(from, from.one_in(2) ? Format::kHiF8 : kFp8[from.below(4)], limits, tally);
      break;
    case 12:
      check_to_block(from, from.one_in(2) ? Format::kE4M3 : Format::kE5M2, limits, tally);
      break;
    case 7:
      check_gemm(from, Format::kHiF8, Format::kHiF8, limits, tally);
      break;
    case 8:
      check_gemm(from, kFp4[from.below(2)], kFp4[from.below(2)], limits, tally);
      break;
    default:
      check_gemm(from, kFp8[from.below(4)], kFp8[from.below(4)], limits, tally);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (tables.empty()) tables = npu_lp::cpu::all_kernels();
  Source from(data, size);
  try {
    check(from);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "FAILED: %s\n", failure.what());
    std::abort();
  }
  return 0;
}
