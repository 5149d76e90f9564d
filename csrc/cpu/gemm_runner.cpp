#include "cpu/gemm_runner.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "cpu/parallel.h"
#include "formats/formats.h"

namespace npu_lp::cpu {

namespace {

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};

// Columns [n0, n0 + n) of a product; n0 is even.
Gemm columns(const Gemm& whole, int64_t n0, int64_t n) {
  Gemm part = whole;
  part.n = n;
  part.b.codes += n0 * whole.b.row_stride / (info(whole.b.format).bits == 4 ? 2 : 1);
  if (whole.b.scales != nullptr) part.b.scales += n0 * whole.b.scale_row_stride;
  part.out = static_cast<uint8_t*>(whole.out) + n0 * (whole.out_type == FloatType::kFloat32 ? 4 : 2);
  if (whole.bias != nullptr) part.bias += n0;
  if (whole.by_column.values != nullptr) part.by_column.values += n0 * whole.by_column.stride;
  return part;
}

// How many columns a thread takes at once: a whole tile, or less where that leaves threads idle.
int64_t columns_at_once(const std::vector<Gemm>& gemms, const Kernels& k, int64_t threads) {
  for (const int64_t parts : {1, 2}) {
    int64_t tiles = 0;
    for (const Gemm& g : gemms) tiles += ceil_div(g.m, k.gemm_tile_m) * ceil_div(g.n, k.gemm_tile_n / parts);
    if (threads == 1 || tiles >= 4 * threads) return k.gemm_tile_n / parts;
  }
  return k.gemm_tile_n / 4;
}

}  // namespace

void run_gemms(const std::vector<Gemm>& gemms) {
  const Kernels& k = kernels();
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  const int64_t width = columns_at_once(gemms, k, threads);
  std::vector<int64_t> first_tile{0};
  for (const Gemm& g : gemms) {
    first_tile.push_back(first_tile.back() + ceil_div(g.m, k.gemm_tile_m) * ceil_div(g.n, width));
  }
  const int64_t tiles = first_tile.back();
  // Groups differ in size, so a thread takes the next tile whenever it has done one.
  std::atomic<int64_t> next{0};
  for_each_range(std::min(tiles, threads), 1, [&](int64_t, int64_t) {
    const std::unique_ptr<void, FreeDeleter> workspace(
        std::aligned_alloc(64, static_cast<size_t>(ceil_div(k.gemm_workspace, 64) * 64)));
    TORCH_CHECK(workspace != nullptr, "npu_lp: no memory for a matmul workspace of ", k.gemm_workspace, " bytes.");
    size_t index = 0;
    for (int64_t tile = next++; tile < tiles; tile = next++) {
      while (tile >= first_tile[index + 1]) ++index;
      const Gemm& g = gemms[index];
      const int64_t n_tiles = ceil_div(g.n, width), local = tile - first_tile[index], n0 = local % n_tiles * width;
      k.gemm_tile(columns(g, n0, std::min(width, g.n - n0)), local / n_tiles, 0, workspace.get());
    }
  });
}

}  // namespace npu_lp::cpu
