// mx_linear on CPU tensors: rows of x are quantized, a panel at a time, into a buffer that the caches keep, and a panel
// is multiplied before the next is quantized. Nothing of the size of x is allocated beyond what is returned.
#include <ATen/ATen.h>

#include <cstring>
#include <numeric>

#include "cpu/gemm_runner.h"
#include "cpu/memory.h"
#include "cpu/operand.h"
#include "cpu/parallel.h"
#include "cpu/register.h"
#include "ops/mx_linear.h"

namespace npu_lp::cpu {

namespace {

constexpr int64_t kGrainElements = 32768;  // below this, starting a thread costs more than it saves
constexpr int64_t kTilesPerThread = 4;     // that a panel has, so that threads finish together

// Rows [first, first + rows) of one matrix of x. Their codes begin at row `at` of the panel's buffer.
struct Piece {
  int64_t matrix, first, rows, at;
  const void* x;
  Tensor copy;  // what `x` points into, where x is not contiguous
};

// x as [matrices, m, k]; result i is the product of matrix `matrix_of(i)` and of a matrix of x2.
class FusedLinear {
 public:
  FusedLinear(const MxLinearCall& call, const Tensor& x, const Tensor& x2, const Tensor& x2_scale,
              const std::optional<Tensor>& bias)
      : call_(call),
        x_(x),
        x2_(addressable(x2, call.product.b, -1, -2)),
        x2_scale_(x2_scale),
        bias_(bias.has_value() ? bias->contiguous() : Tensor()),
        m_(x.size(-2)),
        n_(call.product.out.size(-1)),
        k_(x.size(-1)),
        matrices_(c10::multiply_integers(leading(x.sizes(), 2))),
        batch_(leading(call.product.out.sizes(), 2).vec()) {
    const bool one_x2 = c10::multiply_integers(leading(x2.sizes(), 2)) == 1;
    if (one_x2 && !dual() && x.is_contiguous() && leading(x.sizes(), 2).equals(batch_)) {
      m_ *= matrices_;  // all rows of all matrices meet the same x2: one matrix
      matrices_ = 1;
      batch_.clear();
      while (x2_.dim() > 2) x2_ = x2_.select(0, 0);
      while (x2_scale_.dim() > 3) x2_scale_ = x2_scale_.select(0, 0);
    }
    const int64_t block = call.spec.block, pairs = ceil_div(ceil_div(k_, block), 2);
    code_bytes_ = k_ * info(call.spec.format).bits / 8;
    scale_bytes_ = 2 * pairs;
    // Whole tiles, and whole pairs of blocks of rows.
    const int64_t step = std::lcm(kernels().gemm_tile_m, 2 * block);
    const int64_t tiles = std::max<int64_t>(ceil_div(n_, kernels().gemm_tile_n), 1);
    capacity_ = step * ceil_div(kTilesPerThread * at::get_num_threads(), tiles);
    capacity_ = std::min(capacity_, matrices_ * m_);
  }

  void run() {
    if (matrices_ * m_ == 0) return;
    find_results();
    if (dual()) zero_missing_scales();
    const Tensor buffer = at::empty({capacity_ * (code_bytes_ + scale_bytes_)}, x_.options().dtype(at::kByte));
    codes_ = bytes(buffer);
    scales_ = codes_ + capacity_ * code_bytes_;
    std::vector<Piece> panel;
    int64_t used = 0;
    for (int64_t matrix = 0; matrix < matrices_; ++matrix) {
      for (int64_t first = 0; first < m_;) {
        int64_t rows = std::min(m_ - first, capacity_ - used);
        if (rows < m_ - first) rows -= rows % (2 * call_.spec.block);
        if (rows > 0) panel.push_back(piece(matrix, first, rows, used));
        used += rows;
        first += rows;
        if (first < m_ || used == capacity_) {
          multiply(panel);
          panel.clear();
          used = 0;
        }
      }
    }
    multiply(panel);
  }

 private:
  bool dual() const { return call_.data_col.defined(); }

  // Which results each matrix of x is a part of: one, unless x is broadcast.
  void find_results() {
    results_.resize(static_cast<size_t>(matrices_));
    const at::IntArrayRef sizes = matrices_ == 1 ? at::IntArrayRef() : leading(x_.sizes(), 2);
    std::vector<int64_t> strides(sizes.size());
    int64_t stride = 1;
    for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) strides[d] = stride;
    const BatchOffsets matrix_of(sizes, strides, batch_);
    for (int64_t i = 0; i < c10::multiply_integers(batch_); ++i) {
      results_[static_cast<size_t>(matrix_of[i])].push_back(i);
    }
  }

  // The second byte of an odd number of blocks of rows.
  void zero_missing_scales() {
    const int64_t blocks = ceil_div(m_, call_.spec.block), pairs = ceil_div(blocks, 2);
    if (blocks % 2 == 0 || k_ == 0) return;
    for (int64_t matrix = 0; matrix < matrices_; ++matrix) {
      std::memset(bytes(call_.scale_col) + ((matrix + 1) * pairs - 1) * k_ * 2, 0, static_cast<size_t>(k_) * 2);
    }
  }

