#include "ops/arguments.h"

#include <ATen/ATen.h>

#include <cctype>
#include <cmath>
#include <sstream>

namespace npu_lp {

namespace {

template <typename Value>
using Named = std::pair<std::string_view, Value>;

template <typename Value, size_t N>
Value parse_name(const char* op, const char* argument, std::string_view given, const Named<Value> (&known)[N]) {
  std::ostringstream allowed;
  for (const auto& [name, value] : known) {
    if (name == given) return value;
    allowed << (allowed.tellp() > 0 ? ", " : "") << '"' << name << '"';
  }
  TORCH_CHECK_VALUE(false, "npu_lp.", op, ": ", argument, "=\"", given, "\" is unknown. Pass one of ", allowed.str(),
                    ".");
}

constexpr Named<ScaleRule> kRules[] = {
    {"floor", ScaleRule::kFloor}, {"rceil", ScaleRule::kRceil}, {"dtype_range", ScaleRule::kDtypeRange}};
constexpr Named<Rounding> kRoundings[] = {{"rint", Rounding::kRint},
                                          {"round", Rounding::kRound},
                                          {"floor", Rounding::kFloor},
                                          {"stochastic", Rounding::kStochastic}};
constexpr Named<Underflow> kUnderflows[] = {
    {"ocp", Underflow::kOcp}, {"flush_emax", Underflow::kFlushEmax}, {"flush_subnormal", Underflow::kFlushSubnormal}};

void check_ranges(const char* op, const FormatInfo& fmt, ScaleRule rule, const QuantOptions& options) {
  const double dst_max = options.dst_max, bound = options.max_low_bound;
  TORCH_CHECK_VALUE(dst_max == 0.0 || rule == ScaleRule::kDtypeRange, "npu_lp.", op, ": dst_max=", dst_max,
                    " has a meaning for scale_rule=\"dtype_range\" only. Leave it at 0.");
  const double lowest = fmt.format == Format::kE1M2 ? 1.75 : 6.0, highest = 2.0 * lowest;
  TORCH_CHECK_VALUE(dst_max == 0.0 || (dst_max >= lowest && dst_max <= highest), "npu_lp.", op, ": dst_max=", dst_max,
                    " is out of range. For ", fmt.name, " pass 0 (the format's maximum) or a value from ", lowest,
                    " to ", highest, ".");
  TORCH_CHECK_VALUE(bound >= 0.0 && std::isfinite(bound), "npu_lp.", op, ": max_low_bound=", bound,
                    " must be a finite number of at least 0.");
  TORCH_CHECK_VALUE(bound == 0.0 || rule == ScaleRule::kRceil, "npu_lp.", op, ": max_low_bound=", bound,
                    " has a meaning for scale_rule=\"rceil\" only. Leave it at 0.");
}

}  // namespace

FloatType input_type(const char* op, const Tensor& x) {
  switch (x.scalar_type()) {
    case at::kBFloat16:
      return FloatType::kBFloat16;
    case at::kHalf:
      return FloatType::kFloat16;
    case at::kFloat:
      return FloatType::kFloat32;
    default:
      TORCH_CHECK_TYPE(
          false, "npu_lp.", op, ": x has dtype ", dtype_name(x.scalar_type()),
          ", but only bfloat16, float16 and float32 can be quantized. Convert it with x.to(torch.bfloat16).");
  }
}

const FormatInfo& parse_format(const char* op, std::string_view name, bool mx_only) {
  std::ostringstream allowed;
  for (const FormatInfo& fmt : kFormats) {
    if (mx_only && !fmt.is_mx) continue;
    if (fmt.name == name) return fmt;
    allowed << (allowed.tellp() > 0 ? ", " : "") << '"' << fmt.name << '"';
  }
  TORCH_CHECK_VALUE(false, "npu_lp.", op, ": fmt=\"", name, "\" is unknown here. Pass one of ", allowed.str(), ".");
}

QuantSpec parse_quant_spec(const char* op, const Tensor& x, const QuantOptions& options) {
  const FormatInfo& fmt = parse_format(op, options.fmt);
  QuantSpec spec;
  spec.format = fmt.format;
  spec.rule = parse_name(op, "scale_rule", options.scale_rule, kRules);
  spec.rounding = parse_name(op, "rounding", options.rounding, kRoundings);
  spec.underflow = parse_name(op, "underflow", options.underflow, kUnderflows);
  spec.input = input_type(op, x);
  const bool fp4 = fmt.bits == 4;
  const bool stochastic = spec.rounding == Rounding::kStochastic;
  TORCH_CHECK_VALUE(fp4 || stochastic || spec.rounding == Rounding::kRint, "npu_lp.", op, ": rounding=\"",
                    options.rounding, "\" exists for FP4 only; with fmt=\"", fmt.name,
                    "\" pass rounding=\"rint\", or \"stochastic\" for research.");
  TORCH_CHECK_VALUE(stochastic || !options.generator.has_value(), "npu_lp.", op,
                    ": a generator was given, but rounding=\"", options.rounding,
                    "\" draws no random numbers. Leave it out, or pass rounding=\"stochastic\".");
  check_emulation_device(op, x, stochastic, "rounding=\"stochastic\"");
  check_emulation_device(op, x, !fmt.on_npu, fmt.name);
  TORCH_CHECK_VALUE(!fp4 || spec.rule != ScaleRule::kRceil, "npu_lp.", op,
                    ": scale_rule=\"rceil\" exists for FP8; with fmt=\"", fmt.name,
                    "\" pass scale_rule=\"floor\" or \"dtype_range\".");
  TORCH_CHECK_VALUE(fp4 || spec.rule != ScaleRule::kDtypeRange, "npu_lp.", op,
                    ": scale_rule=\"dtype_range\" exists for FP4; with fmt=\"", fmt.name,
                    "\" pass scale_rule=\"floor\" or \"rceil\".");
  check_ranges(op, fmt, spec.rule, options);
  spec.dst_max = static_cast<float>(options.dst_max);
  spec.max_low_bound = static_cast<float>(options.max_low_bound);
  check_block_size(op, x, options.block_size);
  spec.block = options.block_size;
  return spec;
}

void check_emulation_device(const char* op, const Tensor& x, bool emulated, std::string_view what) {
  TORCH_CHECK_VALUE(!emulated || x.is_cpu() || x.is_meta(), "npu_lp.", op, ": ", what,
                    " is emulated on the CPU only, and x is on ", x.device(), ". Move it with x.cpu().");
}

void check_block_size(const char* op, const Tensor& x, int64_t block_size) {
  TORCH_CHECK_VALUE(block_size == 16 || block_size == 32 || block_size == 64 || block_size == 128, "npu_lp.", op,
                    ": block_size=", block_size,
                    " is not supported. Pass 32, the block of MX formats, or for research 16, 64 or 128.");
  check_emulation_device(op, x, block_size != kMxBlock, "a block_size other than 32");
}

int64_t check_axis(const char* op, const Tensor& x, int64_t axis, const FormatInfo& fmt) {
  const int64_t rank = x.dim();
  TORCH_CHECK_VALUE(rank >= 1, "npu_lp.", op, ": x is a scalar; it needs at least one dimension to form blocks along.");
  TORCH_CHECK_INDEX(axis >= -rank && axis < rank, "npu_lp.", op, ": axis=", axis, " is out of range for x of rank ",
                    rank, ". Pass a value from ", -rank, " to ", rank - 1, ".");
  if (fmt.bits == 4) {
    TORCH_CHECK_VALUE(x.sym_size(-1) % 2 == 0, "npu_lp.", op, ": the last dimension of x has ", x.sym_size(-1),
                      " elements, but ", fmt.name, " packs two to a byte. Pad it to an even size.");
  }
  return axis < 0 ? axis + rank : axis;
}

void check_offsets(const char* op, const Tensor& offs, const Tensor& like) {
  TORCH_CHECK_TYPE(offs.scalar_type() == at::kInt || offs.scalar_type() == at::kLong, "npu_lp.", op,
                   ": offs has dtype ", dtype_name(offs.scalar_type()),
                   ", but group end offsets are int32 or int64. Convert them with offs.to(torch.int32).");
  TORCH_CHECK_VALUE(offs.dim() == 1, "npu_lp.", op, ": offs has shape ", offs.sym_sizes(),
                    ", but it must be 1-D: the row at which each group ends (the cumulative sum of group sizes).");
  check_same_device(op, like, "offs", offs);
}

std::vector<int64_t> offsets_values(const char* op, const Tensor& offs, int64_t rows) {
  const Tensor ends = offs.to(at::kLong).contiguous();
  const int64_t* values = ends.const_data_ptr<int64_t>();
  std::vector<int64_t> result(values, values + ends.numel());
  int64_t previous = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    TORCH_CHECK_VALUE(result[i] >= previous, "npu_lp.", op, ": offs[", i, "]=", result[i], " is less than ",
                      i == 0 ? "0" : "the offset before it, ", i == 0 ? "" : std::to_string(previous),
                      ". Group end offsets never decrease; pass torch.cumsum(group_sizes, 0), not the sizes.");
    TORCH_CHECK_VALUE(result[i] <= rows, "npu_lp.", op, ": offs[", i, "]=", result[i], " is past the end of the ", rows,
                      " rows. The last offset may be at most the number of rows.");
    previous = result[i];
  }
  return result;
}

