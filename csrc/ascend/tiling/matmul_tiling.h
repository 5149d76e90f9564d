// How a matmul is cut into tiles, chunks and steps for the cube cores. Plain C++17: no torch, no AscendC.
//
// A tile of base_m x base_n outputs stays in L0C while K runs. K runs in chunks of step_k steps, copied GM -> L1 into
// one of `stages` buffers, and each step of base_k elements is copied L1 -> L0 into one of two slots and multiplied.
// Scales are copied for up to scale_factor chunks at once, since a copy costs per row, however short the row.
#pragma once

#include <cstdint>

#include "ascend/tiling/matmul_tiling_data.h"
#include "formats/formats.h"

namespace npu_lp::ascend {

struct MatmulMatrix {
  bool k_leading = false;      // memory is [K][rows], the rows (M of A, N of B) side by side; otherwise [rows][K]
  bool packed_along_k = true;  // FP4: the two elements of a byte follow each other along K
  int64_t pitch = 0;           // elements from one line to the next
  int64_t batch_stride = 0;    // elements from one batch to the next, 0 if all share it; split m: between groups of B
  bool scale_k_leading = false;
  int64_t scale_pitch = 0;  // of the scales, in pairs
  int64_t scale_batch_stride = 0;
};

struct MatmulProblem {
  Format a_format = Format::kE4M3;
  Format b_format = Format::kE4M3;
  int64_t m = 0, n = 0, k = 0;
  int64_t batches = 1;
  MatmulMatrix a, b;
  MatmulOut out = MatmulOut::kBFloat16;
  int64_t out_pitch = 0;         // elements; 0: n
  int64_t out_batch_stride = 0;  // elements; 0: m * n
  bool has_bias = false;         // fp32, n elements, one for all batches
  bool accumulate = false;
  MatmulSplit split = MatmulSplit::kNone;
  int64_t groups = 0;
  bool scale_out = false;  // HiF8
  bool a_scale_per_group = false, b_scale_per_group = false;
};

// What a caller may fix; 0 leaves it to the cost model.
struct MatmulTilingChoice {
  uint32_t base_m = 0, base_n = 0, base_k = 0, step_k = 0, scale_factor = 0, stages = 0;
};

// Throws std::invalid_argument, which says what was given, what the cube can do and what to do instead. A problem with
// nothing to compute (m, n or batches 0) gets blocks = 0.
MatmulTiling make_matmul_tiling(const MatmulProblem& problem, int cores, const MatmulTilingChoice* choice = nullptr);

// Cycles of one core, of the model that chose the tiling (exposed for tests).
double matmul_cost(const MatmulProblem& problem, const MatmulTiling& tiling, int cores);

}  // namespace npu_lp::ascend
