"""The wheel and the sdist of the working tree."""

from pathlib import Path

import pytest

from tools.release_build import build, copy, tracked

EPOCH = 1_700_000_000


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """By name; of one build, of which `make dist` does three."""
    root = Path(__file__).parents[2]
    folder = tmp_path_factory.mktemp("release")
    copy(root, tracked(root), folder / "copy")
    return build(folder / "copy", folder / "out", EPOCH)


@pytest.fixture(scope="session")
def wheel_file(built: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    (name,) = (name for name in built if name.endswith(".whl"))
    file = tmp_path_factory.mktemp("wheel") / name
    file.write_bytes(built[name])
    return file
