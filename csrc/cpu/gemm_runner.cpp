#include "cpu/gemm_runner.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "cpu/parallel.h"

namespace npu_lp::cpu {

namespace {

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};

}  // namespace

void run_gemms(const std::vector<Gemm>& gemms) {
  const Kernels& k = kernels();
  std::vector<int64_t> first_tile{0};
  for (const Gemm& g : gemms) {
    first_tile.push_back(first_tile.back() + ceil_div(g.m, k.gemm_tile_m) * ceil_div(g.n, k.gemm_tile_n));
  }
  for_each_range(first_tile.back(), 1, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<void, FreeDeleter> workspace(
        std::aligned_alloc(64, static_cast<size_t>(ceil_div(k.gemm_workspace, 64) * 64)));
    TORCH_CHECK(workspace != nullptr, "npu_lp: no memory for a matmul workspace of ", k.gemm_workspace, " bytes.");
    size_t index =
        static_cast<size_t>(std::upper_bound(first_tile.begin(), first_tile.end(), begin) - first_tile.begin()) - 1;
    for (int64_t tile = begin; tile < end; ++tile) {
      while (tile >= first_tile[index + 1]) ++index;
      const Gemm& g = gemms[index];
      const int64_t n_tiles = ceil_div(g.n, k.gemm_tile_n), local = tile - first_tile[index];
      k.gemm_tile(g, local / n_tiles, local % n_tiles, workspace.get());
    }
  });
}

}  // namespace npu_lp::cpu
