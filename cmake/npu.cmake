# The NPU part: the kernels compiled by bisheng for Ascend 950, and the binding to torch_npu. Included where
# ASCEND_HOME_PATH is set; -DNPU_LP_NPU=OFF builds without it.
execute_process(
  COMMAND ${Python_EXECUTABLE} -I ${CMAKE_CURRENT_LIST_DIR}/check_cann.py
  OUTPUT_VARIABLE NPU_LP_CANN_SETTINGS ERROR_VARIABLE NPU_LP_CANN_PROBLEMS
  RESULT_VARIABLE NPU_LP_CANN_FAILED)
if(NPU_LP_CANN_FAILED)
  message(FATAL_ERROR "${NPU_LP_CANN_PROBLEMS}")
endif()
cmake_language(EVAL CODE "${NPU_LP_CANN_SETTINGS}")

set(CMAKE_ASC_ARCHITECTURES "dav-3510")  # --npu-arch=dav-3510
find_package(ASC REQUIRED HINTS ${ASC_DIR})
enable_language(ASC)

# The launch sources are C++ for the twin and ASC here: one file that includes each, so that both languages are named.
file(GLOB NPU_LP_LAUNCH_SOURCES CONFIGURE_DEPENDS csrc/ascend/launch/*.cpp)
set(NPU_LP_ASC_SOURCES)
foreach(source ${NPU_LP_LAUNCH_SOURCES})
  cmake_path(GET source STEM name)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/asc/${name}.asc CONTENT "#include \"${source}\"\n")
  list(APPEND NPU_LP_ASC_SOURCES ${CMAKE_CURRENT_BINARY_DIR}/asc/${name}.asc)
endforeach()
add_library(npu_lp_npu_kernels OBJECT ${NPU_LP_ASC_SOURCES})
target_include_directories(npu_lp_npu_kernels PRIVATE csrc)
target_compile_definitions(npu_lp_npu_kernels PRIVATE NPU_LP_BISHENG)
target_compile_options(npu_lp_npu_kernels PRIVATE -O3 -std=c++17)

file(GLOB NPU_LP_TILING_SOURCES CONFIGURE_DEPENDS csrc/ascend/tiling/*.cpp)
add_library(npu_lp_npu SHARED
  $<TARGET_OBJECTS:npu_lp_checks>
  $<TARGET_OBJECTS:npu_lp_npu_kernels>
  ${NPU_LP_TILING_SOURCES}
  ${NPU_LP_HOST_SOURCES}
  csrc/ascend/host/npu_backend.cpp
  csrc/ascend/host/npu_runtime.cpp)
npu_lp_use_torch(npu_lp_npu)
# torch_npu's own ACL headers come first: the binding must agree with the torch_npu that it is loaded beside.
target_include_directories(npu_lp_npu SYSTEM PRIVATE
  ${TORCH_NPU_DIR}/include ${TORCH_NPU_DIR}/include/third_party/acl/inc ${CANN_INCLUDE_DIR})
target_link_directories(npu_lp_npu PRIVATE ${TORCH_NPU_DIR}/lib ${CANN_LIB_DIR})
target_link_libraries(npu_lp_npu PRIVATE torch_npu ascendcl)
set_target_properties(npu_lp_npu PROPERTIES LINKER_LANGUAGE ASC)
