#include "ascend/host/matmul_operand.h"

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "ascend/host/runtime.h"

namespace npu_lp::ascend {

namespace {

Tensor expand_batch(const Tensor& t, at::IntArrayRef batch, int64_t tail) {
  std::vector<int64_t> sizes = batch.vec();
  sizes.insert(sizes.end(), t.sizes().end() - tail, t.sizes().end());
  return t.expand(sizes);
}

// The distance between batches, if one number says it for all dimensions but the last `tail`.
std::optional<int64_t> batch_stride(const Tensor& t, int64_t tail) {
  int64_t stride = 0, next = 0;
  bool first = true;
  for (int64_t d = t.dim() - tail - 1; d >= 0; --d) {
    if (t.size(d) == 1) continue;
    if (first) stride = t.stride(d);
    if (!first && t.stride(d) != next) return std::nullopt;
    next = t.stride(d) * t.size(d);
    first = false;
  }
  return stride;
}

struct Lines {
  bool k_leading;
  int64_t pitch;
};

// How rows and K lie, if one of them is contiguous with `unit` storage elements a step, and lines do not overlap.
std::optional<Lines> lines_of(const Tensor& t, int64_t row, int64_t k, int64_t unit) {
  const auto contiguous = [&](int64_t d) { return t.size(d) <= 1 || t.stride(d) == unit; };
  const auto apart = [&](int64_t line, int64_t width) {
    return t.size(line) <= 1 || t.stride(line) >= t.size(width) * unit;
  };
  if (contiguous(k) && apart(row, k)) return Lines{false, t.stride(row)};
  if (contiguous(row) && apart(k, row)) return Lines{true, t.stride(k)};
  return std::nullopt;
}

// FP4 is addressed by bytes, so the packed dimension must be the contiguous one.
std::optional<Lines> fp4_lines(const Tensor& t, const MatmulOperand& form, int64_t row, int64_t k) {
  const int64_t packed = form.packed_along_k ? k : row, other = form.packed_along_k ? row : k;
  if (t.size(packed) > 1 && t.stride(packed) != 1) return std::nullopt;
  if (t.size(other) > 1 && t.stride(other) < t.size(packed)) return std::nullopt;
  return Lines{!form.packed_along_k, 2 * t.stride(other)};
}

Tensor fp4_contiguous(const Tensor& t, const MatmulOperand& form, int64_t k) {
  const bool k_last = k == -1;
  return form.packed_along_k == k_last ? t.contiguous() : t.mT().contiguous().mT();
}

}  // namespace

MatmulInput matmul_input(const MatmulOperand& form, const Tensor& x, const Tensor& scale, at::IntArrayRef batch,
                         const MatmulDims& dims) {
  MatmulInput input;
  const bool fp4 = info(form.format).bits == 4;
  const auto lines = [&](const Tensor& t) {
    return fp4 ? fp4_lines(t, form, dims.row, dims.k) : lines_of(t, dims.row, dims.k, 1);
  };
  Tensor data = expand_batch(x, batch, 2);
  if (!lines(data).has_value() || !batch_stride(data, 2).has_value()) {
    data = fp4 ? fp4_contiguous(data, form, dims.k) : data.contiguous();
  }
  const Lines form_lines = *lines(data);
  input.matrix.k_leading = form_lines.k_leading;
  input.matrix.packed_along_k = form.packed_along_k;
  input.matrix.pitch = form_lines.pitch;
  input.matrix.batch_stride = *batch_stride(data, 2) * (fp4 ? 2 : 1);
  input.data = data;
  if (!scale.defined()) return input;

  Tensor pairs = expand_batch(scale, batch, 3);
  const auto scale_lines = [&](const Tensor& t) { return lines_of(t, dims.scale_row, dims.scale_k, 2); };
  const auto in_pairs = [](int64_t stride) { return stride % 2 == 0; };
  const auto readable = [&](const Tensor& t) {
    return t.stride(-1) == 1 && scale_lines(t).has_value() && in_pairs(scale_lines(t)->pitch) &&
           batch_stride(t, 3).has_value() && in_pairs(*batch_stride(t, 3));
  };
  if (!readable(pairs)) pairs = pairs.contiguous();
  input.matrix.scale_k_leading = scale_lines(pairs)->k_leading;
  input.matrix.scale_pitch = scale_lines(pairs)->pitch / 2;
  input.matrix.scale_batch_stride = *batch_stride(pairs, 3) / 2;
  input.scale = pairs;
  return input;
}

MatmulOut matmul_out(at::ScalarType dtype) {
  if (dtype == at::kFloat) return MatmulOut::kFloat32;
  return dtype == at::kHalf ? MatmulOut::kFloat16 : MatmulOut::kBFloat16;
}

Tensor device_offsets(const char* op, const Tensor& offs, int64_t rows) {
  if (values_at_hand(offs)) offsets_values(op, offs, rows);
  return offs.to(at::kLong).contiguous();
}

}  // namespace npu_lp::ascend
