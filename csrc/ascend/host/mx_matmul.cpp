// The MX matmuls on tensors: operands as the cube kernels take them, tiled and launched.
#include <ATen/ATen.h>

#include "ascend/host/matmul_operand.h"
#include "ascend/host/ops.h"
#include "ascend/host/runtime.h"
#include "ascend/launch/matmul.h"

namespace npu_lp::ascend {

namespace {

void check_block(const char* op, int64_t block_size) {
  if (block_size != kMxBlock) no_kernel(op, "a block_size other than 32");
}

void check_formats(const char* op, const MatmulOperand& a, const MatmulOperand& b) {
  for (const MatmulOperand* x : {&a, &b}) {
    if (!info(x->format).on_npu) no_kernel(op, info(x->format).name);
  }
}

// call.out, or added to it.
void multiply(const char* op, const MxMatmulCall& call, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
              const Tensor& x2_scale, const std::optional<Tensor>& bias, bool accumulate) {
  check_formats(op, call.a, call.b);
  if (call.out.numel() == 0) return;
  const at::IntArrayRef batch = call.out.sizes().slice(0, static_cast<size_t>(call.out.dim()) - 2);
  const MatmulInput a = matmul_input(call.a, x1, x1_scale, batch, {-2, -1, -3, -2});
  const MatmulInput b = matmul_input(call.b, x2, x2_scale, batch, {-1, -2, -2, -3});
  MatmulProblem problem;
  problem.a_format = call.a.format;
  problem.b_format = call.b.format;
  problem.m = call.out.size(-2);
  problem.n = call.out.size(-1);
  problem.k = call.a.k.expect_int();
  problem.batches = c10::multiply_integers(batch);
  problem.a = a.matrix;
  problem.b = b.matrix;
  problem.out = matmul_out(call.out.scalar_type());
  problem.has_bias = bias.has_value();
  problem.accumulate = accumulate;
  const MatmulTiling tiling = make_matmul_tiling(problem, core_counts().cube);
  const Tensor columns = bias.has_value() ? bias->contiguous() : Tensor();
  enqueue(op, {a.data, b.data, a.scale, b.scale, columns, call.out},
          [=, formats = std::pair(problem.a_format, problem.b_format), ad = a.data.const_data_ptr(),
           bd = b.data.const_data_ptr(), as = a.scale.const_data_ptr(), bs = b.scale.const_data_ptr(),
           bias_data = columns.defined() ? columns.const_data_ptr() : nullptr,
           out = call.out.mutable_data_ptr()](Stream stream) {
            launch_mx_matmul(stream, tiling, formats.first, formats.second, ad, bd, as, bs, bias_data, out);
          });
}

}  // namespace

Tensor mx_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                       const std::optional<Tensor>& bias, at::ScalarType out_dtype,
                       std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                       int64_t block_size) {
  const char* op = "mx_quant_matmul";
  auto call = prepare_mx_quant_matmul(x1, x2, x1_scale, x2_scale, bias, out_dtype, x1_fmt, x2_fmt, block_size);
  check_block(op, block_size);
  multiply(op, call, x1, x2, x1_scale, x2_scale, bias, false);
  return call.out;
}

void mx_quant_matmul_add_(Tensor& self, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale,
                          const Tensor& x2_scale, std::optional<std::string_view> x1_fmt,
                          std::optional<std::string_view> x2_fmt, int64_t block_size) {
  const char* op = "mx_quant_matmul_add_";
  auto call = prepare_mx_quant_matmul_add(self, x1, x2, x1_scale, x2_scale, x1_fmt, x2_fmt, block_size);
  check_block(op, block_size);
  if (self.is_contiguous()) {
    multiply(op, call, x1, x2, x1_scale, x2_scale, std::nullopt, true);
  } else {
    self.add_(mx_quant_matmul(x1, x2, x1_scale, x2_scale, std::nullopt, at::kFloat, x1_fmt, x2_fmt, block_size));
  }
}

Tensor mx_grouped_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                         const Tensor& offs, std::string_view split, at::ScalarType out_dtype,
                         std::optional<std::string_view> x1_fmt, std::optional<std::string_view> x2_fmt,
                         int64_t block_size) {
  const char* op = "mx_grouped_matmul";
  auto call = prepare_mx_grouped_matmul(x1, x2, x1_scale, x2_scale, offs, split, out_dtype, x1_fmt, x2_fmt, block_size);
  check_block(op, block_size);
  check_formats(op, call.a, call.b);
  const bool by_rows = call.split == Split::kM;
  if (by_rows && info(call.a.format).bits == 4 && !call.a.packed_along_k) {
    no_kernel(op, "groups of FP4 rows that share bytes (x1 packed along its rows)");
  }
  const int64_t tokens = by_rows ? call.out.size(0) : call.a.k.expect_int();
  const Tensor ends = device_offsets(op, offs, tokens);
  if (call.out.numel() == 0) return call.out;
  if (ends.numel() == 0) return call.out.zero_();
  const std::vector<int64_t> groups{ends.numel()};
  const MatmulInput a = by_rows ? matmul_input(call.a, x1, x1_scale, {}, {-2, -1, -3, -2})
                                : matmul_input(call.a, x1, x1_scale, {}, {-2, -1, -2, -3});
  const MatmulInput b =
      matmul_input(call.b, x2, x2_scale, by_rows ? at::IntArrayRef(groups) : at::IntArrayRef(), {-1, -2, -2, -3});
  MatmulProblem problem;
  problem.a_format = call.a.format;
  problem.b_format = call.b.format;
  problem.m = call.out.size(-2);
  problem.n = call.out.size(-1);
  problem.k = call.a.k.expect_int();
  problem.a = a.matrix;
  problem.b = b.matrix;
  problem.out = matmul_out(out_dtype);
  problem.split = by_rows ? MatmulSplit::kM : MatmulSplit::kK;
  problem.groups = ends.numel();
  const MatmulTiling tiling = make_matmul_tiling(problem, core_counts().cube);
  enqueue(op, {a.data, b.data, a.scale, b.scale, ends, call.out},
          [=, formats = std::pair(problem.a_format, problem.b_format), ad = a.data.const_data_ptr(),
           bd = b.data.const_data_ptr(), as = a.scale.const_data_ptr(), bs = b.scale.const_data_ptr(),
           end_data = ends.const_data_ptr(), out = call.out.mutable_data_ptr()](Stream stream) {
            launch_mx_grouped_matmul(stream, tiling, formats.first, formats.second, ad, bd, as, bs, end_data, out);
          });
  return call.out;
}

}  // namespace npu_lp::ascend
