#include "cpu/parallel.h"

#include <omp.h>
#include <pthread.h>

#include <system_error>

namespace npu_lp::cpu {

namespace {

bool forked = false;

// At load, so that every later fork is seen.
const bool watching = [] {
  const int error = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  if (error != 0) throw std::system_error(error, std::generic_category(), "npu_lp: pthread_atfork");
  return true;
}();

}  // namespace

// OpenMP's number is the calling thread's own; at::set_num_threads would change that of later threads as well.
AloneIfForked::AloneIfForked() {
  if (!forked) return;
  threads_ = at::get_num_threads();
  omp_set_num_threads(1);
  TORCH_INTERNAL_ASSERT(at::get_num_threads() == 1, "npu_lp: torch runs on another OpenMP library");
}

AloneIfForked::~AloneIfForked() {
  if (threads_ != 0) omp_set_num_threads(threads_);
}

}  // namespace npu_lp::cpu
