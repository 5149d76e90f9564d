// Memory of what ops return.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

namespace npu_lp {

// A new contiguous tensor on the device of `like`. Everything that an op returns is made here: on a CPU, large ones ask
// for huge pages, since the first touch of 4-KiB pages costs several times what quantizing to them does.
at::Tensor empty_result(const at::Tensor& like, c10::SymIntArrayRef shape, at::ScalarType dtype);

}  // namespace npu_lp
