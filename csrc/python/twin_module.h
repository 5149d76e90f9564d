// Parts of npu_lp._twin, each in a file of its own (csrc/python/twin_*.cpp). Compiled against torch's pybind11.
#pragma once

#include <torch/csrc/python_headers.h>

// pybind11 after Python's header
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace npu_lp {

namespace py = pybind11;

}  // namespace npu_lp
