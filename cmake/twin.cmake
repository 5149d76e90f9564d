# The CPU twin: AscendC's API in C++ (csrc/twin), the kernels of csrc/ascend compiled against it, and the ops that launch
# them. Neither torch nor Python below npu_lp_twin itself.
find_package(Threads REQUIRED)

file(GLOB NPU_LP_TWIN_SOURCES CONFIGURE_DEPENDS
  csrc/twin/*.cpp csrc/twin/timing/*.cpp csrc/ascend/tiling/*.cpp csrc/ascend/launch/*.cpp)
add_library(npu_lp_twin_machine OBJECT ${NPU_LP_TWIN_SOURCES} csrc/ascend/host/twin_launch.cpp)
target_include_directories(npu_lp_twin_machine PRIVATE csrc csrc/twin)
# -O2: the kernels are templates of templates, and -O3 compiles twice as long for nothing.
target_compile_options(npu_lp_twin_machine PRIVATE ${NPU_LP_WARNINGS} -O2 -ffp-contract=off)
set_target_properties(npu_lp_twin_machine PROPERTIES CXX_VISIBILITY_PRESET default)  # _twin uses what it likes of it

# The ops that csrc/ascend/host has for tensors; all of it but the runtimes.
file(GLOB NPU_LP_HOST_SOURCES CONFIGURE_DEPENDS csrc/ascend/host/*.cpp)
list(FILTER NPU_LP_HOST_SOURCES EXCLUDE REGEX "/(twin|npu)_[^/]*$")

add_library(npu_lp_twin SHARED
  $<TARGET_OBJECTS:npu_lp_checks>
  $<TARGET_OBJECTS:npu_lp_twin_machine>
  ${NPU_LP_HOST_SOURCES}
  csrc/ascend/host/twin_backend.cpp
  csrc/ascend/host/twin_runtime.cpp)
npu_lp_use_torch(npu_lp_twin)
target_compile_options(npu_lp_twin PRIVATE -O2)
target_link_libraries(npu_lp_twin PRIVATE npu_lp Threads::Threads)
set_target_properties(npu_lp_twin PROPERTIES CXX_VISIBILITY_PRESET default SKIP_BUILD_RPATH OFF
  INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)

# Compiled against the pybind11 that torch brings: its exceptions pass through torch's.
file(GLOB NPU_LP_TWIN_MODULE_SOURCES CONFIGURE_DEPENDS csrc/python/twin_*.cpp)
Python_add_library(_twin MODULE WITH_SOABI ${NPU_LP_TWIN_MODULE_SOURCES})
npu_lp_use_torch(_twin)
target_include_directories(_twin PRIVATE csrc/twin)
target_compile_options(_twin PRIVATE -O2 -ffp-contract=off)
target_link_libraries(_twin PRIVATE npu_lp_twin)
set_target_properties(_twin PROPERTIES SKIP_BUILD_RPATH OFF INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
