// Work split over torch's threads, each in a defined floating-point environment.
#pragma once

#include <ATen/Parallel.h>

#include "cpu/kernels/kernels.h"

namespace npu_lp::cpu {

// Whether this process was forked from one that had loaded npu_lp. OpenMP's threads do not survive a fork, and waiting
// for them would never end.
bool in_forked_child();

// Runs f(begin, end) over [0, count), at least `grain` items a thread; in a forked child on the calling thread alone.
template <typename F>
void for_each_range(int64_t count, int64_t grain, const F& f) {
  const auto run = [&](int64_t begin, int64_t end) {
    const FloatEnvironment environment;
    f(begin, end);
  };
  if (in_forked_child()) {
    if (count > 0) run(0, count);
  } else {
    at::parallel_for(0, count, std::max<int64_t>(grain, 1), run);
  }
}

}  // namespace npu_lp::cpu