  Piece piece(int64_t matrix, int64_t first, int64_t rows, int64_t at) const {
    if (x_.is_contiguous()) {
      const int64_t offset = (matrix * m_ + first) * k_ * static_cast<int64_t>(x_.element_size());
      return {matrix, first, rows, at, static_cast<const uint8_t*>(x_.const_data_ptr()) + offset, {}};
    }
    const int64_t offset = batch_offsets(x_, 2, leading(x_.sizes(), 2))[matrix] + first * x_.stride(-2);
    Tensor copy = x_.as_strided({rows, k_}, {x_.stride(-2), x_.stride(-1)}, x_.storage_offset() + offset).contiguous();
    const void* data = copy.const_data_ptr();
    return {matrix, first, rows, at, data, std::move(copy)};
  }

  void multiply(const std::vector<Piece>& panel) const {
    if (panel.empty()) return;
    if (k_ > 0) quantize(panel);
    const Tensor& out = call_.product.out;
    const Gemm any{{call_.spec.format, codes_, k_, 1, call_.spec.block, scales_, scale_bytes_, 2, 1},
                   make_operand(call_.product.b, x2_, -1, -2, x2_scale_, -2, -3, call_.spec.block),
                   0,
                   n_,
                   k_,
                   out.mutable_data_ptr(),
                   n_,
                   float_type(out.scalar_type()),
                   bias_.defined() ? bias_.const_data_ptr<float>() : nullptr};
    const BatchOffsets x2_at = batch_offsets(x2_, 2, batch_), scale_at = batch_offsets(x2_scale_, 3, batch_);
    std::vector<Gemm> gemms;
    for (const Piece& piece : panel) {
      for (const int64_t result : results_[static_cast<size_t>(piece.matrix)]) {
        Gemm gemm = any;
        gemm.m = piece.rows;
        gemm.a.codes += piece.at * code_bytes_;
        gemm.a.scales += piece.at * scale_bytes_;
        gemm.b.codes += x2_at[result];
        gemm.b.scales += scale_at[result];
        gemm.out = static_cast<uint8_t*>(gemm.out) +
                   (result * m_ + piece.first) * n_ * static_cast<int64_t>(out.element_size());
        gemms.push_back(gemm);
      }
    }
    run_gemms(gemms);
  }

  // In units that can be quantized apart: rows, or strips of a block of rows.
  void quantize(const std::vector<Piece>& panel) const {
    const int64_t unit = dual() ? call_.spec.block : 1;
    std::vector<int64_t> first_unit{0};
    for (const Piece& piece : panel) first_unit.push_back(first_unit.back() + ceil_div(piece.rows, unit));
    for_each_range(first_unit.back(), kGrainElements / (unit * k_), [&](int64_t begin, int64_t end) {
      for (size_t i = 0; i < panel.size(); ++i) {
        const int64_t from = std::max(begin, first_unit[i]), to = std::min(end, first_unit[i + 1]);
        if (from < to) quantize(panel[i], from - first_unit[i], to - first_unit[i]);
      }
    });
  }

  void quantize(const Piece& piece, int64_t begin, int64_t end) const {
    const RowQuantArgs by_row{call_.spec, piece.x, k_, codes_ + piece.at * code_bytes_,
                              scales_ + piece.at * scale_bytes_};
    if (!dual()) return kernels().quantize_rows(by_row, begin, end);
    const int64_t pairs = ceil_div(ceil_div(m_, call_.spec.block), 2);
    const int64_t pair = piece.matrix * pairs + piece.first / (2 * call_.spec.block);
    QuantSpec spec = call_.spec;
    spec.amax_truncates = false;
    const ColQuantArgs by_column{spec,
                                 piece.x,
                                 piece.rows,
                                 k_,
                                 bytes(call_.data_col) + (piece.matrix * m_ + piece.first) * code_bytes_,
                                 bytes(call_.scale_col) + pair * k_ * 2};
    kernels().quantize_dual(by_row, by_column, begin, end);
  }

  const MxLinearCall& call_;
  Tensor x_, x2_, x2_scale_, bias_;
  int64_t m_, n_, k_;
  int64_t matrices_;
  std::vector<int64_t> batch_;
  std::vector<std::vector<int64_t>> results_;
  int64_t code_bytes_ = 0, scale_bytes_ = 0;  // of a row
  int64_t capacity_ = 0;                      // rows of the buffer
  uint8_t* codes_ = nullptr;
  uint8_t* scales_ = nullptr;
};

}  // namespace

Tensor mx_linear(const Tensor& x, const Tensor& x2, const Tensor& x2_scale, const std::optional<Tensor>& bias,
                 std::string_view fmt, std::string_view scale_rule, std::optional<at::ScalarType> out_dtype,
                 std::optional<std::string_view> x2_fmt, int64_t block_size) {
  const auto call = prepare_mx_linear(x, x2, x2_scale, bias, fmt, scale_rule, out_dtype, x2_fmt, block_size, false);
  FusedLinear(call, x, x2, x2_scale, bias).run();
  return call.product.out;
}

std::tuple<Tensor, Tensor, Tensor> mx_linear_dual(const Tensor& x, const Tensor& x2, const Tensor& x2_scale,
                                                  const std::optional<Tensor>& bias, std::string_view fmt,
                                                  std::string_view scale_rule, std::optional<at::ScalarType> out_dtype,
                                                  std::optional<std::string_view> x2_fmt, int64_t block_size) {
  const auto call = prepare_mx_linear(x, x2, x2_scale, bias, fmt, scale_rule, out_dtype, x2_fmt, block_size, true);
  FusedLinear(call, x, x2, x2_scale, bias).run();
  return {call.product.out, call.data_col, call.scale_col};
}

}  // namespace npu_lp::cpu
