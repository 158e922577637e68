"""The wheel and the sdist of the working tree."""

import fcntl
import os
from pathlib import Path

import pytest

from tools.release_build import build, copy, tracked

EPOCH = 1_700_000_000


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """By name; of one build, of which `make dist` does three."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return _build(tmp_path_factory.mktemp("release"))
    folder = tmp_path_factory.getbasetemp().parent / "release"  # of all workers
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            made = _build(folder)
            new = folder / "new"
            new.mkdir(exist_ok=True)
            for name, data in made.items():
                (new / name).write_bytes(data)
            new.rename(done)
        return {file.name: file.read_bytes() for file in done.iterdir()}


def _build(folder: Path) -> dict[str, bytes]:
    root = Path(__file__).parents[2]
    copy(root, tracked(root), folder / "copy")
    return build(folder / "copy", folder / "out", EPOCH)


@pytest.fixture(scope="session")
def wheel_file(built: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    (name,) = (name for name in built if name.endswith(".whl"))
    file = tmp_path_factory.mktemp("wheel") / name
    file.write_bytes(built[name])
    return file
