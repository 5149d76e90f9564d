// MX quantization and its inverse on CPU tensors: splits the work and calls the kernel table.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "cpu/memory.h"
#include "cpu/parallel.h"
#include "cpu/register.h"
#include "ops/mx_quant.h"

namespace npu_lp::cpu {

namespace {

constexpr int64_t kGrainElements = 32768;  // below this, starting a thread costs more than it saves
constexpr int64_t kColumnsPerTask = 512;
constexpr int64_t kLargeOutput = 16 << 20;  // bytes that a cache will not keep for whoever reads them next

int64_t product(at::IntArrayRef sizes) {
  return c10::multiply_integers(sizes);
}

bool is_large(const Tensor& codes) {
  return codes.numel() * static_cast<int64_t>(codes.element_size()) >= kLargeOutput;
}

// The second bytes of an odd count of blocks are never quantized to; others are all written.
void zero_if_odd(const Tensor& scale, int64_t blocks) {
  if (blocks % 2 != 0) scale.zero_();
}

void run_rows(const RowQuantArgs& args, int64_t rows) {
  for_each_range(rows, kGrainElements / std::max<int64_t>(args.cols, 1),
                 [&](int64_t begin, int64_t end) { kernels().quantize_rows(args, begin, end); });
}

// `slices` independent [depth, inner] matrices, each with its own scales.
void run_cols(ColQuantArgs args, int64_t slices, size_t element_size) {
  const int64_t blocks = ceil_div(args.depth, args.spec.block);
  const int64_t strips = ceil_div(args.inner, kColumnsPerTask);
  const int64_t bits = info(args.spec.format).bits;
  const int64_t slice_elements = args.depth * args.inner;
  const int64_t slice_scales = ceil_div(blocks, 2) * args.inner * 2;
  const int64_t tile_row_bytes = 2 * ceil_div(ceil_div(args.inner, args.spec.block), 2);
  for_each_range(
      slices * blocks * strips, kGrainElements / (args.spec.block * kColumnsPerTask), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t slice = task / (blocks * strips), block = task / strips % blocks;
          const int64_t col = task % strips * kColumnsPerTask;
          ColQuantArgs part = args;
          part.x = static_cast<const uint8_t*>(args.x) + slice * slice_elements * static_cast<int64_t>(element_size);
          part.codes = args.codes + slice * slice_elements * bits / 8;
          part.scales = args.scales + slice * slice_scales;
          part.first_index = args.first_index + slice * slice_elements;
          if (args.tile_row_scales != nullptr) part.tile_row_scales += slice * args.depth * tile_row_bytes;
          kernels().quantize_cols(part, block, block + 1, col, std::min(col + kColumnsPerTask, args.inner));
        }
      });
}

// One draw from the generator a call, so that calls differ, equal generator states give equal bits, and the state
// travels with torch's own.
void draw_seed(QuantSpec& spec, const std::optional<at::Generator>& generator) {
  if (spec.rounding != Rounding::kStochastic) return;
  auto* cpu = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  const std::lock_guard<std::mutex> lock(cpu->mutex_);
  spec.seed = cpu->random64();
}

}  // namespace

std::tuple<Tensor, Tensor> mx_quant(const Tensor& x, int64_t axis, std::string_view fmt, std::string_view scale_rule,
                                    int64_t block_size, std::string_view underflow, std::string_view rounding,
                                    double dst_max, double max_low_bound, std::optional<at::Generator> generator) {
  auto call =
      prepare_mx_quant(x, axis, {fmt, scale_rule, block_size, underflow, rounding, dst_max, max_low_bound, generator});
  draw_seed(call.spec, generator);
  const Tensor input = x.contiguous();
  const int64_t depth = input.size(call.axis);
  const int64_t inner = product(input.sizes().slice(static_cast<size_t>(call.axis) + 1));
  if (call.axis == input.dim() - 1) {
    run_rows({call.spec, input.const_data_ptr(), depth, bytes(call.data), bytes(call.scale), 0, is_large(call.data)},
             depth == 0 ? 0 : input.numel() / depth);
  } else {
    zero_if_odd(call.scale, ceil_div(depth, block_size));
    const int64_t slices = product(input.sizes().slice(0, static_cast<size_t>(call.axis)));
    run_cols({call.spec, input.const_data_ptr(), depth, inner, bytes(call.data), bytes(call.scale), 0, nullptr,
              is_large(call.data)},
             slices, input.element_size());
  }
  return {call.data, call.scale};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> mx_quant_dual(const Tensor& x, std::string_view fmt,
                                                         std::string_view scale_rule, std::string_view underflow,
                                                         std::string_view rounding, double dst_max,
                                                         std::optional<at::Generator> generator, int64_t block_size) {
  auto call = prepare_mx_quant_dual(x, {fmt, scale_rule, block_size, underflow, rounding, dst_max, 0.0, generator});
  draw_seed(call.spec, generator);
  const Tensor input = x.contiguous();
  const int64_t rows = input.size(-2), cols = input.size(-1);
  const int64_t slices = product(input.sizes().slice(0, static_cast<size_t>(input.dim()) - 2));
  zero_if_odd(call.scale_col, ceil_div(rows, block_size));
  QuantSpec col_spec = call.spec;
  col_spec.amax_truncates = false;
  col_spec.seed = ~call.spec.seed;  // the two quantizations round independently
  const int64_t bits = info(call.spec.format).bits;
  const int64_t strips = ceil_div(rows, block_size);
  const bool large = is_large(call.data_row);
  const int64_t row_scales = rows * ceil_div(ceil_div(cols, block_size), 2) * 2;
  const int64_t col_scales = ceil_div(strips, 2) * cols * 2;
  for_each_range(
      slices * strips, kGrainElements / std::max<int64_t>(block_size * cols, 1), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t slice = task / strips, strip = task % strips;
          const void* data = static_cast<const uint8_t*>(input.const_data_ptr()) +
                             slice * rows * cols * static_cast<int64_t>(input.element_size());
          const int64_t first = slice * rows * cols, codes = first * bits / 8;
          const RowQuantArgs row_args{
              call.spec, data, cols, bytes(call.data_row) + codes, bytes(call.scale_row) + slice * row_scales,
              first,     large};
          const ColQuantArgs col_args{
              col_spec, data,    rows, cols, bytes(call.data_col) + codes, bytes(call.scale_col) + slice * col_scales,
              first,    nullptr, large};
          kernels().quantize_dual(row_args, col_args, strip, strip + 1);
        }
      });
  return {call.data_row, call.scale_row, call.data_col, call.scale_col};
}

