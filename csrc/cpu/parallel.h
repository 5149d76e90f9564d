// Work split over torch's threads, each in a defined floating-point environment.
#pragma once

#include <ATen/Parallel.h>

#include "cpu/kernels/kernels.h"

namespace npu_lp::cpu {

// In a process that was forked from one that had loaded npu_lp, the calling thread works alone while this lives, in
// torch's operators too: OpenMP's threads do not survive a fork, and waiting for them would never end. Every op of the
// backend runs within one (register.cpp).
class AloneIfForked {
 public:
  AloneIfForked();
  ~AloneIfForked();
  AloneIfForked(const AloneIfForked&) = delete;
  AloneIfForked& operator=(const AloneIfForked&) = delete;

 private:
  int threads_ = 0;  // to return to; 0: nothing was changed
};

// Runs f(begin, end) over [0, count), at least `grain` items a thread.
template <typename F>
void for_each_range(int64_t count, int64_t grain, const F& f) {
  at::parallel_for(0, count, std::max<int64_t>(grain, 1), [&](int64_t begin, int64_t end) {
    const FloatEnvironment environment;
    f(begin, end);
  });
}

}  // namespace npu_lp::cpu
