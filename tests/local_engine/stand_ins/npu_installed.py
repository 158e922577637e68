"""The stand-in in place of an installed torch-npu, for engines in the test's own process."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("installed")
"""To be put on the path of a process, whose engines then find an NPU."""


@contextmanager
def npu_installed() -> Generator[None]:
    """Let `engine.device: npu` mean the stand-in, which stays until the process ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(FOLDER), *sys.path])
        try:
            yield
        finally:
            sys.modules.pop("torch_npu", None)
