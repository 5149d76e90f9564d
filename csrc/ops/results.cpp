#include "ops/results.h"

#include <ATen/ATen.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace npu_lp {

namespace {

constexpr uintptr_t kHugePage = 2 << 20;

void advise_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kHugePage * kHugePage;
  // Fails where the kernel has no huge pages; the tensor then is like any other of torch's.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace

at::Tensor empty_result(const at::Tensor& like, c10::SymIntArrayRef shape, at::ScalarType dtype) {
  at::Tensor result = at::empty_symint(shape, like.options().dtype(dtype));
  if (result.device().is_cpu()) advise_huge_pages(result.mutable_data_ptr(), result.nbytes());
  return result;
}

}  // namespace npu_lp
