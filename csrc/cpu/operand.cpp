#include "cpu/operand.h"

#include <ATen/ATen.h>

namespace npu_lp::cpu {

namespace {

const uint8_t* bytes(const Tensor& t) {
  return static_cast<const uint8_t*>(t.const_data_ptr());
}

}  // namespace

Operand make_operand(const MatmulOperand& form, const Tensor& x, int64_t row_dim, int64_t k_dim, const Tensor& scale,
                     int64_t scale_row_dim, int64_t scale_pair_dim, int64_t block) {
  Operand op{form.format,     bytes(x),     x.stride(row_dim),           x.stride(k_dim),
             block,           bytes(scale), scale.stride(scale_row_dim), scale.stride(scale_pair_dim),
             scale.stride(-1)};
  if (info(form.format).bits == 4) {
    op.row_stride = form.packed_along_k ? 2 * op.row_stride : 1;
    op.k_stride = form.packed_along_k ? 1 : 2 * op.k_stride;
  }
  return op;
}

Tensor addressable(const Tensor& x, const MatmulOperand& form, int64_t row_dim, int64_t k_dim) {
  if (info(form.format).bits != 4) return x;
  const int64_t packed = form.packed_along_k ? k_dim : row_dim;
  if (x.stride(packed) == 1) return x;
  return packed == -1 ? x.contiguous() : x.mT().contiguous().mT();
}

BatchOffsets::BatchOffsets(at::IntArrayRef sizes, at::IntArrayRef strides, at::IntArrayRef batch)
    : batch_(batch), strides_(batch.size(), 0) {
  const size_t missing = batch.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) strides_[missing + d] = sizes[d] == 1 ? 0 : strides[d];
}

int64_t BatchOffsets::operator[](int64_t index) const {
  int64_t offset = 0;
  for (size_t d = batch_.size(); d-- > 0;) {
    offset += index % batch_[d] * strides_[d];
    index /= batch_[d];
  }
  return offset;
}

BatchOffsets batch_offsets(const Tensor& t, int64_t tail, at::IntArrayRef batch) {
  return {leading(t.sizes(), tail), leading(t.strides(), tail), batch};
}

at::IntArrayRef leading(at::IntArrayRef sizes, int64_t tail) {
  return sizes.slice(0, sizes.size() - static_cast<size_t>(tail));
}

}  // namespace npu_lp::cpu
