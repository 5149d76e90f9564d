# The CPU kernel library: one object library for each instruction set. It depends on neither torch nor Python.
# -ffp-contract=off: a fused multiply-add is written, never chosen by the compiler, or the bits of a result would depend
# on it.
set(NPU_LP_KERNEL_FLAGS ${NPU_LP_WARNINGS} -fno-math-errno -fno-trapping-math -ffp-contract=off)
get_filename_component(NPU_LP_CSRC ${CMAKE_CURRENT_LIST_DIR}/../csrc ABSOLUTE)

function(npu_lp_add_isa target name)
  add_library(npu_lp_isa_${name} OBJECT ${NPU_LP_CSRC}/cpu/kernels/isa_${name}.cpp)
  target_include_directories(npu_lp_isa_${name} PRIVATE ${NPU_LP_CSRC})
  target_compile_options(npu_lp_isa_${name} PRIVATE ${NPU_LP_KERNEL_FLAGS} ${ARGN})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:npu_lp_isa_${name}>)
endfunction()

# Adds what the processor that is built for may have to a target that compiles dispatch.cpp.
function(npu_lp_add_kernels target)
  npu_lp_add_isa(${target} baseline)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    npu_lp_add_isa(${target} v3 -march=x86-64-v3)
    # gcc 12 takes the undefined registers in its own AVX-512 headers for ours (its bug 105593).
    npu_lp_add_isa(${target} v4 -march=x86-64-v4 -mavx512vbmi
      $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()
