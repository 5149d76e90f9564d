// The HiF8 matmuls on tensors. Where the product of two scales may be cut to 10 bits of mantissa, the cube's output
// stage applies it; elsewhere the cube leaves fp32 sums, and a vector kernel applies the scales.
#include <ATen/ATen.h>

#include "ascend/host/epilogue.h"
#include "ascend/host/matmul_operand.h"
#include "ascend/host/ops.h"
#include "ascend/host/runtime.h"
#include "ascend/launch/matmul.h"
#include "ops/hif8.h"

namespace npu_lp::ascend {

namespace {

MatmulOperand form_of(const Tensor& x, int64_t row, int64_t k) {
  return {Format::kHiF8, true, x.sym_size(row), x.sym_size(k)};
}

MatmulProblem problem_of(const Tensor& out, int64_t k, const MatmulInput& a, const MatmulInput& b) {
  MatmulProblem problem;
  problem.a_format = problem.b_format = Format::kHiF8;
  problem.m = out.size(-2);
  problem.n = out.size(-1);
  problem.k = k;
  problem.a = a.matrix;
  problem.b = b.matrix;
  problem.out = matmul_out(out.scalar_type());
  return problem;
}

// One factor for each row of `rows`, whose group is the first that ends behind it; 1 for rows of no group.
Tensor factor_of_rows(const Tensor& product, const Tensor& ends, int64_t rows) {
  const Tensor groups = at::searchsorted(ends, at::arange(rows, ends.options()), /*out_int32=*/false, /*right=*/true);
  const Tensor padded = at::cat({product.expand({ends.numel()}), at::ones({1}, product.options())});
  return padded.index_select(0, groups);
}

}  // namespace

Tensor hif8_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                         const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                         std::optional<bool> truncate_scale) {
  const char* op = "hif8_quant_matmul";
  auto call = prepare_hif8_quant_matmul(x1, x2, x1_scale, x2_scale, bias, out_dtype, truncate_scale);
  if (call.out.numel() == 0) return call.out;
  const at::IntArrayRef batch = call.out.sizes().slice(0, static_cast<size_t>(call.out.dim()) - 2);
  const int64_t batches = c10::multiply_integers(batch), m = call.out.size(-2), n = call.out.size(-1);
  const MatmulInput a = matmul_input(form_of(x1, -2, -1), x1, {}, batch, {-2, -1});
  const MatmulInput b = matmul_input(form_of(x2, -1, -2), x2, {}, batch, {-1, -2});
  const Tensor sums = call.truncate ? call.out : at::empty(call.out.sizes(), call.out.options().dtype(at::kFloat));
  MatmulProblem problem = problem_of(sums, x1.size(-1), a, b);
  problem.batches = batches;
  problem.scale_out = call.truncate;
  const MatmulTiling tiling = make_matmul_tiling(problem, core_counts().cube);
  const Tensor first = x1_scale.contiguous(), second = x2_scale.contiguous();
  enqueue(op, {a.data, b.data, first, second, sums},
          [tiling, ad = a.data.const_data_ptr(), bd = b.data.const_data_ptr(), as = first.const_data_ptr(),
           bs = second.const_data_ptr(),
           out = sums.mutable_data_ptr()](Stream stream) { launch_hif8_matmul(stream, tiling, ad, bd, as, bs, out); });
  if (call.truncate) return call.out;
  const bool by_row = x1_scale.numel() != 1, by_column = x2_scale.numel() != 1;
  const auto expanded = [&](const Tensor& scale, int64_t size) {  // [batches or 1, size or 1]
    if (scale.numel() == 1) return scale.reshape({1, 1});
    std::vector<int64_t> sizes = batch.vec();
    sizes.push_back(size);
    return scale.expand(sizes).reshape({batches, size}).contiguous();
  };
  // One scale each and no bias: one factor, their product. Otherwise one factor comes after the other.
  const bool one_factor = !by_row && !by_column && !bias.has_value();
  const Tensor columns = one_factor ? (second * first).reshape({1, 1}) : expanded(x2_scale, n).contiguous();
  const Tensor rows = one_factor ? Tensor() : expanded(x1_scale, m).contiguous();
  scale_epilogue(op, sums.view({batches, m, n}), columns, rows, bias.has_value() ? bias->contiguous() : Tensor(),
                 call.out.view({batches, m, n}));
  return call.out;
}

Tensor hif8_grouped_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                           const Tensor& offs, std::string_view split, at::ScalarType out_dtype,
                           std::optional<bool> truncate_scale) {
  const char* op = "hif8_grouped_matmul";
  auto call = prepare_hif8_grouped_matmul(x1, x2, x1_scale, x2_scale, offs, split, out_dtype, truncate_scale);
  const bool by_rows = call.split == Split::kM;
  const Tensor ends = device_offsets(op, offs, by_rows ? x1.size(0) : x1.size(1));
  const int64_t groups = ends.numel();
  if (call.out.numel() == 0) return call.out;
  if (groups == 0) return call.out.zero_();
  const std::vector<int64_t> batch{groups};
  const MatmulInput a = matmul_input(form_of(x1, -2, -1), x1, {}, {}, {-2, -1});
  const MatmulInput b =
      matmul_input(form_of(x2, -1, -2), x2, {}, by_rows ? at::IntArrayRef(batch) : at::IntArrayRef(), {-1, -2});
  const Tensor sums = call.truncate ? call.out : at::empty(call.out.sizes(), call.out.options().dtype(at::kFloat));
  MatmulProblem problem = problem_of(sums, x1.size(-1), a, b);
  problem.split = by_rows ? MatmulSplit::kM : MatmulSplit::kK;
  problem.groups = groups;
  problem.scale_out = call.truncate;
  problem.a_scale_per_group = x1_scale.numel() != 1;
  problem.b_scale_per_group = x2_scale.numel() != 1;
  const MatmulTiling tiling = make_matmul_tiling(problem, core_counts().cube);
  const Tensor first = x1_scale.contiguous(), second = x2_scale.contiguous();
  enqueue(op, {a.data, b.data, first, second, ends, sums},
          [tiling, ad = a.data.const_data_ptr(), bd = b.data.const_data_ptr(), as = first.const_data_ptr(),
           bs = second.const_data_ptr(), end_data = ends.const_data_ptr(), out = sums.mutable_data_ptr()](
              Stream stream) { launch_hif8_grouped_matmul(stream, tiling, ad, bd, as, bs, end_data, out); });
  if (call.truncate) return call.out;
  const Tensor product = (second * first).flatten(), one = at::ones({1, 1}, product.options());
  if (by_rows) {
    const int64_t tokens = call.out.size(0);
    scale_epilogue(op, sums.unsqueeze(0), one, factor_of_rows(product, ends, tokens).unsqueeze(0), {},
                   call.out.unsqueeze(0));
  } else {  // a sum over nothing is zero, whatever its scale
    const Tensor starts = at::cat({at::zeros({1}, ends.options()), ends.slice(0, 0, groups - 1)});
    const Tensor factors = at::where(ends == starts, at::ones({1}, product.options()), product.expand({groups}));
    scale_epilogue(op, sums, factors.unsqueeze(1).contiguous(), {}, {}, call.out);
  }
  return call.out;
}

}  // namespace npu_lp::ascend
