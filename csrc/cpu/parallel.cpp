#include "cpu/parallel.h"

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

bool in_forked_child() {
  return forked;
}

}  // namespace npu_lp::cpu
