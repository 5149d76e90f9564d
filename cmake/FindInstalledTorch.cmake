# Headers and libraries of the torch that is installed in the interpreter's environment. torch's own CMake package is not
# used: in a CUDA build it insists on the CUDA toolkit, which nothing here needs.
#
# setup.py passes the four variables; a build by hand asks the interpreter, with -I so that pip's build isolation, or a
# PYTHONPATH, cannot hide or replace the environment's packages.
if(NOT INSTALLED_TORCH_INCLUDE_DIRS)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -I ${CMAKE_CURRENT_LIST_DIR}/installed_torch.py --cmake
    OUTPUT_VARIABLE INSTALLED_TORCH_SETTINGS
    RESULT_VARIABLE INSTALLED_TORCH_FAILED)
  if(INSTALLED_TORCH_FAILED)
    message(FATAL_ERROR "No usable torch in ${Python_EXECUTABLE}. Install it first: pip install torch==2.13.0")
  endif()
  cmake_language(EVAL CODE "${INSTALLED_TORCH_SETTINGS}")
endif()
message(STATUS "torch ${INSTALLED_TORCH_VERSION}: ${INSTALLED_TORCH_LIB_DIR}")
