"""Loads the compiled ops, or says exactly why that is impossible."""

import importlib
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import torch

_PACKAGE = Path(__file__).parent
LIBRARY = _PACKAGE / "libnpu_lp.so"
TWIN_LIBRARY = _PACKAGE / "libnpu_lp_twin.so"
NPU_LIBRARY = _PACKAGE / "libnpu_lp_npu.so"
_REBUILD = "Build it for this environment:\n    pip install -e .        (in a clone of npu_lp)"


def load() -> None:
    """Register torch.ops.npu_lp.* by loading libnpu_lp.so; in a process with torch_npu, its NPU kernels too.

    Raises:
        ImportError: the library is missing, was built for another torch, or the loader refused it. The message says
            which, and what to do.
    """
    if not LIBRARY.exists() or util.find_spec("npu_lp._build_info") is None:
        raise ImportError(f"npu_lp's compiled library is missing: {LIBRARY} does not exist. {_REBUILD}")
    from npu_lp._build_info import TORCH_VERSION

    # Compared before loading: a library for another torch may load and then crash.
    if torch.__version__ != TORCH_VERSION:
        raise ImportError(
            f"npu_lp's compiled library was built for torch {TORCH_VERSION}, but torch {torch.__version__} is installed. "
            f"{_REBUILD}"
        )
    libraries = [LIBRARY]
    if NPU_LIBRARY.exists() and "torch_npu" in sys.modules:  # torch imports it by itself; it is never imported from here
        libraries.append(NPU_LIBRARY)
    for library in libraries:
        try:
            torch.ops.load_library(str(library))
        except OSError as error:
            # torch raises an OSError of its own, which names the file only, from the loader's, which has the reason.
            reason = error.__cause__ or error
            raise ImportError(f"npu_lp's compiled library {library} cannot be loaded: {reason}. {_REBUILD}") from error


def load_twin() -> ModuleType:
    """Load libnpu_lp_twin.so, which announces itself as a backend, and return its Python module.

    Raises:
        ImportError: the library or its module is missing, or the loader refused it.
    """
    if not TWIN_LIBRARY.exists():
        raise ImportError(f"npu_lp's twin of the Ascend kernels is missing: {TWIN_LIBRARY} does not exist. {_REBUILD}")
    try:
        module = importlib.import_module("npu_lp._twin")
    except ImportError as error:
        raise ImportError(f"npu_lp's twin {TWIN_LIBRARY} cannot be loaded: {error}. {_REBUILD}") from error
    from npu_lp.twin import TwinError

    module.set_error_class(TwinError)
    return module