const FormatInfo& format_of(const char* op, const char* argument, const Tensor& codes,
                            std::optional<std::string_view> fmt, bool mx_only) {
  const at::ScalarType dtype = codes.scalar_type();
  const FormatInfo* own = nullptr;
  if (dtype == at::kFloat8_e4m3fn) own = &info(Format::kE4M3);
  if (dtype == at::kFloat8_e5m2) own = &info(Format::kE5M2);
  if (own != nullptr) {
    TORCH_CHECK_VALUE(!fmt.has_value() || *fmt == own->name, "npu_lp.", op, ": ", argument, " holds ", own->name,
                      " (dtype ", dtype_name(dtype), "), but fmt=\"", fmt.value_or(""), "\" was given. Pass fmt=\"",
                      own->name, "\".");
    return *own;
  }
  TORCH_CHECK_TYPE(
      dtype == at::kByte, "npu_lp.", op, ": ", argument, " has dtype ", dtype_name(dtype),
      ", but quantized data is float8_e4m3fn, float8_e5m2, or uint8 with its format named. Quantize it first, "
      "with npu_lp.ops.mx_quant.");
  TORCH_CHECK_VALUE(fmt.has_value(), "npu_lp.", op, ": ", argument,
                    " is uint8, which can hold several formats. Name the one it holds: ",
                    argument == std::string_view("data") ? "" : argument,
                    argument == std::string_view("data") ? "fmt" : "_fmt", "=\"e2m1\", for instance.");
  const FormatInfo& named = parse_format(op, *fmt, mx_only);
  TORCH_CHECK_VALUE(storage_dtype(named) == at::kByte, "npu_lp.", op, ": ", argument, " is uint8, but fmt=\"",
                    named.name, "\" is stored as ", dtype_name(storage_dtype(named)), ". View it so: ", argument,
                    ".view(torch.float8_", named.name, named.format == Format::kE4M3 ? "fn" : "", ").");
  return named;
}

