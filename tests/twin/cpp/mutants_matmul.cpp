// Fault injection, cube side: a few instances of the matmul kernels, and small products that between them use every
// part of the pipeline: several tiles a core, tails of every kind, transposed operands, tiles with and without unit
// flags.
#include "ascend/kernels/hif8_matmul.h"
#include "ascend/kernels/mx_grouped_matmul.h"
#include "ascend/kernels/mx_matmul.h"
#include "ascend/launch/launcher.h"
#include "ascend/launch/matmul.h"
#include "matmul_cases.h"
#include "mutants.h"

namespace npu_lp::ascend {

// launch/matmul.cpp has these for all formats; here are those of the cases only.
void launch_mx_matmul(Stream stream, const MatmulTiling& tiling, Format a_format, Format, const void* a, const void* b,
                      const void* a_scale, const void* b_scale, const void* bias, void* out) {
  if (info(a_format).bits == 4) {
    NPU_LP_LAUNCH(cube, NPU_LP_KERNEL(mx_matmul<fp4x2_e2m1_t, fp4x2_e2m1_t>), tiling.blocks, stream, gm(a), gm(b),
                  gm(a_scale), gm(b_scale), gm(bias), gm(out), tiling);
  } else {
    NPU_LP_LAUNCH(cube, NPU_LP_KERNEL(mx_matmul<fp8_e4m3fn_t, fp8_e4m3fn_t>), tiling.blocks, stream, gm(a), gm(b),
                  gm(a_scale), gm(b_scale), gm(bias), gm(out), tiling);
  }
}

void launch_mx_grouped_matmul(Stream stream, const MatmulTiling& tiling, Format, Format, const void* a, const void* b,
                              const void* a_scale, const void* b_scale, const void* offsets, void* out) {
  NPU_LP_LAUNCH(cube, NPU_LP_KERNEL(mx_grouped_matmul<fp8_e4m3fn_t, fp8_e4m3fn_t>), tiling.blocks, stream, gm(a), gm(b),
                gm(a_scale), gm(b_scale), gm(offsets), gm(out), tiling);
}

void launch_hif8_matmul(Stream stream, const MatmulTiling& tiling, const void* a, const void* b, const void* a_scale,
                        const void* b_scale, void* out) {
  NPU_LP_LAUNCH(cube, hif8_matmul, tiling.blocks, stream, gm(a), gm(b), gm(a_scale), gm(b_scale), gm(out), tiling);
}

void launch_hif8_grouped_matmul(Stream stream, const MatmulTiling& tiling, const void* a, const void* b,
                                const void* a_scale, const void* b_scale, const void* offsets, void* out) {
  NPU_LP_LAUNCH(cube, hif8_grouped_matmul, tiling.blocks, stream, gm(a), gm(b), gm(a_scale), gm(b_scale), gm(offsets),
                gm(out), tiling);
}

}  // namespace npu_lp::ascend

namespace {

using namespace matmul_cases;
using npu_lp::twin::Options;

Case sized(int64_t m, int64_t n, int64_t k, int cores, MatmulTilingChoice choice, Format format = Format::kE4M3) {
  Case c;
  c.problem.m = m;
  c.problem.n = n;
  c.problem.k = k;
  c.problem.a_format = c.problem.b_format = format;
  c.cores = cores;
  c.choice = choice;
  return c;
}

// Choices are {base_m, base_n, base_k, step_k, scale_factor, stages}.
Case dense() {  // four tiles a core, several chunks and loads of scales, K ends inside a pair of blocks
  return sized(70, 200, 1000, 2, {64, 64, 64, 2, 2, 2});
}

Case transposed() {  // rows are rounded up to squares, so that no tile has a unit flag
  Case c = sized(40, 136, 300, 1, {64, 64, 64, 2, 2, 2});
  c.problem.a.k_leading = c.problem.b.k_leading = true;
  c.problem.a.scale_k_leading = c.problem.b.scale_k_leading = true;
  return c;
}

Case with_bias() {
  Case c = sized(40, 300, 130, 1, {64, 64, 128, 1, 1, 2});
  c.problem.has_bias = true;
  c.problem.out = MatmulOut::kFloat32;
  return c;
}

Case bias_of_short_tiles() {  // one step each: their products follow each other at once
  Case c = sized(20, 200, 60, 1, {32, 32, 64, 1, 1, 2});
  c.problem.has_bias = true;
  return c;
}

Case accumulating() {
  Case c = sized(20, 40, 96, 2, {16, 32, 64, 1, 1, 2});
  c.problem.accumulate = true;
  c.problem.out = MatmulOut::kFloat32;
  return c;
}

Case fp4() {
  Case c = sized(35, 50, 320, 2, {32, 32, 128, 1, 2, 2}, Format::kE2M1);
  c.problem.out = MatmulOut::kFloat16;
  return c;
}

Case full_slots() {  // a step of A fills its slot of L0
  return sized(256, 32, 512, 1, {256, 32, 128, 2, 2, 2});
}

Case full_slots_of_results() {  // a tile fills its slot of L0C, without unit flags
  Case c = sized(232, 256, 64, 1, {256, 128, 64, 1, 1, 2});
  c.problem.a.k_leading = true;
  return c;
}

Case four_stages() {
  return sized(48, 48, 1200, 1, {48, 48, 128, 1, 3, 4});
}

Case batches() {
  Case c = sized(33, 20, 70, 2, {32, 32, 64, 1, 1, 2});
  c.problem.batches = 3;
  c.problem.a.k_leading = true;
  return c;
}

Case split_m() {  // an empty group, and rows after the last
  Case c = sized(120, 70, 200, 3, {32, 64, 64, 2, 1, 2});
  c.problem.split = MatmulSplit::kM;
  c.ends = {37, 37, 80, 100};
  return c;
}

Case split_k() {
  Case c = sized(40, 50, 300, 2, {32, 64, 64, 2, 1, 2});
  c.problem.split = MatmulSplit::kK;
  c.problem.a.k_leading = c.problem.b.k_leading = true;
  c.problem.a.scale_k_leading = c.problem.b.scale_k_leading = true;
  c.ends = {70, 70, 190, 300};
  return c;
}

Case hif8() {
  Case c = sized(33, 90, 100, 2, {32, 64, 64, 1, 1, 2}, Format::kHiF8);
  c.problem.scale_out = true;
  return c;
}

Case hif8_split_m() {
  Case c = sized(60, 40, 96, 2, {32, 64, 64, 1, 1, 2}, Format::kHiF8);
  c.problem.split = MatmulSplit::kM;
  c.problem.scale_out = c.problem.a_scale_per_group = c.problem.b_scale_per_group = true;
  c.ends = {10, 40, 60};
  return c;
}

mutants::Case named(const char* name, Case (*make)()) {
  return {name, [make](const Options& options) {
            Case c = make();
            c.options = options;
            std::string first;
            const int64_t wrong = run(c, 7, first);
            return wrong == 0 ? std::string() : std::to_string(wrong) + " wrong; " + first;
          }};
}

}  // namespace

int main(int argc, char** argv) {
  return mutants::run_all(
      {named("dense", dense), named("transposed", transposed), named("bias", with_bias),
       named("bias, short tiles", bias_of_short_tiles), named("accumulate", accumulating), named("fp4", fp4),
       named("full slots of L0", full_slots), named("full slots of L0C", full_slots_of_results),
       named("four stages", four_stages), named("batches", batches), named("split m", split_m),
       named("split k", split_k), named("hif8", hif8), named("hif8 split m", hif8_split_m)},
      argc, argv);
}
