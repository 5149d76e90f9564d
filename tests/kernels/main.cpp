// Compares every kernel table that this processor can run with the scalar reference, bit by bit.
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "cases.h"
#include "formats/formats.h"

namespace {

using namespace npu_lp;
using namespace npu_lp::cpu;
using namespace npu_lp::cpu::test;

constexpr const char* kUsage =
    "usage: test_kernels [--full] [--only OP] [--isa NAME] [--values N] [--seed N]\n"
    "  --full      a million values of each op and format, instead of 65536\n"
    "  --only OP   only ops whose name contains OP: quantize_rows, quantize_cols, quantize_dual, quantize_tiles,\n"
    "              dequantize, amax_bits, encode_scaled, mx_to_block, gemm\n"
    "  --isa NAME  only this instruction set, instead of all that the processor has\n"
    "  --values N  of each op and format\n"
    "  --seed N    other shapes, strides, options and values (default 1)\n";

struct Options {
  std::string_view only, isa;
  int64_t values = 65536;
  uint64_t seed = 1;
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "test_kernels: %s\n%s", why.c_str(), kUsage);
  std::exit(2);
}

int64_t number(const char* option, const char* text) {
  char* end;
  const long long value = std::strtoll(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < 1)
    refuse(std::string(option) + " takes a number of at least 1, not " + text);
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    if (option == "--full") {
      options.values = 1 << 20;
      continue;
    }
    if (option != "--only" && option != "--isa" && option != "--values" && option != "--seed") {
      refuse("unknown argument " + std::string(option));
    }
    if (++i == argc) refuse(std::string(option) + " needs a value");
    if (option == "--only") options.only = argv[i];
    if (option == "--isa") options.isa = argv[i];
    if (option == "--values") options.values = number("--values", argv[i]);
    if (option == "--seed") options.seed = static_cast<uint64_t>(number("--seed", argv[i]));
  }
  return options;
}

// Runs cases of one op and format until enough values were compared; true if all were equal.
template <typename Check>
bool repeat(const Options& options, std::string_view op, Tally& tally, const Check& check) {
  if (op.find(options.only) == std::string_view::npos) return true;
  static uint64_t group = 0;
  uint64_t seed = options.seed * 1000003 + ++group * 7919;
  // Small cases are many, and many options are what finds faults.
  const Limits limits{4000, 1000000};
  try {
    for (int64_t done = 0; done < options.values;) {
      Source from(seed++);
      done += check(from, limits, tally);
    }
    return true;
  } catch (const Failure& failure) {
    std::printf("FAILED: %s\n", failure.what());
    return false;
  }
}

bool run_all(const Options& options) {
  bool good = true;
  Tally tally;
  constexpr std::pair<QuantOp, const char*> kQuantOps[] = {{QuantOp::kRows, "quantize_rows"},
                                                           {QuantOp::kCols, "quantize_cols"},
                                                           {QuantOp::kDual, "quantize_dual"},
                                                           {QuantOp::kTiles, "quantize_tiles"}};
  for (const auto& [op, name] : kQuantOps) {
    for (const FormatInfo& format : kFormats) {
      if (!format.is_mx) continue;
      good &= repeat(options, name, tally, [&, op = op](Source& from, const Limits& limits, Tally& t) {
        return check_quantize(from, op, format.format, limits, t);
      });
    }
    tally.print_and_clear();
  }
  for (const FormatInfo& format : kFormats) {
    if (!format.is_mx) continue;
    good &= repeat(options, "dequantize", tally, [&](Source& from, const Limits& limits, Tally& t) {
      return check_dequantize(from, format.format, limits, t);
    });
  }
  tally.print_and_clear();
  for (const FloatType type : {FloatType::kBFloat16, FloatType::kFloat16, FloatType::kFloat32}) {
    good &= repeat(options, "amax_bits", tally,
                   [&](Source& from, const Limits& limits, Tally& t) { return check_amax(from, type, limits, t); });
  }
  tally.print_and_clear();
  for (const FormatInfo& format : kFormats) {
    if (format.bits != 8) continue;
    good &= repeat(options, "encode_scaled", tally, [&](Source& from, const Limits& limits, Tally& t) {
      return check_encode(from, format.format, limits, t);
    });
  }
  tally.print_and_clear();
  for (const Format to : {Format::kE4M3, Format::kE5M2}) {
    good &= repeat(options, "mx_to_block", tally,
                   [&](Source& from, const Limits& limits, Tally& t) { return check_to_block(from, to, limits, t); });
  }
  tally.print_and_clear();
  for (const FormatInfo& a : kFormats) {
    for (const FormatInfo& b : kFormats) {
      if (a.bits != b.bits || a.is_mx != b.is_mx) continue;  // as the ops: FP4 by FP4, FP8 by FP8, HiF8 by HiF8
      good &= repeat(options, "gemm", tally, [&](Source& from, const Limits& limits, Tally& t) {
        return check_gemm(from, a.format, b.format, limits, t);
      });
    }
  }
  tally.print_and_clear();
  return good;
}

// Where this is the only program of an emulated machine, the machine stops with it: its console must have printed all.
void drain() {
  std::fflush(stdout);
  std::fflush(stderr);
  tcdrain(STDOUT_FILENO);
}

}  // namespace

int main(int argc, char** argv) {
  std::atexit(drain);
  const Options options = parse(argc, argv);
  tables = all_kernels();
  if (!options.isa.empty()) {
    const Kernels* table = kernels_named(options.isa);
    if (table == nullptr) {
      refuse("--isa " + std::string(options.isa) + " is not available on this processor, which has " +
             available_kernels());
    }
    tables = {table};
  }
  std::printf("instruction sets: %s; seed %llu\n", available_kernels(), static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  const bool good = run_all(options);
  std::puts(good ? "all equal" : "FAILED");
  return good ? 0 : 1;
}
