"""Prints where the installed torch keeps its headers and libraries, as JSON, or with --cmake as CMake set() calls.

Run with `python -I`, so that the answer is the environment's torch even inside pip's isolated builds.
"""

import json
import sys

import torch
from torch.utils import cpp_extension

settings = {
    "INSTALLED_TORCH_VERSION": torch.__version__,
    "INSTALLED_TORCH_INCLUDE_DIRS": ";".join(cpp_extension.include_paths()),
    "INSTALLED_TORCH_LIB_DIR": cpp_extension.library_paths()[0],
    "INSTALLED_TORCH_CXX11_ABI": str(int(torch.compiled_with_cxx11_abi())),
}
if "--cmake" in sys.argv:
    for name, value in settings.items():
        print(f'set({name} "{value}")')
else:
    print(json.dumps(settings))
