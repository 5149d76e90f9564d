#include "ascend/launch/matmul.h"

#include "ascend/kernels/hif8_matmul.h"
#include "ascend/kernels/mx_grouped_matmul.h"
#include "ascend/kernels/mx_matmul.h"
#include "ascend/launch/launcher.h"

namespace npu_lp::ascend {

namespace {

template <typename T>
struct Type {
  using type = T;
};

// Calls f with the element types of A and B.
template <typename F>
void with_types(Format a, Format b, F&& f) {
  const auto fp8 = [](Format format, auto&& next) {
    format == Format::kE5M2 ? next(Type<fp8_e5m2_t>{}) : next(Type<fp8_e4m3fn_t>{});
  };
  const auto fp4 = [](Format format, auto&& next) {
    format == Format::kE1M2 ? next(Type<fp4x2_e1m2_t>{}) : next(Type<fp4x2_e2m1_t>{});
  };
  if (info(a).bits == 4) {
    fp4(a, [&](auto ta) { fp4(b, [&](auto tb) { f(ta, tb); }); });
  } else {
    fp8(a, [&](auto ta) { fp8(b, [&](auto tb) { f(ta, tb); }); });
  }
}

}  // namespace

void launch_mx_matmul(Stream stream, const MatmulTiling& tiling, Format a_format, Format b_format, const void* a,
                      const void* b, const void* a_scale, const void* b_scale, const void* bias, void* out) {
  if (tiling.blocks == 0) return;
  with_types(a_format, b_format, [&](auto ta, auto tb) {
    using TA = typename decltype(ta)::type;
    using TB = typename decltype(tb)::type;
    NPU_LP_LAUNCH(cube, NPU_LP_KERNEL(mx_matmul<TA, TB>), tiling.blocks, stream, gm(a), gm(b), gm(a_scale), gm(b_scale),
                  gm(bias), gm(out), tiling);
  });
}

void launch_mx_grouped_matmul(Stream stream, const MatmulTiling& tiling, Format a_format, Format b_format,
                              const void* a, const void* b, const void* a_scale, const void* b_scale,
                              const void* offsets, void* out) {
  if (tiling.blocks == 0) return;
  with_types(a_format, b_format, [&](auto ta, auto tb) {
    using TA = typename decltype(ta)::type;
    using TB = typename decltype(tb)::type;
    NPU_LP_LAUNCH(cube, NPU_LP_KERNEL(mx_grouped_matmul<TA, TB>), tiling.blocks, stream, gm(a), gm(b), gm(a_scale),
                  gm(b_scale), gm(offsets), gm(out), tiling);
  });
}

void launch_hif8_matmul(Stream stream, const MatmulTiling& tiling, const void* a, const void* b, const void* a_scale,
                        const void* b_scale, void* out) {
  if (tiling.blocks == 0) return;
  NPU_LP_LAUNCH(cube, hif8_matmul, tiling.blocks, stream, gm(a), gm(b), gm(a_scale), gm(b_scale), gm(out), tiling);
}

void launch_hif8_grouped_matmul(Stream stream, const MatmulTiling& tiling, const void* a, const void* b,
                                const void* a_scale, const void* b_scale, const void* offsets, void* out) {
  if (tiling.blocks == 0) return;
  NPU_LP_LAUNCH(cube, hif8_grouped_matmul, tiling.blocks, stream, gm(a), gm(b), gm(a_scale), gm(b_scale), gm(offsets),
                gm(out), tiling);
}

}  // namespace npu_lp::ascend