void check_scale_dtype(const char* op, const char* argument, const Tensor& scale) {
  TORCH_CHECK_TYPE(scale.scalar_type() == at::kFloat8_e8m0fnu, "npu_lp.", op, ": ", argument, " has dtype ",
                   dtype_name(scale.scalar_type()),
                   ", but MX scales are float8_e8m0fnu. torch_npu's uint8 scales hold the same bytes: pass ", argument,
                   ".view(torch.float8_e8m0fnu).");
}

void check_same_device(const char* op, const Tensor& first, const char* argument, const Tensor& other) {
  TORCH_CHECK_VALUE(first.device() == other.device(), "npu_lp.", op, ": ", argument, " is on ", other.device(),
                    ", but the first argument is on ", first.device(), ". Move it with .to(\"", first.device(), "\").");
}

void check_out_dtype(const char* op, at::ScalarType dtype) {
  TORCH_CHECK_TYPE(dtype == at::kBFloat16 || dtype == at::kHalf || dtype == at::kFloat, "npu_lp.", op,
                   ": out_dtype=", dtype_name(dtype),
                   " is not supported. Pass torch.bfloat16, torch.float16 or torch.float32.");
}

void check_bias(const char* op, const Tensor& x1, const std::optional<Tensor>& bias, const c10::SymInt& n) {
  if (!bias.has_value()) return;
  TORCH_CHECK_TYPE(bias->scalar_type() == at::kFloat, "npu_lp.", op, ": bias has dtype ",
                   dtype_name(bias->scalar_type()),
                   ", but it is added to the fp32 sum, so it must be float32. Pass bias.float().");
  TORCH_CHECK_VALUE(bias->dim() == 1 && bias->sym_size(0) == n, "npu_lp.", op, ": bias has shape ", bias->sym_sizes(),
                    ", but the output has N=", n, " columns. Pass one value per column.");
  check_same_device(op, x1, "bias", *bias);
}

std::vector<c10::SymInt> broadcast_batches(const char* op, const Tensor& x1, const Tensor& x2, const char* first) {
  const auto a = x1.sym_sizes().slice(0, static_cast<size_t>(x1.dim()) - 2);
  const auto b = x2.sym_sizes().slice(0, static_cast<size_t>(x2.dim()) - 2);
  const auto& longer = a.size() >= b.size() ? a : b;
  const auto& shorter = a.size() >= b.size() ? b : a;
  std::vector<c10::SymInt> batch = longer.vec();
  for (size_t i = 0; i < shorter.size(); ++i) {
    c10::SymInt& size = batch[longer.size() - shorter.size() + i];
    TORCH_CHECK_VALUE(size == shorter[i] || size == 1 || shorter[i] == 1, "npu_lp.", op, ": the leading dimensions of ",
                      first, " ", x1.sym_sizes(), " and x2 ", x2.sym_sizes(),
                      " do not broadcast: each pair must be equal, or one of it 1.");
    if (size == 1) size = shorter[i];
  }
  return batch;
}

std::string dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kByte:
      return "uint8";
    case at::kChar:
      return "int8";
    case at::kShort:
      return "int16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    case at::kBool:
      return "bool";
    default: {  // Float8_e4m3fn and the like differ from Python's names by case only
      std::string name = c10::toString(dtype);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return name;
    }
  }
}

at::ScalarType storage_dtype(const FormatInfo& fmt) {
  if (fmt.format == Format::kE4M3) return at::kFloat8_e4m3fn;
  if (fmt.format == Format::kE5M2) return at::kFloat8_e5m2;
  return at::kByte;
}

FloatType float_type(at::ScalarType dtype) {
  if (dtype == at::kFloat) return FloatType::kFloat32;
  return dtype == at::kHalf ? FloatType::kFloat16 : FloatType::kBFloat16;
}

}  // namespace npu_lp
