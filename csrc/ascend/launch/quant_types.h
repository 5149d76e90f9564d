// From a QuantSpec, which is data, to the template arguments of a kernel.
#pragma once

#include "ascend/kernels/quant_registers.h"
#include "ascend/launch/launcher.h"
#include "ascend/launch/quant.h"

namespace npu_lp::ascend {

template <typename T>
struct Type {
  using type = T;
};

// Calls f(Type<element type>{}).
template <typename F>
void with_float(FloatType type, F&& f) {
  switch (type) {
    case FloatType::kBFloat16:
      return f(Type<bfloat16_t>{});
    case FloatType::kFloat16:
      return f(Type<half>{});
    case FloatType::kFloat32:
      return f(Type<float>{});
  }
}

// Calls f(Type<target>{}) for a format and, of FP4, a rounding. Formats and roundings that the NPU lacks are the host's
// to refuse.
template <template <RoundMode> class Target, typename F>
void with_rounding(Rounding rounding, F&& f) {
  switch (rounding) {
    case Rounding::kRound:
      return f(Type<Target<RoundMode::CAST_ROUND>>{});
    case Rounding::kFloor:
      return f(Type<Target<RoundMode::CAST_FLOOR>>{});
    default:
      return f(Type<Target<RoundMode::CAST_RINT>>{});
  }
}

template <typename F>
void with_target(Format format, Rounding rounding, F&& f) {
  switch (format) {
    case Format::kE5M2:
      return f(Type<ToE5M2>{});
    case Format::kE2M1:
      return with_rounding<ToE2M1>(rounding, f);
    case Format::kE1M2:
      return with_rounding<ToE1M2>(rounding, f);
    default:
      return f(Type<ToE4M3>{});
  }
}

}  // namespace npu_lp::ascend
