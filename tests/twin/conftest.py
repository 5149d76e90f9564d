"""What the C++ tests of the twin share: its own sources, compiled once a session."""

from pathlib import Path

import pytest
from twin_build import twin_objects


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the object files of the twin: machine, registers and cube. The workers of pytest-xdist share them."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "twin_objects"
    folder.mkdir(exist_ok=True)
    return twin_objects(folder)