std::tuple<Tensor, Tensor> mx_quant_grouped(const Tensor& x, const Tensor& offs, std::string_view fmt,
                                            std::string_view scale_rule, std::string_view underflow,
                                            std::string_view rounding, double dst_max,
                                            std::optional<at::Generator> generator, int64_t block_size) {
  auto call =
      prepare_mx_quant_grouped(x, offs, {fmt, scale_rule, block_size, underflow, rounding, dst_max, 0.0, generator});
  draw_seed(call.spec, generator);
  const std::vector<int64_t> ends = offsets_values("mx_quant_grouped", offs, x.size(0));
  const Tensor input = x.contiguous();
  const int64_t cols = input.size(1);
  const int64_t bits = info(call.spec.format).bits;
  // Rows of no group, and the scale rows between groups: torch_npu leaves them unwritten, here they are zeros.
  call.scale.zero_();
  const int64_t last = ends.empty() ? 0 : ends.back();
  call.data.view(at::kByte).slice(0, last).zero_();
  int64_t start = 0;
  for (size_t group = 0; group < ends.size(); ++group) {
    const ColQuantArgs args{
        call.spec,
        static_cast<const uint8_t*>(input.const_data_ptr()) + start * cols * static_cast<int64_t>(input.element_size()),
        ends[group] - start,
        cols,
        bytes(call.data) + start * cols * bits / 8,
        bytes(call.scale) + (start / (2 * block_size) + static_cast<int64_t>(group)) * cols * 2,
        start * cols,
        nullptr,
        is_large(call.data)};
    run_cols(args, 1, input.element_size());
    start = ends[group];
  }
  return {call.data, call.scale};
}

Tensor mx_dequant(const Tensor& data, const Tensor& scale, int64_t axis, std::optional<std::string_view> fmt,
                  at::ScalarType out_dtype, int64_t block_size) {
  auto call = prepare_mx_dequant(data, scale, axis, fmt, out_dtype, block_size);
  const Tensor codes = data.contiguous(), scales = scale.contiguous();
  const at::IntArrayRef sizes = call.out.sizes();
  const DequantArgs args{call.format,
                         block_size,
                         static_cast<const uint8_t*>(codes.const_data_ptr()),
                         static_cast<const uint8_t*>(scales.const_data_ptr()),
                         product(sizes.slice(0, static_cast<size_t>(call.axis))),
                         sizes[static_cast<size_t>(call.axis)],
                         product(sizes.slice(static_cast<size_t>(call.axis) + 1)),
                         call.out.mutable_data_ptr(),
                         float_type(out_dtype)};
  const int64_t line = args.inner == 1 ? args.depth : args.inner;
  if (call.out.numel() > 0) {
    for_each_range(call.out.numel() / line, kGrainElements / line,
                   [&](int64_t begin, int64_t end) { kernels().dequantize(args, begin, end); });
  }
  return call.out;
}

std::tuple<Tensor, Tensor, Tensor> mx_quant_block(const Tensor& x, std::string_view fmt, std::string_view scale_rule,
                                                  std::string_view underflow, std::string_view rounding,
                                                  double dst_max) {
  auto call = prepare_mx_quant_block(x, {fmt, scale_rule, kMxBlock, underflow, rounding, dst_max});
  const Tensor input = x.contiguous();
  zero_if_odd(call.scale_row, ceil_div(input.size(-1), kMxBlock));
  zero_if_odd(call.scale_col, ceil_div(input.size(-2), kMxBlock));
  run_cols({call.spec, input.const_data_ptr(), input.size(-2), input.size(-1), bytes(call.data), bytes(call.scale_col),
            0, bytes(call.scale_row), is_large(call.data)},
           input.dim() == 3 ? input.size(0) : 1, input.element_size());
  return {call.data, call.scale_row, call.scale_col};
}

}  // namespace npu_lp::cpu
