// Argument checks of every op, shared by all backends, in one fixed order: names, dtypes, ranks, sizes, devices. Each
// error says what was given, what is allowed and what to do.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/quant_spec.h"

namespace npu_lp {

using at::Tensor;

struct QuantOptions {
  std::string_view fmt;
  std::string_view scale_rule;
  int64_t block_size = kMxBlock;
  std::string_view underflow = "ocp";
  std::string_view rounding = "rint";
  double dst_max = 0.0;
  double max_low_bound = 0.0;
  std::optional<at::Generator> generator = std::nullopt;
};

// What only the CPU backend has (formats, block sizes and roundings that Ascend 950 lacks) is refused elsewhere.
void check_emulation_device(const char* op, const Tensor& x, bool emulated, std::string_view what);

// 32, or for research on the CPU 16, 64 or 128.
void check_block_size(const char* op, const Tensor& x, int64_t block_size);

FloatType input_type(const char* op, const Tensor& x);

// A format by name, from those that `op` takes.
const FormatInfo& parse_format(const char* op, std::string_view name, bool mx_only = true);

// Checks names, their combinations (semantics.md section 1, "Accepted values") and x's dtype.
QuantSpec parse_quant_spec(const char* op, const Tensor& x, const QuantOptions& options);

// Axis of x, counted from the front. FP4 needs an even last dimension, since two elements share a byte.
int64_t check_axis(const char* op, const Tensor& x, int64_t axis, const FormatInfo& fmt);

// 1-D int32 or int64 end offsets on x's device. Values are checked by check_offsets_values, where there are values.
void check_offsets(const char* op, const Tensor& offs, const Tensor& like);

// End offsets as int64, ascending from 0, the last at most `rows`.
std::vector<int64_t> offsets_values(const char* op, const Tensor& offs, int64_t rows);

// The format of stored codes: fp8 dtypes name their own; uint8 needs `fmt`.
const FormatInfo& format_of(const char* op, const char* argument, const Tensor& codes,
                            std::optional<std::string_view> fmt, bool mx_only = true);

// fp32, one value for each of the n columns of the result.
void check_bias(const char* op, const Tensor& x1, const std::optional<Tensor>& bias, const c10::SymInt& n);

// The leading dimensions of a product of batches of matrices.
std::vector<c10::SymInt> broadcast_batches(const char* op, const Tensor& x1, const Tensor& x2,
                                           const char* first = "x1");

void check_scale_dtype(const char* op, const char* argument, const Tensor& scale);
// torch's name of a dtype, as Python shows it: "bfloat16".
std::string dtype_name(at::ScalarType dtype);

void check_same_device(const char* op, const Tensor& first, const char* argument, const Tensor& other);
void check_out_dtype(const char* op, at::ScalarType dtype);

// The torch dtype that stores a format's codes: its own for e4m3 and e5m2, uint8 for the others.
at::ScalarType storage_dtype(const FormatInfo& fmt);

FloatType float_type(at::ScalarType dtype);

}  // namespace npu_lp
