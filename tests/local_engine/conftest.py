"""Tiny model folders, made once a run, and services over them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.local_engine.tiny import save_model

Folder = Callable[[str], Path]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The folder of a tiny model of some family."""
    made: dict[str, Path] = {}

    def make(family: str) -> Path:
        if family not in made:
            made[family] = save_model(tmp_path_factory.mktemp(family), family)
        return made[family]

    return make
