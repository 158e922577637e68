"""The wheel and the sdist of the working tree."""

from pathlib import Path

import pytest

from tools.release_build import build_twice

EPOCH = 1_700_000_000


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """By name; raises DifferentBuilds."""
    root = Path(__file__).parents[2]
    return build_twice(root, tmp_path_factory.mktemp("release"), EPOCH)


@pytest.fixture(scope="session")
def wheel_file(built: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    (name,) = (name for name in built if name.endswith(".whl"))
    file = tmp_path_factory.mktemp("wheel") / name
    file.write_bytes(built[name])
    return file
